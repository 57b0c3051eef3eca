"""Kill every process at once in the middle of an ingest, and start again over the same data directory."""

import time

from tests.deployment import Deployment, ScriptedProvider, corpus

IN_FLIGHT = 16


def answered(provider):
    return sum(provider.stats()["answered"].values())


def wait_for_calls(provider, count):
    deadline = time.monotonic() + 60
    while answered(provider) < count:
        assert time.monotonic() < deadline, "the provider is not called"
        time.sleep(0.02)


def test_it_finishes_by_itself_and_pays_twice_at_most_what_was_in_flight(tmp_path):
    provider = ScriptedProvider(latency_seconds=0.3)
    documents = corpus(documents=40)
    settings = provider.settings(llm_max_in_flight=IN_FLIGHT, tuning={"lease": 3})
    try:
        first = Deployment(settings, tmp_path)
        first.start()
        first.ingest(documents)
        wait_for_calls(provider, 70)
        first.kill_everything()
        first.client.close()

        with Deployment(settings, tmp_path) as second:
            settled = second.wait_until_settled(len(documents))

            assert [d["state"] for d in settled] == ["ready"] * len(documents)
            assert sum(d["chunks"]["indexed"] for d in settled) == 200
            assert second.stored_points().keys() == second.expected_points()
        stats = provider.stats()
        assert len(stats["answered"]) == 200
        assert stats["calls"] - 200 <= IN_FLIGHT
    finally:
        provider.close()
