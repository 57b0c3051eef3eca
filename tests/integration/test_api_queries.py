"""Queries over HTTP: retrieval, answers with citations, streams, and empty results."""

# ruff: noqa: RUF001  other scripts have letters that look like ours

import asyncio
from dataclasses import asdict
from uuid import uuid4

import pytest

from shared.domain.corpus.collections import Weights
from shared.domain.errors import BadReply, Unavailable
from shared.http.schemas.problems import ProblemDetails
from shared.http.schemas.queries import QueryReply, RetrieveReply
from shared.ledger.builds.calibrations import Calibrations
from shared.providers.limiter.usage import usage_of
from shared.query.answer import NOTHING_FOUND
from shared.query.retrieve import ChannelHits
from shared.query.retrieve.scores.fusion import fuse
from tests.conftest import Library
from tests.support.api import as_tenant, calling, events_of, ready, serving, with_keys, work
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS

LEAVE = {"text": "# Leave\n\nEverybody has thirty days of leave a year.", "filename": "leave.md"}
PAY = {"text": "# Pay\n\nSalaries are paid on the last working day.", "filename": "pay.md"}
QUESTION = {"question": "How many days of leave has everybody?"}


async def leave_and_pay(services):
    """Index two documents, and return the ids by filename."""
    ids = {}
    async with calling(services.settings, services) as client:
        for body, year in ((LEAVE, 2025), (PAY, 2026)):
            metadata = {"year": year, "tags": [body["filename"][0]], "at": f"{year}-05-01T00:00:00Z"}
            reply = await client.post("/v1/documents", json=body | {"metadata": metadata, "title": "T" + str(year)})
            ids[body["filename"]] = reply.json()["id"]
    await work(services)
    return ids


@pytest.fixture
async def indexed(once):
    return await once(leave_and_pay)


async def retrieve(client, **change):
    reply = await client.post("/v1/retrieve", json=QUESTION | change)
    assert reply.status_code == 200, reply.text
    return RetrieveReply.model_validate_json(reply.content)


async def test_retrieved_chunks_have_all_fields(client, indexed):
    found = await retrieve(client)

    assert [chunk.external_id for chunk in found.chunks] == ["leave.md", "pay.md"]
    best = found.chunks[0]
    assert best.document_id == indexed["leave.md"]
    assert best.text.endswith("leave a year.")
    assert (best.heading_path, best.title, best.filename) == (["Leave"], "T2025", "leave.md")
    assert best.metadata["year"] == 2025
    assert best.score > found.chunks[1].score
    assert found.metadata.unique_chunks == 2
    assert found.metadata.matched_questions > 2
    assert {"embed", "search", "fuse", "fetch", "assemble", "record", "total"} == found.metadata.milliseconds.keys()


async def test_query_parameters_restrict_results(client, indexed):
    assert [c.external_id for c in (await retrieve(client, top_k=1)).chunks] == ["leave.md"]
    assert (await retrieve(client, min_score=0.99)).chunks == []
    assert (await retrieve(client, max_tokens=1)).chunks == []
    assert [c.external_id for c in (await retrieve(client, document_ids=[indexed["pay.md"]])).chunks] == ["pay.md"]
    assert (await retrieve(client, document_ids=[str(uuid4())])).chunks == []
    for filter_ in (
        {"year": 2026},
        {"year": {"gte": 2026}},
        {"tags": {"any": ["p", "x"]}},
        {"tags": {"none": ["l"]}},
        {"at": {"gt": "2026-01-01"}},
    ):
        assert [c.external_id for c in (await retrieve(client, filter=filter_)).chunks] == ["pay.md"], filter_
    assert (await retrieve(client, filter={"year": 1999})).chunks == []


