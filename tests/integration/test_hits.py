"""Channels return ids and scores, which equal the results computed from all payloads."""

import pytest

from shared.domain.text.bm25 import query_vector
from shared.ingest.index.stage import index_batch
from shared.ledger.work.indexing import IndexWork
from shared.query.retrieve import CHANNELS, ChannelHits, Query, fuse
from shared.query.retrieve.scores.channels import ChannelQuery, full_bm25, limit_of, search_of
from shared.vectors.schema.filters import caller_conditions, visible_points
from tests.conftest import Library
from tests.integration.test_interleavings import NINE, SEVEN, accepted_of
from tests.integration.test_stages import TWO_SECTIONS, points
from tests.support.api import work

USER_QUESTION = "opening hours of the port please"
QUERIES = ("What is about alpha number?", USER_QUESTION, "When does the harbour open?", "beta7 is about")


async def fill(services):
    """Index generated, given and accepted questions, and hidden edits."""
    library = Library(services)
    await library.add(TWO_SECTIONS, "a.md", metadata={"edition": 1})
    await library.add(SEVEN, "b.md", questions=["When does the harbour open?", "What opens at seven?"])
    await work(services)
    await accepted_of(services, library, "seven in the morning", USER_QUESTION)
    await work(services, "index")
    await library.add(TWO_SECTIONS + "\n", "a.md", metadata={"edition": 2})
    await library.add(NINE, "b.md", questions=["When does the harbour open?"])
    await work(services, "parse", "generate")
    await index_batch(services.indexer, await services.ledger[IndexWork].claim(10))
    return await library.collection()


@pytest.fixture
async def collection(once):
    return await once(fill)


async def by_payload(services, collection, query):
    """Return the chunks that a query finds, computed from the payloads of all hits."""
    (vector,) = await services.indexer.embedder.embed([query.question])
    channel_query = ChannelQuery(vector, query_vector(query.question))
    conditions = caller_conditions(query.filter, None)
    selection = visible_points(collection.location, conditions)
    limits = {channel: limit_of(channel, query.top_k) for channel in CHANNELS}
    searches = [search_of(c, channel_query, selection, limits[c]) | {"with_payload": True} for c in CHANNELS]
    hits = dict(zip(CHANNELS, await services.index.search(collection.index_name, searches), strict=True))
    full = full_bm25(channel_query.terms, await services.index.count_chunks(collection.location))
    channels, questions, versions = {}, {}, {}
    for channel in CHANNELS:
        assert len(hits[channel]) < limits[channel]
        best = {}
        for hit in hits[channel]:
            chunk = hit.payload["chunk_id"]
            versions[chunk] = max(versions.get(chunk, 0), hit.payload["version"])
            score = hit.score / full if channel == "bm25" else hit.score
            if score > best.get(chunk, -1):
                best[chunk] = score
                if channel == "questions":
                    questions[chunk] = (hit.payload["question"], hit.payload.get("source", "generated"))
        channels[channel] = ChannelHits(dict(sorted(best.items(), key=lambda item: (-item[1], item[0]))))
    texts = channels["text"].scores
    return [
        (
            match.chunk_id,
            match.score,
            versions[match.chunk_id],
            match.ranks,
            questions[match.chunk_id]
            if channels["questions"].scores.get(match.chunk_id, -1) >= texts[match.chunk_id]
            else (None, None),
        )
        for match in fuse(channels, query.fusion, collection.weights)
    ]


@pytest.mark.parametrize("fusion", ["scores", "mean", "rrf", "max"])
@pytest.mark.parametrize("filter_", [None, {"edition": 1}], ids=["all", "filtered"])
async def test_query_hits_equal_payload_scan(services, collection, fusion, filter_):
    for question in QUERIES:
        query = Query(question, fusion=fusion, filter=filter_, top_k=50)

        found = (await services.retriever.retrieve(collection, query)).chunks

        assert [
            (c.chunk_id, c.score, c.version, c.channels, (c.matched_question, c.matched_question_source)) for c in found
        ] == await by_payload(services, collection, query)
        assert len(found) == (2 if filter_ else 3)


async def test_fixture_contains_every_kind_of_question(services, collection):
    found = [(await services.retriever.retrieve(collection, Query(question))).chunks for question in QUERIES]

    assert {c.matched_question_source for chunks in found for c in chunks} == {"user", "generated", "given", None}


async def test_hidden_question_is_not_readable_by_id(services, library, collection):
    hidden = [i for i, payload in (await points(services, library, hidden=True)).items() if "question" in payload]

    assert hidden
    assert await services.index.chunk_payloads(collection.location, {}, hidden) == ({}, {})
