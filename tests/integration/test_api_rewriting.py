"""Rewriting and reranking over HTTP: their effects; if one of them fails, the query continues without it."""

import time
from contextlib import AsyncExitStack
from datetime import timedelta

import pytest

from features.all import FEATURES
from shared.http.schemas.queries import QueryReply, RetrieveReply
from shared.services import build
from tests.conftest import Library
from tests.support.api import calling, ready, work
from tests.support.emptying import forget
from tests.support.waiting import TIMEOUT_SECONDS

TEXTS = {
    "leave.md": "# Leave\n\nThe holiday entitlement of staff is thirty working days.",
    "time.md": "# Clocks\n\nHow much time do clocks get off when nobody winds them?",
    "travel.md": "# Journeys\n\nTickets for journeys to Halifax are bought by the assistant.",
    "desk.md": "# Desks\n\nTickets for new desks are sent to the assistant of the house.",
}
QUESTION = {"question": "How much time off do I get?", "top_k": 1}
ANSWERING = "The holiday entitlement of staff is thirty working days."


@pytest.fixture(scope="module")
async def reranking(settings, provider_process):
    """Yield services with a reranker, whose budget is long enough for a busy machine, and short enough to wait for."""
    tuning = settings.tuning.model_copy(update={"rerank_budget": timedelta(seconds=5)})
    changed = {"rerank_base_url": provider_process.url, "rerank_model": "scripted-reranker", "tuning": tuning}
    async with build("all", settings.model_copy(update=changed), FEATURES) as services:
        yield services


@pytest.fixture
async def answering(reranking, once):
    """Return a client of an API with a reranker, over a state of the engines."""
    async with AsyncExitStack() as stack:

        async def over(state, *arguments):
            await once(state, *arguments)
            await forget(reranking)
            return await stack.enter_async_context(calling(reranking.settings, reranking))

        yield over


@pytest.fixture
async def client(answering):
    return await answering(ready, *((text, name) for name, text in TEXTS.items()))


async def retrieve(client, **change):
    """Return the external ids of the chunks and the whole reply."""
    reply = await client.post("/v1/retrieve", json=QUESTION | {"rerank": False} | change)
    assert reply.status_code == 200, reply.text
    found = RetrieveReply.model_validate_json(reply.content)
    return [chunk.external_id for chunk in found.chunks], found


@pytest.mark.parametrize(
    ("rewrite", "reply"),
    [
        ({"hyde": True}, {"hypothetical_answer": ANSWERING}),
        ({"queries": True}, {"queries": ["Who?", "What is the holiday entitlement of staff in working days?"]}),
        ({"step_back": True}, {"step_back_question": "What is the holiday entitlement of staff in working days?"}),
    ],
)
async def test_rewriting_finds_chunk_missed_by_question(client, provider, rewrite, reply):
    provider.script(rewriting=reply)

    directly, plain = await retrieve(client, explain=True)
    rewritten, found = await retrieve(client, rewrite=rewrite, explain=True)

    assert (directly, rewritten) == (["time.md"], ["leave.md"])
    shown = found.metadata.explain.rewritten.model_dump()
    assert {name: shown[name] for name in reply} == reply
    assert found.metadata.skipped == {}
    assert found.metadata.usage.prompt_tokens > plain.metadata.usage.prompt_tokens == 0


async def test_question_hits_precede_equal_rewriting_hits(client, provider):
    provider.script(rewriting={"hypothetical_answer": TEXTS["time.md"]})

    names, found = await retrieve(client, question=TEXTS["leave.md"], rewrite={"hyde": True}, top_k=2, explain=True)

    assert names == ["leave.md", "time.md"]
    assert found.chunks[1].channels["text"].score == pytest.approx(0.9, abs=0.05)


async def test_rewriting_costs_one_call_and_one_extra_embedding(client, provider):
    wanted = {"hyde": True, "queries": 8, "step_back": True, "entities": True}

    _, found = await retrieve(client, rewrite=wanted, explain=True)

    stats = provider.stats()
    assert (stats["calls"], stats["embeddings"], stats["embedded_inputs"]) == (1, 2, 11)
    rewritten = found.metadata.explain.rewritten
    assert (len(rewritten.queries), rewritten.step_back_question is None) == (8, False)