async def test_explain_option_adds_channels_weights_and_evidence(client, indexed):
    found = await retrieve(client, explain=True, weights={"questions": 1.0, "text": 0.5, "bm25": 2.0})
    plain = await retrieve(client)

    best = found.chunks[0]
    assert found.metadata.explain.model_dump(exclude={"stages", "candidates", "expected"}) == {
        "fusion": "scores",
        "weights": {"questions": 1.0, "text": 0.5, "bm25": 2.0},
        "reference_scores": dict.fromkeys(("questions", "text", "bm25"), 0.0),  # no channel has a fifth best score
        "rewritten": None,
    }
    assert {name: hit.rank for name, hit in best.channels.items() if name != "questions"} == {"text": 1, "bm25": 1}
    scores = {name: hit.score for name, hit in best.channels.items()}
    assert best.evidence.words == pytest.approx(scores["bm25"] * 2.5)
    assert best.evidence.similarity == pytest.approx(
        max(scores.get("questions", 0) * 2.5 / 2, scores["text"] * 2.5 / 4)
    )
    x = sum(best.evidence.model_dump().values())
    assert best.score == pytest.approx(x / (2 + x))
    assert plain.metadata.explain is None
    assert plain.chunks[0].channels is None
    assert plain.chunks[0].evidence is None
    (mean, *_) = (await retrieve(client, explain=True, fusion="mean")).chunks
    assert mean.score == pytest.approx(sum(hit.score for hit in mean.channels.values()) / 3)
    assert mean.evidence is None


async def test_search_can_use_single_channel(client, indexed):
    for channel in ("questions", "text", "bm25"):
        found = await retrieve(client, channels=[channel], explain=True)
        assert set(found.chunks[0].channels) == {channel}
        if channel != "questions":  # the scripted provider's questions are equally near in both documents
            assert found.chunks[0].external_id == "leave.md"
    # The other document contains none of these words.
    words = await retrieve(client, channels=["bm25"], question="leave for everybody")
    assert [c.external_id for c in words.chunks] == ["leave.md"]
    assert (await retrieve(client, channels=["bm25"], question="to be or not to be")).chunks == []


async def test_title_and_heading_words_are_found(client, services, provider):
    sections = {
        "Gearbox": "Oil it every month and write that down. ",
        "Seals": "Replace what leaks before anybody sails. ",
    }
    text = "\n\n".join(
        f"{'#' * level} {name}\n\n{sentence * 10}" for level, (name, sentence) in enumerate(sections.items(), 1)
    )
    body = {"text": text, "title": "The bosun's manual", "external_id": "manual.md", "questions": []}
    (await client.post("/v1/documents", json=body)).raise_for_status()
    await work(services)

    for question, found in (("bosun", {"Gearbox", "Seals"}), ("gearbox", {"Gearbox", "Seals"}), ("seals", {"Seals"})):
        chunks = (await retrieve(client, channels=["bm25"], question=question)).chunks
        assert {chunk.heading_path[-1] for chunk in chunks} == found


async def test_answer_cites_its_chunks(client, indexed, provider):
    reply = await client.post("/v1/query", json=QUESTION)

    answered = QueryReply.model_validate_json(reply.content)
    assert answered.answer == "The documents say so [1]."
    assert (answered.found, answered.form, answered.removed_citations) == (True, "generative", [])
    (citation,) = answered.citations
    assert (citation.number, citation.document_id) == (1, indexed["leave.md"])
    assert citation.chunk_id == answered.chunks[0].chunk_id
    assert citation.text == answered.chunks[0].text
    assert answered.metadata.usage.prompt_tokens > 0
    assert {
        "embed",
        "search",
        "fuse",
        "fetch",
        "assemble",
        "record",
        "answer",
        "total",
    } == answered.metadata.milliseconds.keys()
    assert provider.stats()["calls"] == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_empty_result_answers_without_model_call(client, indexed, provider, stream):
    await client.put("/v1/collections/empty", json={})
    for change in ({"collection": "empty"}, {"filter": {"year": 1}}, {"min_score": 0.99}):
        reply = await client.post("/v1/query", json=QUESTION | change | {"stream": stream})

        assert reply.status_code == 200
        if stream:
            events = [event async for event in events_of(reply)]
            assert [name for name, _ in events] == ["retrieved", "token", "done"]
            answered = QueryReply.model_validate(events[-1][1])
        else:
            answered = QueryReply.model_validate_json(reply.content)
        assert (answered.answer, answered.found) == (NOTHING_FOUND, False)
        assert answered.chunks == answered.citations == []
    assert provider.stats()["calls"] == 0


async def test_repeated_question_is_embedded_once(client, indexed, provider):
    first = await retrieve(client)
    again = await retrieve(client, top_k=1)

    assert again.chunks[0] == first.chunks[0]
    assert provider.stats()["embedded_inputs"] == 1


async def test_query_does_not_create_missing_collection(client, provider):
    await client.post("/v1/query", json=QUESTION | {"collection": "nowhere"})

    assert (await client.get("/v1/collections")).json()["items"] == []
    assert provider.stats()["embeddings"] == 0


