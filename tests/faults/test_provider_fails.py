"""The provider returns errors, nothing, fragments or nonsense: every chunk still reaches a final state."""

import time

from tests.support.planted import guards


@guards(
    "shared/ingest/generate/question_list.py",
    "except MalformedReply as fault:",
    "except TruncatedReply:\n            return GeneratedQuestions((), usage, 1)\n"
    "        except MalformedReply as fault:",
    means="a truncated reply is treated as a reply without questions",
)
def test_useless_provider_replies_lose_nothing(fleet, provider, start_scenario, scale):
    scenario = start_scenario("10", "500s, timeouts, truncated, slow")
    corpus = scenario.corpus(scale.documents)
    hopeless = next(iter(corpus.values()))[1].mark
    shares = {"share_500": 0.02, "share_hang": 0.02, "share_truncated": 0.02, "share_drip": 0.02}
    provider.script(latency_seconds=0.1, malformed_containing=hopeless, **shares)

    scenario.submit(corpus)
    documents = scenario.settle()
    (letter,) = fleet.client.get("/v1/dead-letters", params={"collection": scenario.collection}).json()["items"]
    degraded = [d for d in documents if d["state"] == "degraded"]
    provider.script(malformed_containing="")
    fleet.client.post("/v1/dead-letters/retry", json={"collection": scenario.collection}).raise_for_status()
    scenario.settle()

    assert letter["document_id"] == degraded[0]["id"]
    assert "malformed" in letter["reason"]
    assert len(degraded) == 1
    row = scenario.check(note="1 dead, retried")
    assert row.calls > row.chunks


@guards(
    "shared/ledger/work/finishing.sql",
    "{TO_INDEX_TEXT:c}",
    "{OPEN_CHUNKS:c}",
    means="a version waits for its questions",
)
def test_texts_stay_searchable_during_language_model_outage(fleet, provider, start_scenario, scale):
    scenario = start_scenario("19", "the language model is dead")
    before = scenario.corpus(scale.documents // 2)
    scenario.submit(before)
    scenario.settle()
    provider.script(status=503)
    started = time.monotonic()

    scenario.submit({f"new-{name}": parts for name, parts in scenario.corpus(len(before), version=9).items()})
    scenario.update(before, changed=1, version=2)
    fleet.wait_until(scenario.is_searchable, "not every text became searchable")
    seconds = time.monotonic() - started
    missing = [
        part.mark for parts in scenario.documents.values() for part in parts if not is_returned(fleet, scenario, part)
    ]
    questions = sum(document["questions"] for document in fleet.documents(scenario.collection))
    provider.script(status=0)

    assert missing == []
    assert questions > len(before)  # unchanged texts of an edit keep their questions
    scenario.settle()
    row = scenario.check(note=f"all searchable after {seconds:.1f} s")
    assert row.paid_twice == 0


def is_returned(fleet, scenario, part):
    """Return whether a question with a section's words returns it; texts with questions may rank before it."""
    question = {"collection": scenario.collection, "question": part.body[:200], "top_k": 10}
    reply = fleet.client.post("/v1/retrieve", json=question).raise_for_status().json()
    return any(part.body in chunk["text"] for chunk in reply["chunks"])