async def test_question_embedding_runs_during_rewriting(client, provider):
    provider.script(latency_seconds=0.4, embedding_latency_seconds=0.4)

    _, found = await retrieve(client, rewrite={"entities": True})

    took = found.metadata.milliseconds
    assert found.metadata.skipped == {}
    assert min(took["embed"], took["rewrite"]) >= 400
    assert took["total"] < took["embed"] + took["rewrite"]


async def test_named_entities_raise_scores_of_matching_chunks(client, provider):
    provider.script(rewriting={"entities": ["halifax"]})
    question = "Who is sent tickets for the assistant of the house, to Halifax?"

    directly, plain = await retrieve(client, question=question, top_k=2)
    boosted, found = await retrieve(client, question=question, top_k=2, rewrite={"entities": True})

    scores = {chunk.external_id: chunk.score for chunk in plain.chunks}
    raised = {chunk.external_id: chunk.score for chunk in found.chunks}
    assert set(directly) == set(boosted) == {"desk.md", "travel.md"}
    assert raised["travel.md"] == pytest.approx(1.1 * scores["travel.md"])
    assert raised["desk.md"] == pytest.approx(scores["desk.md"])


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("rubbish", "the model's reply cannot be used: no JSON object"),
        ("500", 'the llm provider answered 500: it failed; it says "out of memory"'),
        ("hang", "no reply within its budget of 0.3 s"),
    ],
)
async def test_failed_rewriting_does_not_delay_answer(client, provider, fault, reason):
    directly, _ = await retrieve(client, top_k=4)
    provider.script(rewrite_fault=fault, rewriting={"hypothetical_answer": ANSWERING})
    budget = 300 if fault == "hang" else 60_000
    body = QUESTION | {"top_k": 4, "rerank": False, "rewrite": {"hyde": True, "budget_ms": budget}}

    started = time.monotonic()
    reply = await client.post("/v1/query", json=body)
    took = time.monotonic() - started

    answered = QueryReply.model_validate_json(reply.content)
    assert answered.answer == "The documents say so [1]."
    assert [chunk.external_id for chunk in answered.chunks] == directly
    assert answered.metadata.skipped == {"rewrite": reason}
    assert took < TIMEOUT_SECONDS / 2


async def test_useless_rewriting_reports_its_tokens(client, provider):
    provider.script(rewrite_fault="rubbish")

    _, found = await retrieve(client, rewrite={"hyde": True})

    assert found.metadata.usage.prompt_tokens > 0


async def test_unembeddable_rewriting_is_skipped(client, provider):
    provider.script(rewriting={"hypothetical_answer": "A poisonous passage."}, refuse_containing="poisonous")

    names, found = await retrieve(client, rewrite={"hyde": True}, explain=True)

    assert names == ["time.md"]
    assert found.metadata.skipped["rewrite"].startswith("the embedding provider answered 400")
    assert found.metadata.explain.rewritten is None


async def test_unsearchable_rewriting_changes_nothing(client, provider):
    provider.script(rewriting={"queries": ["To be or not to be?"]})

    names, found = await retrieve(client, channels=["bm25"], rewrite={"queries": 1}, explain=True)

    assert names == ["time.md"]
    assert found.metadata.skipped == {}
    assert found.metadata.explain.rewritten.queries == ["To be or not to be?"]


@pytest.mark.parametrize(
    ("rewrite", "field"),
    [({"queries": 9}, "queries"), ({"queries": -1}, "queries"), ({"budget_ms": 0}, "budget_ms"), ({"hide": 1}, "hide")],
)
async def test_invalid_rewriting_option_is_rejected_by_name(client, rewrite, field):
    reply = await client.post("/v1/retrieve", json=QUESTION | {"rewrite": rewrite})

    assert reply.status_code == 422
    assert field in reply.text


LONG = " ".join(f"filler{n}" for n in range(60))
SHORT = "Kites are flown."
RERANKED_QUERY = {"question": "Where are kites flown by wardens?", "top_k": 10}


