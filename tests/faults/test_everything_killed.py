"""Every process is killed at once in the middle of an ingest, and started again over the same data directory."""


def test_killing_everything_recovers_and_pays_twice_only_inflight(fleet, provider, begin, scale):
    scenario = begin("1b", "kill -9 of everything at once")
    provider.script(latency_seconds=0.3)
    scenario.hand_in(scenario.corpus(scale.documents))
    scenario.wait_for_answers(scenario.chunks // 3)

    fleet.restart()

    scenario.settle()
    scenario.judge(note=f"{scenario.deaths()} processes and 3 engines")
