"""Qdrant is unavailable, dies or loses replies: paid questions are kept, and no point is written twice."""

import time

from tests.support.planted import guards


def stays(value, seconds):
    """Return whether the function's value is the same after a time."""
    before = value()
    time.sleep(seconds)
    return value() == before


@guards(
    "shared/vectors/transport/errors.py",
    'raise Unavailable(_unreachable(error), component="qdrant", retry_after=RETRY_AFTER)',
    "raise ForeaskError(_unreachable(error))",
    means="an unavailable Qdrant makes the chunk a dead letter",
)
def test_qdrant_outage_delays_but_loses_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("7a", "Qdrant unavailable")
    provider.script(latency_seconds=0.2)
    scenario.submit(scenario.corpus(scale.documents))
    scenario.wait_for_answers(30)

    fleet.fault("qdrant", "cut")
    question = {"collection": scenario.collection, "question": "What is said of item7?"}
    query = fleet.client.post("/v1/retrieve", json=question)
    time.sleep(scale.outage_seconds)
    fleet.fault("qdrant")

    assert query.status_code == 503
    assert query.json()["component"] == "qdrant"
    assert int(query.headers["retry-after"]) >= 1
    scenario.settle()
    needed = 6 * scenario.chunks
    row = scenario.check(note=f"{provider.stats()['embedded_inputs'] / needed:.2f} times the embeddings")
    assert row.calls == row.chunks
    # Indexing pauses instead of wasting embeddings. When Qdrant stops, all chunks may be embedded but not written.
    assert provider.stats()["embedded_inputs"] < 2.5 * needed


def test_killed_qdrant_engine_loses_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("7b", "kill -9 of Qdrant")
    provider.script(latency_seconds=0.2)
    scenario.submit(scenario.corpus(scale.documents))
    scenario.wait_for_answers(30)

    before = fleet.engine("qdrant")
    fleet.kill_engine("qdrant")
    fleet.wait_until(lambda: fleet.engine("qdrant") != before, "Qdrant was not restarted")

    scenario.settle()
    row = scenario.check()
    assert row.calls == row.chunks


@guards(
    "shared/vectors/schema/points.py",
    "question_point_id(chunk, version, ordinal)",
    "question_point_id(chunk, version, ordinal + 100 * (id(context) % 9973))",
    means="questions get different ids at each claim",
)
def test_lost_write_replies_duplicate_no_points(fleet, provider, start_scenario, scale):
    scenario = start_scenario("8", "Qdrant's replies lost")
    corpus = scenario.corpus(scale.documents // 2)
    fleet.fault("qdrant", swallow="/points?wait=true", times=4)
    scenario.submit(corpus)
    scenario.settle()
    lost = fleet.report("qdrant")["swallowed"]
    fleet.fault("qdrant", swallow="/points/batch?wait=true", times=4)
    scenario.update(corpus, changed=2, version=2)
    scenario.settle()

    lost = fleet.report("qdrant")["swallowed"]
    row = scenario.check(note=f"{lost} replies lost")
    assert lost == 8
    assert row.calls == row.chunks + 2 * len(corpus)


@guards(
    "shared/vectors/transport/errors.py",
    'return Unavailable(sentence, component="qdrant", retry_after=error.retry_after or RETRY_AFTER)',
    "return ForeaskError(sentence)",
    means="a full disk of Qdrant makes the chunk a dead letter",
)
def test_qdrant_rejecting_writes_loses_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("7c", "Qdrant rejects writes")
    provider.script(latency_seconds=0.2)
    corpus = list(scenario.corpus(scale.documents).items())
    first, later = dict(corpus[:-4]), dict(corpus[-4:])
    scenario.submit(first)
    scenario.wait_for_answers(30)
    scenario.wait_for_chunks("searchable")

    def embedded():
        return provider.stats()["embedded_inputs"]

    fleet.fault("qdrant", refuse="?wait=true", status=500)  # Qdrant replies like this while its disk is full
    scenario.wait_for_chunks("generated")
    fleet.wait_until(lambda: stays(embedded, 2), "workers embed the same chunks again")
    before = embedded()
    scenario.submit(later)
    scenario.wait_for_chunks("total")
    refused = fleet.report("qdrant")["refused"]
    message = "no worker asks whether Qdrant takes writes again"
    fleet.wait_until(lambda: fleet.report("qdrant")["refused"] >= refused + 6, message)
    time.sleep(scale.outage_seconds + 4)
    assert embedded() == before  # workers wait for a write instead of embedding chunks that they cannot write
    question = {"collection": scenario.collection, "question": "What is said of item7?"}
    query = fleet.client.post("/v1/retrieve", json=question)
    refused = fleet.report("qdrant")["refused"]
    fleet.fault("qdrant")

    assert query.status_code == 200
    scenario.settle()
    times = embedded() / (6 * scenario.chunks)
    row = scenario.check(note=f"{refused} writes rejected, {times:.2f} times the embeddings")
    assert row.calls == row.chunks