async def test_streamed_answer_equals_unstreamed_answer(client, indexed):
    whole = (await client.post("/v1/query", json=QUESTION)).json()
    async with client.stream("POST", "/v1/query", json=QUESTION | {"stream": True}) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        events = [event async for event in events_of(reply)]

    names = [name for name, _ in events]
    assert names[0] == "retrieved"
    assert names[-1] == "done"
    assert set(names[1:-1]) == {"token"}
    assert RetrieveReply.model_validate(events[0][1]).chunks
    assert "".join(data["text"] for name, data in events if name == "token") == whole["answer"]
    done = events[-1][1]
    assert QueryReply.model_validate(done)
    assert done | {"metadata": None} == whole | {"metadata": None}


async def test_extractive_answer_is_marked_and_calls_no_model(indexed, settings, provider):
    async with calling(settings.model_copy(update={"answering": "extractive"})) as client:
        answered = QueryReply.model_validate_json((await client.post("/v1/query", json=QUESTION)).content)

    assert answered.form == "extractive"
    assert "thirty days of leave" in answered.answer
    assert answered.citations
    assert provider.stats()["calls"] == 0


@guards(
    "shared/query/retrieve/retriever.py",
    "search.measured = channels",
    "search.measured = rescale(channels, search.collection.baseline)",
    means="good answers become uncertain once their collection is calibrated",
)
@pytest.mark.parametrize("form", ["extractive", "generative"])
async def test_calibration_keeps_certainty_of_answers(form, indexed, services, settings):
    async def answered():
        async with calling(settings.model_copy(update={"answering": form})) as client:
            return QueryReply.model_validate_json((await client.post("/v1/query", json=QUESTION)).content)

    before = await answered()
    measured = {"weights": asdict(Weights()), "baseline_similarity": 0.28, "baseline_spread": 0.2}
    collection = await Library(services).collection()
    await services.ledger[Calibrations].save(collection, measured, replace_labelled=True)
    after = await answered()

    assert after.chunks[0].score < before.chunks[0].score
    assert (after.answer, after.found, after.certain) == (before.answer, True, True)
    assert before.certain


async def test_extractive_answer_by_words_only_is_uncertain(indexed, settings):
    async with calling(settings.model_copy(update={"answering": "extractive"})) as client:
        reply = await client.post("/v1/query", json=QUESTION | {"channels": ["bm25"]})
        answered = QueryReply.model_validate_json(reply.content)

    assert (answered.found, answered.certain) == (True, False)
    assert "thirty days of leave" in answered.answer


async def test_scripted_answer_without_evidence_is_uncertain(client, indexed, provider):
    async def certain(question):
        reply = QueryReply.model_validate_json((await client.post("/v1/query", json={"question": question})).content)
        assert (reply.form, reply.found, [citation.number for citation in reply.citations]) == ("generative", True, [1])
        return reply.certain

    assert await certain(QUESTION["question"])
    assert not await certain("Which planet is the warmest in July?")


HANDBOOK = {
    "de": [
        "Jeder Angestellte hat dreißig Tage Urlaub im Jahr.",
        "Was am 31. März davon übrig ist, verfällt.",
        "Gehälter werden am letzten Werktag gezahlt.",
    ],
    "zh": [
        "每位员工每年有三十天的假期，剩下的假期在三月底作废。",
        "工资在最后一天发放。",
        "“几点开门？”",
        "九点开门。",
    ],
    "ar": ["لكل موظف ثلاثون يوما من الإجازة في السنة.", "متى تدفع الرواتب؟", "تدفع في آخر يوم عمل من الشهر."],
}


@pytest.fixture
async def handbook(once):
    """Index a document in each language; its external id is the language."""
    texts = {language: ("" if language == "zh" else " ").join(sentences) for language, sentences in HANDBOOK.items()}
    await once(ready, *((text, language) for language, text in texts.items()))


async def test_quotes_are_complete_sentences_in_every_language(settings, handbook):
    questions = {
        "de": "Wie viele Tage Urlaub hat jeder Angestellte im Jahr?",
        "zh": "每位员工每年有三十天的假期，对吗？",
        "ar": "كم يوما من الإجازة لكل موظف في السنة؟",
    }
    async with calling(settings.model_copy(update={"answering": "extractive"})) as client:
        for language, question in questions.items():
            reply = await client.post("/v1/query", json={"question": question})
            answered = QueryReply.model_validate_json(reply.content)

            quotes = [line[2 : line.rindex(" [")] for line in answered.answer.splitlines() if line.startswith("> ")]
            assert HANDBOOK[language][0] in quotes, language
            assert set(quotes) <= {sentence for sentences in HANDBOOK.values() for sentence in sentences}, language
            supporting = [each.text[start:end] for each in answered.citations for start, end in each.sentences]
            assert sorted(supporting) == sorted(quotes), language


