"""The provider answers with errors, not at all, in pieces or with nonsense: every chunk ends all the same."""


def test_a_share_of_its_replies_is_of_no_use(fleet, provider, begin, scale):
    scenario = begin("10", "500s, timeouts, truncated, slow")
    corpus = scenario.corpus(scale.documents)
    hopeless = next(iter(corpus.values()))[1].mark
    shares = {"share_500": 0.02, "share_hang": 0.02, "share_truncated": 0.02, "share_drip": 0.02}
    provider.script(latency_seconds=0.1, malformed_containing=hopeless, **shares)

    scenario.hand_in(corpus)
    documents = scenario.settle()
    (letter,) = fleet.client.get("/v1/dead", params={"collection": scenario.collection}).json()["items"]
    degraded = [d for d in documents if d["state"] == "degraded"]
    provider.script(malformed_containing="")
    fleet.client.post("/v1/dead/retry", json={"collection": scenario.collection}).raise_for_status()
    scenario.settle()

    assert letter["document_id"] == degraded[0]["id"]
    assert "malformed" in letter["reason"]
    assert len(degraded) == 1
    row = scenario.judge(note="1 dead, retried")
    assert row.calls > row.chunks
