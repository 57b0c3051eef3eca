"""The context that a model writes next to a chunk's questions: searched with the text, and no part of it."""

import numpy as np
import pytest

from features.estimates.routes import estimator_of
from shared.domain.corpus.chunks import ChunkContext
from shared.domain.corpus.collections import CollectionOptions, Weights
from shared.domain.states import DocumentState
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.query.retrieve import Query
from shared.vectors.schema.filters import visible_points
from tests.integration.test_batch_lane import BATCH, lane, prepared, unprobed, until
from tests.integration.test_reuse import are_right, dropped, embedded, migrated, run
from tests.integration.test_stages import HARBOUR, TWO_SECTIONS, points, questions_of
from tests.integration.test_verification import IndexedCollection
from tests.support.api import calling, work
from tests.support.planted import guards
from tests.support.provider import Script, ScriptedEndpoints

__all__ = ["lane", "unprobed"]

NAME = ("default", "default")
WRITTEN = ChunkContext(Script().context["context"], tuple(Script().context["terms"]))
ELSEWHERE = "The market of the town sells herrings and wool on every second Thursday of the month."


@pytest.fixture
async def collection(services):
    """A collection whose model also writes contexts."""
    return await with_options(services, context=True)


async def with_options(services, **options):
    return await services.ledger[Collections].ensure(
        *NAME, embedding_model=services.settings.embedding_model, options=CollectionOptions(**options)
    )


async def vectors_of(services, collection):
    """Return the vector of each chunk's text, by its text."""
    statement = """SELECT c.id, t.content FROM documents d JOIN chunks c ON c.document_id = d.id
                   AND c.version = d.live_version JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
                   WHERE d.collection_id = :id"""
    texts = {str(row.id): row.content["text"] for row in await run(services, statement, id=collection.id)}
    stored = await services.index.text_vectors(visible_points(collection.location), list(texts))
    return {texts[chunk]: vector for chunk, vector in stored.items()}


def is_vector_of(vector, text):
    return np.allclose(vector, ScriptedEndpoints(Script()).vector(text), atol=1e-5)


async def found_by_words(services, collection, words):
    """Return the texts that BM25 finds."""
    query = Query(words, weights=Weights(questions=0, text=0, bm25=1))
    return [chunk.text for chunk in (await services.retriever.retrieve(collection, query)).chunks]


async def contexts(services, document):
    return [chunk.context for chunk in await services.ledger[Documents].chunks("default", document.id)]


async def state_of(services, document):
    return (await services.ledger[Documents].get("default", document.id)).state


@guards(
    "shared/ingest/index/stage.py",
    "return text if self.chunk.context is None else self.chunk.context.around(text)",
    "return text",
    means="the context is paid for and not embedded",
)
async def test_context_extends_vector_and_words_of_text(services, collection, library, provider):
    document = await library.add(HARBOUR, "a.md")
    await library.add(ELSEWHERE, "b.md")
    await work(services, "parse", "index")
    assert is_vector_of((await vectors_of(services, collection))[HARBOUR], HARBOUR)
    assert await found_by_words(services, collection, "ships") == [HARBOUR]
    assert await found_by_words(services, collection, "marina") == []

    await work(services, "generate", "index")

    assert await state_of(services, document) is DocumentState.READY
    assert provider.stats()["calls"] == 2
    assert await contexts(services, document) == [WRITTEN]
    assert is_vector_of((await vectors_of(services, collection))[HARBOUR], WRITTEN.around(HARBOUR))
    assert set(await found_by_words(services, collection, "marina")) == {HARBOUR, ELSEWHERE}


@guards(
    "shared/ingest/index/stage.py",
    "        chunk.content,",
    "        replace(chunk.content, text=chunk.context and chunk.context.around(chunk.content.text)),",
    means="answers cite words of a model as words of the document",
)
async def test_answer_quotes_and_cites_original_text_only(services, collection, library, settings):
    await library.add(HARBOUR, "a.md")
    await work(services)

    async with calling(settings.model_copy(update={"answering": "extractive"})) as client:
        reply = await client.post("/v1/query", json={"question": "When does the harbour open for ships at the marina?"})
        (chunk,) = (await client.post("/v1/retrieve", json={"question": "marina jetty berth"})).json()["chunks"]

    (citation,) = reply.json()["citations"]
    assert f"> {HARBOUR} [" in reply.json()["answer"]
    assert (citation["text"], citation["span"]) == (HARBOUR, [0, len(HARBOUR)])
    assert "quay" not in reply.text
    assert (chunk["text"], chunk["span"]) == (HARBOUR, [0, len(HARBOUR)])
    stored = await points(services, library)
    assert not any("marina" in str(payload) for payload in stored.values())