async def test_answer_cites_document_in_question_language(client, handbook):
    questions = {
        "de": "Wie viele Tage Urlaub hat jeder Angestellte?",
        "zh": "每位员工有几天假期？",
        "ar": "كم يوما إجازة لكل موظف؟",
    }
    for each, question in questions.items():
        answered = QueryReply.model_validate_json((await client.post("/v1/query", json={"question": question})).content)

        assert (answered.form, answered.citations[0].external_id) == ("generative", each)
        assert HANDBOOK[each][0] in answered.citations[0].text
        assert answered.chunks[0].language == each


@pytest.mark.parametrize(
    ("error", "status"),
    [(Unavailable("unavailable", component="llm"), 503), (BadReply("nothing"), 502), (RuntimeError("a secret"), 500)],
)
async def test_failed_answer_is_problem_or_error_event(client, indexed, monkeypatch, error, status):
    async def fail(*_):
        raise error

    async def fail_later(*_):
        yield "The "
        raise error

    monkeypatch.setattr("shared.query.answer.GenerativeAnswerer.answer", fail)
    monkeypatch.setattr("shared.query.answer.GenerativeAnswerer.stream", fail_later)
    reply = await client.post("/v1/query", json=QUESTION)
    assert reply.status_code == status
    assert "secret" not in reply.text

    streamed = await client.post("/v1/query", json=QUESTION | {"stream": True})

    events = [event async for event in events_of(streamed)]
    assert [name for name, _ in events] == ["retrieved", "token", "error"]
    assert ProblemDetails.model_validate(events[-1][1]).status == status
    assert "secret" not in streamed.text


async def test_disconnected_client_stops_answer_generation(services, settings, provider, indexed, monkeypatch):
    ended = asyncio.Event()

    async def endless(*_):
        try:
            while True:
                yield "and "
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr("shared.query.answer.GenerativeAnswerer.stream", endless)
    async with serving(settings, services) as client:
        async with client.stream("POST", "/v1/query", json=QUESTION | {"stream": True}) as reply:
            async for _ in events_of(reply):
                break
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await ended.wait()


@guards(
    "shared/http/disconnects.py",
    "return_when=asyncio.FIRST_COMPLETED",
    "return_when=asyncio.ALL_COMPLETED",
    means="a search continues after its client has disconnected",
)
@pytest.mark.parametrize("address", ["/v1/retrieve", "/v1/query"])
async def test_disconnected_client_stops_search(services, settings, provider, indexed, address):
    async def in_flight():
        return max(use.in_flight for use in await usage_of(services.limiters.llm, "default"))

    provider.script(latency_seconds=60)
    body = QUESTION | {"rewrite": {"queries": 2, "budget_ms": 60_000}}
    async with serving(settings, services) as client, asyncio.timeout(TIMEOUT_SECONDS):
        asking = asyncio.create_task(client.post(address, json=body))
        while not await in_flight():
            await asyncio.sleep(0.02)
        asking.cancel()
        while await in_flight():
            await asyncio.sleep(0.02)


INVALID_QUERIES = [
    ({"top_k": 0}, "top_k"),
    ({"top_k": 10**9}, "top_k"),
    ({"top_k": "1"}, "top_k"),
    ({"filter": []}, "filter"),
    ({"filter": {"a": {}}}, "filter.a"),
    ({"filter": {"a": {"near": 1}}}, "filter.a"),
    ({"filter": {"a": {"any": []}}}, "filter.a"),
    ({"filter": {"a": {"any": [1, "a"]}}}, "filter.a"),
    ({"filter": {"a": {"any": [{"b": 1}]}}}, "filter.a"),
    ({"filter": {"a": {"gte": 1, "lt": "2025"}}}, "filter.a"),
    ({"filter": {"a": {"gte": "yesterday"}}}, "filter.a"),
    ({"filter": {"a": {"gte": True}}}, "filter.a"),
    ({"filter": {"a": {"text": " "}}}, "filter.a"),
    ({"filter": {"a": [[[[[[1]]]]]]}}, "filter.a"),
    ({"filter": {"a": 2**63}}, "filter"),
    ({"filter": {"a": {"any": [2**63]}}}, "filter"),
    ({"filter": {str(n): 1 for n in range(65)}}, "filter"),
    ({"document_ids": ["x"]}, "document_ids.0"),
    ({"min_score": 7}, "min_score"),
    ({"channels": ["colour"]}, "channels.0"),
    ({"channels": []}, "channels"),
    ({"fusion": "sum"}, "fusion"),
    ({"weights": {"text": -1}}, "weights.text"),
    ({"diversity": 2}, "diversity"),
    ({"question": " "}, "question"),
    ({"question": "a\0b"}, None),
    ({"collection": "No"}, "collection"),
    ({"temperature": 0}, "temperature"),
]


