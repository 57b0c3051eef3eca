"""Qdrant is away, dies, or its replies are lost: what is paid for waits, and no point is written twice."""

import time


def test_qdrant_outage_delays_but_loses_nothing(fleet, provider, begin, scale):
    scenario = begin("7a", "Qdrant gone")
    provider.script(latency_seconds=0.2)
    scenario.submit(scenario.corpus(scale.documents))
    scenario.wait_for_answers(30)

    fleet.fault("qdrant", "cut")
    question = {"collection": scenario.collection, "question": "What is said of item7?"}
    query = fleet.client.post("/v1/retrieve", json=question)
    time.sleep(scale.away_seconds)
    fleet.fault("qdrant")

    assert query.status_code == 503
    assert query.json()["component"] == "qdrant"
    assert int(query.headers["retry-after"]) >= 1
    scenario.settle()
    needed = 6 * scenario.chunks
    row = scenario.check(note=f"{provider.stats()['embedded_inputs'] / needed:.2f} times the embeddings")
    assert row.calls == row.chunks
    assert provider.stats()["embedded_inputs"] < 2 * needed  # indexing pauses instead of embedding in vain


def test_killed_qdrant_engine_loses_nothing(fleet, provider, begin, scale):
    scenario = begin("7b", "kill -9 of Qdrant")
    provider.script(latency_seconds=0.2)
    scenario.submit(scenario.corpus(scale.documents))
    scenario.wait_for_answers(30)

    before = fleet.engine("qdrant")
    fleet.kill_engine("qdrant")
    fleet.wait_until(lambda: fleet.engine("qdrant") != before, "Qdrant's engine did not come back")

    scenario.settle()
    row = scenario.check()
    assert row.calls == row.chunks


def test_lost_write_replies_duplicate_no_points(fleet, provider, begin, scale):
    scenario = begin("8", "replies of Qdrant lost")
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


def test_qdrant_rejecting_writes_loses_nothing(fleet, provider, begin, scale):
    scenario = begin("7c", "Qdrant refuses writes")
    provider.script(latency_seconds=0.2)
    scenario.submit(scenario.corpus(scale.documents))
    scenario.wait_for_answers(30)
    scenario.wait_for_chunks("searchable")

    fleet.fault("qdrant", refuse="?wait=true", status=500)  # as it answers while its disk is full
    scenario.wait_for_chunks("generated")
    before = provider.stats()["embedded_inputs"]
    time.sleep(scale.away_seconds + 4)
    meanwhile = provider.stats()["embedded_inputs"] - before
    question = {"collection": scenario.collection, "question": "What is said of item7?"}
    query = fleet.client.post("/v1/retrieve", json=question)
    refused = fleet.report("qdrant")["refused"]
    fleet.fault("qdrant")

    assert query.status_code == 200
    scenario.settle()
    needed = 6 * scenario.chunks
    embedded = provider.stats()["embedded_inputs"]
    row = scenario.check(note=f"{refused} writes refused, {embedded / needed:.2f} times the embeddings")
    assert row.calls == row.chunks
    assert meanwhile < needed / 2  # workers wait for a write instead of embedding in vain
    assert embedded < 2 * needed