@guards(
    "shared/ledger/work/generation.sql",
    "v.questions, v.text, v.context FROM",
    "v.questions, v.text, NULL FROM",
    means="the context of a paid reply is lost",
)
@guards(
    "shared/ingest/generate/generator.py",
    "orjson.dumps([tenant, version, options.strategy, bodies])",
    'orjson.dumps([tenant, version, __import__("uuid").uuid4(), bodies])',
    means="the content key differs from call to call, and each reindex pays again",
)
async def test_reindex_with_context_pays_nothing(services, collection, library, provider):
    document = await library.add(TWO_SECTIONS, "a.md")
    await work(services)
    before, calls = await points(services, library), provider.stats()["calls"]

    await services.ledger[Documents].reindex(collection)
    await work(services)

    assert provider.stats()["calls"] == calls == 2
    after = await points(services, library)
    assert questions_of(after) == questions_of(before)
    assert {payload["version"] for payload in after.values()} == {2}
    assert await contexts(services, document) == [WRITTEN, WRITTEN]
    vectors = await vectors_of(services, collection)
    assert len(vectors) == 2
    assert all(is_vector_of(vector, WRITTEN.around(text)) for text, vector in vectors.items())


async def test_edit_pays_only_for_changed_chunk(services, collection, library, provider):
    document = await library.add(TWO_SECTIONS, "a.md")
    await work(services)
    provider.reset()

    await library.add(TWO_SECTIONS.replace("beta number", "beta figure"), "a.md")
    await work(services)

    assert provider.stats()["calls"] == 1
    vectors = await vectors_of(services, collection)
    assert len(vectors) == 2
    assert await contexts(services, document) == [WRITTEN, WRITTEN]
    assert all(is_vector_of(vector, WRITTEN.around(text)) for text, vector in vectors.items())


async def test_reply_without_context_is_accepted(services, collection, library, provider):
    provider.script(context={})
    document = await library.add(HARBOUR, "a.md")
    await work(services)

    assert await state_of(services, document) is DocumentState.READY
    assert provider.stats()["calls"] == 1
    assert await contexts(services, document) == [None]
    assert is_vector_of((await vectors_of(services, collection))[HARBOUR], HARBOUR)


async def test_text_rejected_with_context_keeps_its_words(services, collection, library, provider):
    provider.script(refuse_containing="Oban")
    document = await library.add(HARBOUR, "a.md")
    await work(services)

    assert await state_of(services, document) is DocumentState.READY
    assert is_vector_of((await vectors_of(services, collection))[HARBOUR], HARBOUR)
    assert await found_by_words(services, collection, "marina") == [HARBOUR]


async def test_context_encloses_prepended_questions_and_text(services, library, provider):
    collection = await with_options(services, context=True, prepend_questions=True)
    await library.add(HARBOUR, "a.md")
    await work(services)

    asked = [p["question"] for p in (await points(services, library)).values() if "question" in p]
    (row,) = await run(services, "SELECT questions FROM completions")
    in_order = sorted(asked, key=row.questions.index)
    vector = (await vectors_of(services, collection))[HARBOUR]
    assert is_vector_of(vector, WRITTEN.around("\n".join([*in_order, HARBOUR])))


@guards(
    "shared/ledger/work/claims_index.sql",
    "WHERE p.content_key = w.content_key AND w.error IS NULL AND NOT w.ready_made) AS context",
    "WHERE p.content_key = w.content_key) AS context",
    means="a document with questions of its own gets a context that was paid for another document",
)
async def test_ready_made_questions_leave_text_without_context(services, collection, library):
    await library.add(HARBOUR, "a.md")
    await work(services)
    own = await library.add(HARBOUR, "b.md", questions=["When does it open?"])
    await work(services)

    assert await contexts(services, own) == [None]
    statement = "SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id WHERE d.external_id = 'b.md'"
    ((chunk,),) = await run(services, statement)
    vectors = await services.index.text_vectors(visible_points(collection.location), [str(chunk)])
    assert is_vector_of(vectors[str(chunk)], HARBOUR)