async def test_invalid_query_is_rejected_without_provider_calls(client, provider):
    for change, field in INVALID_QUERIES:
        for route in ("retrieve", "query"):
            reply = await client.post(f"/v1/{route}", json=QUESTION | change)

            assert reply.status_code == 422, (change, reply.text)
            assert ProblemDetails.model_validate_json(reply.content).field == field, change
    assert provider.stats()["embeddings"] == provider.stats()["calls"] == 0


INVALID_FIELDS = ({"": 1}, {"a..b": 1}, {".": 1}, {'a"b': 1}, {"a\\": 1})
UNUSUAL = (
    {"a[": 1},
    {"a[]": "x"},
    {"a[99999999999999999999]": 1},
    {"ü": "ü"},
    {"a": 2**63 - 1},
    {"a": -(2**63)},
    {"a": 1e308},
    {"a": {"gte": 1e308}},
    {"a": {"gte": -(10**18)}},
    {"a": {"gte": "0001-01-01"}},
    {"a": {"gte": "9999-12-31T23:59:59+00:00"}},
    {"a": {"text": "?!"}},
    {"a": ""},
    {"a": "x" * 10_000},
)


async def test_unusual_filters_never_cause_server_errors(client, indexed):
    for filter_ in UNUSUAL:
        reply = await client.post("/v1/retrieve", json=QUESTION | {"filter": filter_})
        assert (reply.status_code, reply.json().get("chunks")) == (200, []), (filter_, reply.text)
    for filter_ in INVALID_FIELDS:
        reply = await client.post("/v1/retrieve", json=QUESTION | {"filter": filter_})
        assert (reply.status_code, reply.json()["field"]) == (422, "filter"), (filter_, reply.text)


async def test_any_field_name_and_nested_fields_are_filterable(client, services):
    metadata = {"my field": "ü", "größe": {"in m²": 3}, "a-b_c": 1, "rows": [{"n": 1}, {"n": 2}]}
    await client.post("/v1/documents", json=LEAVE | {"metadata": metadata})
    await work(services)

    for filter_ in ({"my field": "ü"}, {"größe.in m²": 3}, {"a-b_c": 1}, {"rows[].n": 2}, {"rows[0].n": 1}):
        assert (await retrieve(client, filter=filter_)).chunks, filter_
    for filter_ in ({"my field": "u"}, {"größe.in m²": 4}, {"rows[0].n": 2}):
        assert not (await retrieve(client, filter=filter_)).chunks, filter_


async def test_provider_outage_names_component_in_503(client, indexed, provider):
    provider.script(down=True)
    reply = await client.post("/v1/retrieve", json=QUESTION)

    assert reply.status_code == 503
    assert reply.headers["retry-after"]
    assert reply.json()["component"] == "embedding"


async def test_tenants_cannot_find_each_others_chunks(services, settings, provider):
    async with calling(with_keys(settings), services) as client:
        reply = await client.post("/v1/documents", json=LEAVE, headers=as_tenant("alice"))
        await client.post("/v1/documents", json=PAY, headers=as_tenant("bob"))
        await work(services)
        theirs = {"document_ids": [reply.json()["id"]]}

        for tenant, change, expected in (
            ("alice", {}, ["leave.md"]),
            ("bob", {}, ["pay.md"]),
            ("bob", theirs, []),
        ):
            found = await client.post("/v1/retrieve", json=QUESTION | change, headers=as_tenant(tenant))
            assert [chunk["external_id"] for chunk in found.json()["chunks"]] == expected