async def six_documents(services):
    """Index two more documents: the channels prefer the short one, the reranker the long one."""
    library = Library(services)
    for name, text in {"short.md": SHORT, "long.md": f"Where wardens go, by day: {LONG} kites are seen flown."}.items():
        await library.add(text, name, questions=[])
    await ready(services, *((text, name) for name, text in TEXTS.items()))


@pytest.fixture
async def kites(answering):
    return await answering(six_documents)


async def test_best_chunks_follow_reranker_order(kites, provider):
    directly, _ = await retrieve(kites, **RERANKED_QUERY)
    reranked, found = await retrieve(kites, **RERANKED_QUERY, rerank=True)

    assert directly[:2] == ["short.md", "long.md"]
    assert reranked[:2] == ["long.md", "short.md"]
    assert sorted(reranked) == sorted(directly)
    scores = [chunk.rerank_score for chunk in found.chunks]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    (body,) = provider.stats()["reranks"]
    assert body["query"] == RERANKED_QUERY["question"]
    assert (body["model"], len(body["documents"])) == ("scripted-reranker", 6)
    assert "Leave\n\nThe holiday" in " ".join(body["documents"])


async def test_reranking_returns_top_k_chunks_only(kites):
    names, _ = await retrieve(kites, **RERANKED_QUERY | {"top_k": 1}, rerank=True)

    assert names == ["long.md"]


async def test_diversity_keeps_best_reranked_chunk_first(kites):
    names, found = await retrieve(kites, **RERANKED_QUERY | {"top_k": 3}, rerank=True, diversity=0.1)

    assert names[0] == "long.md"
    assert found.chunks[0].rerank_score == 1.0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("500", 'the rerank provider answered 500: it failed; it says "out of memory"'),
        ("rubbish", "the rerank provider sent no list of results"),
        ("nan", "the rerank provider sent a result without an index and a score"),
        ("indexes", "the rerank provider did not send one result for each of the 6 documents"),
    ],
)
async def test_answer_does_not_need_failed_reranker(kites, provider, fault, reason):
    await assert_answer_without_reranker(kites, provider, fault, reason)


async def test_silent_reranker_delays_answer_by_its_budget(kites, reranking, provider):
    tuning = reranking.settings.tuning.model_copy(update={"rerank_budget": timedelta(seconds=0.2)})
    async with calling(reranking.settings.model_copy(update={"tuning": tuning})) as impatient:
        started = time.monotonic()
        await assert_answer_without_reranker(impatient, provider, "hang", "no reply within its budget of 0.2 s")
        took = time.monotonic() - started

    assert took < TIMEOUT_SECONDS / 2


async def assert_answer_without_reranker(client, provider, fault, reason):
    directly, _ = await retrieve(client, **RERANKED_QUERY)
    provider.script(rerank_fault=fault)

    reply = await client.post("/v1/query", json=RERANKED_QUERY)

    answered = QueryReply.model_validate_json(reply.content)
    assert answered.answer == "The documents say so [1]."
    assert [chunk.external_id for chunk in answered.chunks] == directly
    assert {chunk.rerank_score for chunk in answered.chunks} == {None}
    assert answered.metadata.skipped == {"rerank": reason}


async def test_query_survives_failed_rewriting_and_reranking(kites, provider):
    provider.script(rewrite_fault="hang", rerank_fault="hang")

    names, found = await retrieve(kites, **RERANKED_QUERY, rerank=True, rewrite={"hyde": True, "budget_ms": 200})

    assert names[0] == "short.md"
    assert found.metadata.skipped.keys() == {"rewrite", "rerank"}
    assert found.metadata.milliseconds["total"] < 500 * TIMEOUT_SECONDS


async def test_embedded_model_is_never_used_for_rewriting(services, settings, provider):
    async with calling(settings.model_copy(update={"llm_model": "smollm2-135m"})) as client:
        await client.post("/v1/documents", json={"text": TEXTS["leave.md"], "filename": "leave.md"})
        await work(services)
        provider.reset()
        names, found = await retrieve(client, rewrite={"hyde": True})

    assert names == ["leave.md"]
    assert found.metadata.skipped == {"rewrite": "no language model is configured that can rewrite a question"}
    assert provider.stats()["calls"] == 0