async def test_text_with_context_is_not_reused(services, collection, library, provider):
    await library.add(TWO_SECTIONS, "a.md")
    await work(services)
    assert not await are_right(services, collection)
    before = embedded(provider)

    estimate = await estimator_of(services).estimate_rebuild(
        collection, CollectionOptions(), collection.embedding_model
    )
    build = await migrated(services)

    assert await are_right(services, build)
    assert embedded(provider) - before == 2 + await dropped(services, build)
    assert estimate.calls == 2
    assert estimate.paid_chunks == 0


async def test_build_with_context_pays_once_per_chunk(services, library, provider):
    await with_options(services)
    document = await library.add(TWO_SECTIONS, "a.md")
    await work(services)
    live = await library.collection()
    assert await contexts(services, document) == [None, None]
    provider.reset()

    for _ in range(2):
        build = await migrated(services, context=True)
        vectors = await vectors_of(services, build)
        assert len(vectors) == 2
        assert all(is_vector_of(vector, WRITTEN.around(text)) for text, vector in vectors.items())
        await services.ledger[Builds].drop(*NAME, build.number)

    assert provider.stats()["calls"] == 2
    assert await are_right(services, live)


async def test_lost_points_are_restored_with_context(services, collection, library, provider):
    await library.add(TWO_SECTIONS, "a.md")
    await work(services)
    before = await vectors_of(services, collection)
    provider.reset()
    await services.index.delete_build(collection.location)

    _, found = await IndexedCollection(services, collection).verify(repair=True)
    await work(services)

    assert found.missing == found.repaired > 2
    after = await vectors_of(services, collection)
    assert provider.stats()["calls"] == 0
    assert before.keys() == after.keys()
    assert all(np.allclose(after[text], before[text], atol=1e-5) for text in before)


@guards(
    "shared/ingest/batches/lines.py",
    "context=context_in(completion.text) if line.context else None,",
    "",
    means="a context that was paid for in a batch is lost",
)
async def test_context_of_batch_is_stored(services, lane, library, provider):
    collection = await with_options(services, context=True)
    await prepared(services, library, 2, lane=BATCH)
    await until(services, lane)
    await work(services, "index")

    assert provider.batch_stats("number")["lines"] == 2
    vectors = await vectors_of(services, collection)
    assert len(vectors) == 2
    assert all(is_vector_of(vector, WRITTEN.around(text)) for text, vector in vectors.items())


async def test_option_is_refused_for_very_small_model(services, settings):
    small = settings.model_copy(update={"llm_model": "smollm2-135m"})
    async with calling(small, services) as client:
        off = await client.put("/v1/collections/default", json={"context": False})
        put = await client.put("/v1/collections/default", json={"context": True})
        started = await client.post("/v1/collections/default/builds", json={"context": True})

    assert [reply.status_code for reply in (off, put, started)] == [201, 422, 422]
    assert "smollm2-135m writes one question per call and no context" in put.text


async def test_api_shows_option_and_context(services, collection, library, settings):
    document = await library.add(HARBOUR, "a.md")
    await work(services)

    async with calling(settings, services) as client:
        shown = (await client.get("/v1/collections/default")).json()
        (chunk,) = (await client.get(f"/v1/documents/{document.id}/chunks")).json()["items"]

    assert shown["options"]["context"] is True
    assert chunk["context"] == {"line": WRITTEN.line, "terms": list(WRITTEN.terms)}


@guards(
    "shared/ledger/work/reusable_vectors.sql",
    "ORDER BY coalesce('true' IN (b.options ->> 'prepend_questions', b.options ->> 'context'), false), b.build",
    "ORDER BY b.build",
    means="texts are embedded again although another build has their vectors",
)
async def test_vector_of_build_without_context_is_reused(services, collection, library, provider):
    await library.add(TWO_SECTIONS, "a.md")
    await work(services)
    plain = await migrated(services)
    await services.ledger[Builds].switch(*NAME, plain.number)
    before = embedded(provider)

    build = await migrated(services, questions_per_chunk=5)

    assert await are_right(services, build)
    assert embedded(provider) - before == await dropped(services, build)