async def many(client, services, count=130):
    """Index documents on one subject and one on another; return their chunk ids by external id.

    Each document mentions leave a different number of times: if scores were equal, a shallow search might return
    other chunks.
    """
    for number in range(count):
        text = f"Everybody has {number} days of leave{' leave' * number} in the year {number}."
        body = {"text": text, "external_id": f"{number}.md"}
        await client.post("/v1/documents", json=body | {"metadata": {"year": number}, "questions": []})
    await client.post("/v1/documents", json={"text": "Salaries come late.", "external_id": "pay.md", "questions": []})
    await work(services)
    found = await retrieve(client, top_k=200, max_tokens=100_000, record=False)
    return {chunk.external_id: chunk.chunk_id for chunk in found.chunks}


async def expected_of(client, ids, **change):
    found = await retrieve(client, explain=True, expected=ids, **change)
    return {each.chunk_id: each for each in found.metadata.explain.expected}


@pytest.mark.parametrize("fusion", ["scores", "mean", "rrf", "max"])
async def test_expected_chunks_get_ranks_of_deep_search(client, services, provider, fusion):
    ids = await many(client, services)
    deep = (await retrieve(client, top_k=200, max_tokens=100_000, explain=True, fusion=fusion)).chunks
    wanted = [deep[0].chunk_id, deep[5].chunk_id, *[chunk.chunk_id for chunk in deep[-4:]]]
    for top_k in (1, 5):
        explained = await expected_of(client, wanted, top_k=top_k, fusion=fusion)
        assert list(explained) == wanted
        for rank, chunk in enumerate(deep, 1):
            if chunk.chunk_id not in explained:
                continue
            shown = explained[chunk.chunk_id]
            assert (shown.rank, shown.score) == (rank, pytest.approx(chunk.score, abs=1e-6)), rank
            assert shown.left_out == (None if rank <= top_k else "top_k")
            assert {c: (p.rank, pytest.approx(p.score)) for c, p in chunk.channels.items()} == {
                c: (p.rank, p.score) for c, p in shown.channels.items()
            }
    assert ids["pay.md"] in wanted


async def test_expected_chunks_show_reason_for_exclusion(client, services, indexed):
    leave, pay = [chunk.chunk_id for chunk in (await retrieve(client)).chunks]
    nowhere = str(uuid4())

    explained = await expected_of(client, [leave, pay, nowhere], filter={"year": 2026}, min_score=0.99)
    assert (explained[leave].left_out, explained[leave].rank, explained[leave].channels) == ("filter", None, {})
    assert explained[pay].left_out == "min_score"
    assert explained[nowhere].left_out == "absent"
    assert (await expected_of(client, [pay], max_tokens=1))[pay].left_out == "max_tokens"
    assert (await expected_of(client, [leave], weights={"questions": 0}))[leave].channels["questions"].rank in {1, 2}
    matched = (await expected_of(client, [leave]))[leave].question
    chunk = (await client.get(f"/v1/chunks/{leave}")).json()["chunk"]
    assert matched in [question["text"] for question in chunk["questions"]]
    refused = await client.post("/v1/retrieve", json=QUESTION | {"expected": [leave]})
    assert (refused.status_code, refused.json()["field"]) == (422, "expected")


async def test_candidates_allow_fusion_with_other_weights(client, indexed):
    alone = {"questions": 1.0, "text": 0.0, "bm25": 0.0}
    plain = await retrieve(client, weights=alone, explain=True)
    found = await retrieve(client, weights=alone, explain="candidates")
    candidates = found.metadata.explain.candidates

    assert found.chunks == plain.chunks
    assert plain.metadata.explain.candidates is None
    assert [(c.chunk_id, c.score) for c in candidates.chunks] == [(c.chunk_id, c.score) for c in plain.chunks]
    assert set(candidates.floors) == set(candidates.reference_scores) == {"questions", "text", "bm25"}

    hits = {
        channel: ChannelHits(
            {c.chunk_id: c.channels[channel].score for c in ranked if channel in c.channels}, floor=floor
        )
        for channel, floor in candidates.floors.items()
        if (ranked := sorted(candidates.chunks, key=lambda c: c.channels[channel].rank if channel in c.channels else 0))
    }
    other = await retrieve(client, weights={"questions": 0.5, "text": 1.0, "bm25": 2.0})
    again = fuse(hits, "scores", Weights(questions=0.5, text=1.0, bm25=2.0))
    assert [(m.chunk_id, m.score) for m in again] == [(c.chunk_id, pytest.approx(c.score)) for c in other.chunks]
