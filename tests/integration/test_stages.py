"""The stages from bytes to points and queries, with real engines and a scripted provider."""

# ruff: noqa: RUF001  other scripts have letters that look like ours
import asyncio
from dataclasses import replace
from uuid import uuid4

import numpy as np
import pytest
from qdrant_client import models
from structlog.testing import capture_logs

from shared.domain.corpus.collections import CollectionOptions, Weights
from shared.domain.states import ChunkState, DocumentState
from shared.ingest.index.stage import IndexStage, index_batch
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.model.rows.questions import QUESTIONS
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from shared.query.retrieve import Query
from shared.vectors.schema.filters import collection_points, visible_points
from shared.vectors.schema.points import Point
from tests.conftest import Library
from tests.support.api import ready, work
from tests.support.planted import guards
from tests.support.provider import DIMENSIONS, Script, ScriptedEndpoints
from tests.support.qdrant import qdrant_client

HARBOUR = "The harbour opens at seven in the morning for all ships."
TWO_SECTIONS = "\n\n".join(
    f"# {name}\n\n" + " ".join(f"{name}{number} is about {name} number {number}." for number in range(20))
    for name in ("alpha", "beta")
)


# A document with its own questions needs no generation.
OWN_QUESTIONS = ["What is about alpha number?", "When does the harbour open?"]


async def points(services, library, **payload):
    """Return all points of the tenant, including hidden ones, as {id: payload}."""
    collection = await library.collection()
    conditions = [{"key": key, "match": {"value": value}} for key, value in payload.items()]
    conditions += collection_points(collection.location)["must"]
    selected = models.Filter.model_validate({"must": conditions})
    records, _ = await qdrant_client(services).scroll(
        collection.index_name, scroll_filter=selected, limit=10_000, with_payload=True
    )
    return {record.id: record.payload for record in records}


async def texts_found(services, library, question, **more):
    retrieval = await services.retriever.retrieve(await library.collection(), Query(question, **more))
    return [chunk.text for chunk in retrieval.chunks]


def questions_of(stored):
    """Return the chunk and the question of each point, in order; an empty question for a chunk's own point."""
    return sorted((p["chunk_id"], p.get("question") or "") for p in stored.values())


async def test_ingested_document_is_found_by_its_questions(services, library, provider):
    document = await library.add(TWO_SECTIONS)
    await work(services)

    found = await services.ledger[Documents].get("default", document.id)
    assert found.state == DocumentState.READY
    assert found.progress.total == found.progress.indexed == provider.stats()["calls"]
    stored = await points(services, library)
    assert len(stored) == found.progress.indexed + found.progress.questions
    question = next(p for p in stored.values() if "question" in p)
    assert question["tenant"] == "default"
    assert question["document_id"] == str(document.id)
    assert question["version"] == 1
    assert (await texts_found(services, library, question["question"], top_k=1))[0] in TWO_SECTIONS


async def test_parser_message_is_only_logged(services, library):
    document = await library.add("%PDF-1.4 cut short")
    with capture_logs() as logs:
        await work(services, "parse")

    found = await services.ledger[Documents].get("default", document.id)
    assert found.state == DocumentState.FAILED
    assert found.error == "the PDF file is damaged and cannot be read; create or download it again"
    (refused,) = [entry for entry in logs if entry["event"] == "document.refused"]
    assert refused["document_id"] == str(document.id)
    assert refused["tenant"] == "default"
    assert refused["reason"] == found.error
    assert "Failed to load document" in refused["parser_error"]


async def test_repeated_indexing_writes_same_points(services, library, provider):
    await library.add(TWO_SECTIONS)
    await work(services, "parse", "index", "generate")
    chunks = await services.ledger[IndexWork].claim(100)
    await services.ledger[IndexWork].release([chunk.lease for chunk in chunks])
    await work(services, "index")
    before = await points(services, library)
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE chunks SET state = 'generated', due_at = now()")
    await work(services, "index")

    assert (await points(services, library)).keys() == before.keys()


async def test_edit_pays_only_changed_chunk_and_replaces_it(services, library, provider):
    long = TWO_SECTIONS.replace("about", "all about " + "very " * 30)
    document = await library.add(long, "a.md")
    await work(services)
    before = await points(services, library)
    paid = provider.stats()["calls"]
    assert paid >= 2

    await library.add(long.replace("beta19 is", "beta19 was"), "a.md")
    await work(services)

    after = await points(services, library)
    assert provider.stats()["calls"] == paid + 1
    assert {p["version"] for p in after.values()} == {2}
    shared = {p["chunk_id"] for p in before.values()} & {p["chunk_id"] for p in after.values()}
    assert shared
    assert {p["chunk_id"] for p in before.values()} - shared
    found = await services.ledger[Documents].get("default", document.id)
    assert len(after) == found.progress.indexed + found.progress.questions


async def edit_of_dead_worker(services, library):
    """Return the chunk of a document's edit that is in Qdrant, but whose worker died before settling."""
    await library.add(HARBOUR, "a.md", questions=OWN_QUESTIONS)
    await work(services, "parse", "index")
    await library.add("The harbour opens at nine in the morning for all boats.", "a.md", questions=OWN_QUESTIONS)
    await work(services, "parse")
    (chunk,) = await services.ledger[IndexWork].claim(10)
    await index_batch(services.indexer, [chunk])
    return chunk


async def test_query_sees_old_version_until_new_is_complete(services, library, provider):
    chunk = await edit_of_dead_worker(services, library)

    assert chunk.hidden
    assert len({p["version"] for p in (await points(services, library)).values()}) == 2
    assert ["seven" in t for t in await texts_found(services, library, "When does the harbour open?")] == [True]
    await services.ledger[IndexWork].release([chunk.lease])
    await work(services, "index")
    assert ["nine" in t for t in await texts_found(services, library, "When does the harbour open?")] == [True]


async def test_chunk_in_two_versions_returns_live_one_once(services, library, provider):
    await library.add(TWO_SECTIONS, "a.md", metadata={"edition": 1}, questions=OWN_QUESTIONS)
    await work(services, "parse", "index")
    await library.add(TWO_SECTIONS + "\n", "a.md", metadata={"edition": 2}, questions=OWN_QUESTIONS)
    await work(services, "parse")
    batch = await services.ledger[IndexWork].claim(10)
    await IndexStage([services.indexer]).settle([await index_batch(services.indexer, batch)])
    collection = await library.collection()
    assert {p["version"] for p in (await points(services, library)).values()} == {1, 2}

    for diversity in (0.0, 0.5):
        query = Query("What is about alpha number?", top_k=9, diversity=diversity)
        found = (await services.retriever.retrieve(collection, query)).chunks
        assert len(found) == len({chunk.text for chunk in found}) == 2
        assert {(chunk.version, chunk.metadata["edition"]) for chunk in found} == {(2, 2)}
    query = Query("What is about alpha number?", filter={"edition": 1})
    assert (await services.retriever.retrieve(collection, query)).chunks == []


async def test_chunk_replaced_during_read_is_not_lost(services, library, once, monkeypatch):
    await once(ready, (TWO_SECTIONS, "a.md"))
    collection = await library.collection()
    read = services.index.chunk_payloads

    async def late(*arguments):
        monkeypatch.undo()
        await services.ledger[Documents].reindex(collection)
        await work(services)
        return await read(*arguments)

    monkeypatch.setattr(services.index, "chunk_payloads", late)

    found = (await services.retriever.retrieve(collection, Query("What is about alpha number?"))).chunks

    assert [chunk.version for chunk in found] == [2, 2]


async def test_query_sends_two_requests_and_reads_by_id(services, library, once, monkeypatch):
    await once(ready, (TWO_SECTIONS, "a.md"))
    collection, stored = await library.collection(), await points(services, library)
    query = Query(next(payload["question"] for payload in stored.values() if "question" in payload))
    assert (await services.retriever.retrieve(collection, query)).chunks  # now the collection's size is cached
    requests, sent = services.index._requests, []
    send = requests.send

    async def recorded(method, path, body=None, within=None):
        sent.append((path.rpartition("/points")[2], body))
        return await send(method, path, body, within)

    monkeypatch.setattr(requests, "send", recorded)

    found = (await services.retriever.retrieve(collection, query)).chunks

    (_, searched), (path, read) = [each for each in sent if each[0] != "/count"]  # which no query waits for
    assert len(searched["searches"]) == 3
    assert not any("with_payload" in search for search in searched["searches"])
    questions = [chunk for chunk in found if chunk.matched_question]
    assert questions
    assert (path, len(read["ids"])) == ("", len(found) + len(questions))


async def test_concurrent_queries_are_embedded_in_one_request(services, library, provider, once):
    await once(ready, (TWO_SECTIONS, "a.md"))
    collection = await library.collection()
    questions = [Query(f"What is about {name} number {number}?") for name in ("alpha", "beta") for number in range(4)]
    alone = [(await services.retriever.retrieve(collection, question)).chunks for question in questions]
    services.retriever._vectors._remembered.clear()
    provider.reset()

    together = await asyncio.gather(*(services.retriever.retrieve(collection, question) for question in questions))

    assert [retrieval.chunks for retrieval in together] == alone
    stats = provider.stats()
    assert (stats["embedded_inputs"], stats["embeddings"]) == (8, 1)


async def test_hidden_chunk_is_not_readable_by_id(services, library, provider):
    chunk = await edit_of_dead_worker(services, library)
    stored = {(p["chunk_id"], p["version"]): p for p in (await points(services, library)).values()}
    hidden = {chunk: version for (chunk, version), payload in stored.items() if payload.get("hidden")}
    visible = {chunk: version for (chunk, version), payload in stored.items() if not payload.get("hidden")}
    location = (await library.collection()).location

    assert hidden == {str(chunk.lease.id): 2}
    assert (await services.index.chunk_payloads(location, hidden)).chunks == {}
    assert (await services.index.chunk_payloads(location, hidden | visible)).chunks.keys() == visible.keys()


async def test_late_writer_of_old_version_restores_nothing(services, library, provider):
    await library.add(TWO_SECTIONS, "a.md", questions=OWN_QUESTIONS)
    await work(services, "parse")
    slow = await services.ledger[IndexWork].claim(10)
    await library.add(TWO_SECTIONS + "\n\nAnd one more sentence.", "a.md", questions=OWN_QUESTIONS)
    await work(services, "parse", "index")
    after = await points(services, library)

    outcomes = await index_batch(services.indexer, slow)
    await IndexStage([services.indexer]).settle([outcomes])
    await services.cleaner.clean()

    assert await points(services, library) == after


async def test_late_writer_hides_no_visible_points(services, library, provider):
    await library.add(TWO_SECTIONS, "a.md", questions=OWN_QUESTIONS)
    await work(services, "parse")
    slow = await services.ledger[IndexWork].claim(10)
    await services.ledger[IndexWork].release([chunk.lease for chunk in slow])
    await work(services, "index")
    before = await points(services, library)
    await library.add(TWO_SECTIONS + "\n\nAnd one more sentence.", "a.md")

    outcomes = await index_batch(services.indexer, slow)
    await IndexStage([services.indexer]).settle([outcomes])

    assert await points(services, library) == before


async def test_collection_rejected_by_qdrant_does_not_block_others(services, library, provider):
    other = Library(services, "other")
    documents = [await library_.add(HARBOUR, "a.md", questions=OWN_QUESTIONS) for library_ in (library, other)]
    await work(services, "parse", "index")
    for library_ in (library, other):
        await library_.add("The harbour opens at nine in the morning.", "a.md", questions=OWN_QUESTIONS)
    deleted = await other.add("This one is deleted.", questions=[])
    await work(services, "parse")
    chunks = await services.ledger[IndexWork].claim(10)
    outcomes = [await index_batch(services.indexer, [chunk]) for chunk in chunks]
    collection = await library.collection()

    async def rename(index_name):
        async with services.database.begin() as connection:
            for statement in (
                "UPDATE collections SET index_name = :name WHERE id = :id",
                "UPDATE sweeps SET index_name = :name WHERE collection_id = :id",
            ):
                await connection.execute(Statement(statement), {"name": index_name, "id": collection.id})

    await rename(f"no/such/path-{services.indexer.space}")  # Qdrant answers 501 to every request for this path
    await services.ledger[Documents].delete("default", (await library.add("Another.")).id)
    await services.ledger[Documents].delete("other", deleted.id)
    await IndexStage([services.indexer]).settle(outcomes)
    await services.cleaner.clean()

    async def states():
        async with services.database.begin() as connection:
            found = await connection.execute(Statement("SELECT tenant, state FROM documents ORDER BY tenant, state"))
            return [tuple(row) for row in found]

    assert await states() == [("default", "deleting"), ("default", "indexing"), ("other", "ready")]
    await rename(collection.index_name)
    await services.cleaner.clean()
    assert await states() == [("default", "ready"), ("other", "ready")]
    assert {d.id for d in documents} == {
        d.id for t in ("default", "other") for d in await services.ledger[Documents].page(t)
    }


@guards(
    "shared/vectors/schema/filters.py",
    'return {"must": [_up_to("token", token)]}',
    'return {"must": [_up_to("token", token + 1_000_000)]}',
    means="points are fenced only by their version",
)
async def test_upsert_does_not_replace_point_of_later_claim(services, library):
    name, identity = (await library.collection()).index_name, str(uuid4())
    vector = {"dense": np.eye(1, DIMENSIONS, dtype=np.float32)[0]}

    async def written(token):
        payload = {"version": 2, "token": token, "tenant": "t"}
        await services.index.upsert(name, [Point(identity, vector, payload)])
        (stored,) = await qdrant_client(services).retrieve(name, [identity])
        return stored.payload["token"]

    assert await written(5) == 5
    assert await written(4) == 5
    assert await written(5) == 5
    assert await written(6) == 6


async def test_points_and_upload_of_deleted_document_are_deleted(services, library, provider):
    document = await library.add(TWO_SECTIONS, questions=OWN_QUESTIONS)
    await library.add("Something else that stays where it is.", "b.md", questions=[])
    await work(services, "parse", "index")
    await services.ledger[Documents].delete("default", document.id)
    await services.cleaner.clean()  # like the scheduler does later

    stored = await points(services, library)
    assert stored
    assert all(p["document_id"] != str(document.id) for p in stored.values())
    assert len(list((services.settings.data_dir / "uploads").glob("??/*"))) == 1


async def test_unembeddable_text_degrades_only_its_document(services, library, provider):
    provider.script(refuse_containing="unspeakable")
    bad = await library.add("This text is unspeakable for the embedding model, every word of it.", "bad.md")
    good = await library.add("This text is perfectly fine for the embedding model, all of it.", "good.md")
    await work(services)

    found = await services.ledger[Documents].get("default", bad.id)
    assert found.state == DocumentState.DEGRADED
    (chunk,) = await services.ledger[Documents].chunks("default", bad.id)
    assert "embedded" in chunk.error
    assert (await services.ledger[Documents].get("default", good.id)).state == DocumentState.READY


async def test_chunk_with_malformed_replies_stays_searchable_by_text(services, library, provider):
    provider.script(malformed_containing="lighthouse")
    document = await library.add("The lighthouse keeper lives alone on the northern cliff all year.", "a.md")
    await work(services)

    (chunk,) = await services.ledger[Documents].chunks("default", document.id)
    assert chunk.state == ChunkState.DEAD
    assert provider.stats()["calls"] == 3
    assert await texts_found(services, library, "lighthouse keeper") == [chunk.content.text]


async def test_given_questions_are_stored_without_calls(services, library, provider):
    document = await library.add("The keeper lives alone.", questions=["Who lives alone?", "who lives alone"])
    await work(services)

    found = await services.ledger[Documents].get("default", document.id)
    assert (found.state, found.progress.questions) == (DocumentState.READY, 2)
    assert provider.stats()["calls"] == 0


async def test_empty_question_list_generates_no_questions(services, library, provider):
    document = await library.add("The keeper lives alone.", questions=[])
    await work(services)

    assert (await services.ledger[Documents].get("default", document.id)).state == DocumentState.READY
    assert provider.stats()["calls"] == 0
    assert await texts_found(services, library, "keeper") == ["The keeper lives alone."]


async def test_questions_with_unstorable_characters_are_stored(services, library, provider):
    provider.script(hostile=True)
    document = await library.add("The keeper lives alone on the northern cliff all the year round.", "a.md")
    await work(services)

    found = await services.ledger[Documents].get("default", document.id)
    assert found.state == DocumentState.READY
    assert found.progress.questions >= 1


async def test_document_that_kills_workers_becomes_dead_letter(services, library, provider):
    document = await library.add("poison", "poison.md")
    for suspect in (False, False, True, True, True):
        assert len(await services.ledger[ParseWork].claim(1, suspects=suspect)) == 1
        assert await services.ledger[ParseWork].claim(1, suspects=not suspect) == []
        async with services.database.begin() as connection:
            await connection.execute_sql("UPDATE documents SET due_at = now() WHERE leased_by IS NOT NULL")
    other = await library.add("A harmless text about the sea and its ships.", "fine.md")
    await work(services)

    poisoned = await services.ledger[Documents].get("default", document.id)
    assert poisoned.state == DocumentState.FAILED
    assert poisoned.error == "set aside: its worker ended 5 times while working on it, 3 times alone"
    assert (await services.ledger[Documents].get("default", other.id)).state == DocumentState.READY


async def test_search_never_crosses_tenants(services, library, provider):
    await library.add("The secret of the first tenant is a blue key.", questions=[])
    await work(services, "parse", "index")
    mine = await library.collection()
    foreign = type(mine)(
        mine.id, "other", mine.name, mine.options, mine.embedding_model, mine.index_name, mine.created_at
    )

    assert (await services.retriever.retrieve(foreign, Query("secret blue key"))).chunks == []
    assert (await services.retriever.retrieve(mine, Query("secret blue key"))).chunks


async def test_top_k_counts_chunks_despite_many_questions(services, library, provider):
    tide_questions = [f"What is the tide number {number}?" for number in range(120)]
    await library.add("The tide tables of the harbour.", "many-questions.md", questions=tide_questions)
    for number in range(3):
        await library.add(
            f"Tide gauge {number} stands in the bay.", f"{number}.md", questions=[f"Where is gauge {number}?"]
        )
    await work(services)
    retrieval = await services.retriever.retrieve(
        await library.collection(), Query("What is the tide number 7?", top_k=4, channels=("questions",))
    )

    assert len({chunk.chunk_id for chunk in retrieval.chunks}) == 4
    assert retrieval.chunks[0].matched_question == "What is the tide number 7?"


async def test_min_score_and_filters_are_applied(services, library, provider):
    document = await library.add("The tide tables of the harbour.", questions=["What is the tide?"])
    await work(services)
    assert await texts_found(services, library, "What is the tide?", min_score=0.5, channels=("questions",))
    assert not await texts_found(services, library, "entirely unrelated words", min_score=0.5)
    assert await texts_found(services, library, "tide", document_ids=[document.id])
    assert not await texts_found(services, library, "tide", document_ids=[uuid4()])
    assert not await texts_found(services, library, "tide", filter={"author": "Kim"})


async def test_unchanged_reindex_costs_nothing_and_has_no_gap(services, library, provider, once):
    (document,) = await once(ready, (TWO_SECTIONS, "a.md"))
    before = await points(services, library)

    assert (await services.ledger[Documents].reindex(await library.collection())).documents == 1
    await work(services, "parse")
    assert await texts_found(services, library, "alpha number", top_k=1)
    await work(services, "index")

    after = await points(services, library)
    assert questions_of(after) == questions_of(before)
    assert {p["version"] for p in after.values()} == {2}
    assert provider.stats()["calls"] == 0
    found = await services.ledger[Documents].get("default", document.id)
    assert (found.state, found.live_version) == (DocumentState.READY, 2)


async def test_changed_prompt_replaces_all_questions(services, library, provider, once):
    await once(ready, (TWO_SECTIONS, "a.md"))
    before = await points(services, library)
    chunks = {p["chunk_id"] for p in before.values()}
    options = CollectionOptions(questions_per_chunk=2)
    collection = await services.ledger[Collections].ensure(
        "default", "default", embedding_model="scripted-embedding", options=options
    )
    provider.script(questions=2)

    await services.ledger[Documents].reindex(collection)
    await work(services)

    after = await points(services, library)
    assert provider.stats()["calls"] == len(chunks)
    assert len(after) < len(before)
    assert {p["version"] for p in after.values()} == {2}


async def enable_prepending(services):
    options = CollectionOptions(prepend_questions=True)
    return await services.ledger[Collections].ensure(
        "default", "default", embedding_model="scripted-embedding", options=options
    )


async def text_vectors(services, library):
    """Return the stored vector of each chunk's text, by text; vectors of questions are omitted."""
    stored = await points(services, library)
    visible = visible_points((await library.collection()).location)
    texts = {p["chunk_id"]: p["text"] for p in stored.values() if "text" in p}
    vectors = await services.index.text_vectors(visible, list(texts))
    return {texts[chunk]: vector for chunk, vector in vectors.items()}


def is_vector_of(vector, text):
    return np.allclose(vector, ScriptedEndpoints(Script()).vector(text), atol=1e-5)


async def test_prepended_questions_change_only_text_vector(services, library, provider, once):
    await once(ready, (HARBOUR, "a.md"))
    before = await points(services, library)
    questions = [p["question"] for p in before.values() if "question" in p]
    assert is_vector_of((await text_vectors(services, library))[HARBOUR], HARBOUR)

    collection = await enable_prepending(services)
    assert is_vector_of((await text_vectors(services, library))[HARBOUR], HARBOUR)
    await services.ledger[Documents].reindex(collection)
    await work(services)

    after = await points(services, library)
    assert provider.stats()["calls"] == 0
    assert described(after) == described(before)
    assert {p["version"] for p in after.values()} == {2}
    vector = (await text_vectors(services, library))[HARBOUR]
    in_order = sorted(questions, key=(await passed_questions(services)).index)
    assert is_vector_of(vector, "\n".join([*in_order, HARBOUR]))
    assert not is_vector_of(vector, HARBOUR)


VERSION_FIELDS = {"version", "token", "extended"}


def described(stored):
    """Return the payloads without the fields that depend on version and claim, and with `hidden` always set."""
    payloads = [{"hidden": False} | {k: v for k, v in p.items() if k not in VERSION_FIELDS} for p in stored.values()]
    return sorted(payloads, key=lambda payload: (payload["chunk_id"], payload.get("question", "")))


async def passed_questions(services):
    async with services.database.begin() as connection:
        live = f"SELECT {QUESTIONS}, q.reasons FROM chunk_questions q JOIN documents d ON d.live_version = q.version"
        ((questions, reasons),) = (await connection.execute(Statement(live))).all()
    return [question for question, reason in zip(questions, reasons, strict=True) if reason is None]


async def test_questions_are_filtered_against_text_without_prepended_questions(services, library, provider):
    await enable_prepending(services)
    await library.add(HARBOUR, "a.md")
    await work(services, "parse", "index", "generate")
    (chunk,) = await services.ledger[IndexWork].claim(10)
    provider_vector = ScriptedEndpoints(Script()).vector
    nearest = max(float(provider_vector(question) @ provider_vector(HARBOUR)) for question in chunk.questions)

    (indexed,) = await index_batch(replace(services.indexer, floor=nearest + 0.01), [chunk])

    assert indexed.passed == 0
    assert is_vector_of((await text_vectors(services, library))[HARBOUR], HARBOUR)


async def test_text_rejected_with_prepended_questions_is_embedded_alone(services, library, provider):
    await enable_prepending(services)
    provider.script(refuse_containing=f"?\n{HARBOUR}")
    document = await library.add(HARBOUR, "a.md")
    await work(services)

    assert (await services.ledger[Documents].get("default", document.id)).state == DocumentState.READY
    assert is_vector_of((await text_vectors(services, library))[HARBOUR], HARBOUR)
    assert len(await points(services, library)) > 1


MIXED = {
    "de": "Die alten Häuser am Hafen wurden im letzten Winter verkauft, und ihre neuen Besitzer kommen aus der Stadt.",
    "en": "The old lighthouses of the coast were painted last winter, and their keepers have moved to the city since.",
    "zh": "港口旁边的灯塔在去年冬天重新粉刷过，守塔人从那以后搬到了城里居住，再也没有回到海边来。",
    "ru": "Старые маяки на побережье покрасили прошлой зимой, и смотрители, которые в них жили, с тех пор переехали в "
    "город, потому что корабли больше не заходят в нашу гавань.",
}


async def test_words_match_in_language_of_their_text(services, library):
    documents = {language: await library.add(text, f"{language}.md") for language, text in MIXED.items()}
    await library.add("Set `max_tokens` to 5.", "code.md")
    await work(services, "parse", "index")

    by_words = Weights(questions=0, text=0, bm25=1)
    for question, language in (
        ("Welches Haus?", "de"),
        ("Which lighthouse?", "en"),
        ("灯塔在哪里？", "zh"),
        ("Сколько маяков?", "ru"),
        ("What is a max_token?", None),
    ):
        found = await texts_found(services, library, question, weights=by_words)
        assert found[:1] == [MIXED.get(language, "Set `max_tokens` to 5.")], question
    assert (await library.collection()).languages == ("de", "en", "ru", "zh")
    (chunk,) = (await services.ledger[Documents].chunks("default", documents["ru"].id))[:1]
    assert chunk.content.language == "ru"


async def at_stage(services, name):
    """Return a stage to which a chunk or a document is due."""
    await Library(services).add(HARBOUR, "a.md")
    if before := {"parse": (), "index": ("parse",), "generate": ("parse", "index")}[name]:
        await work(services, *before)
    stages = (services.parser, IndexStage(services.indexers.values()), services.generator)
    return next(stage for stage in stages if stage.name == name)


@guards(
    "shared/ingest/parse/stage.py",
    "await self.work.release(leases, lost=True)",
    "await self.work.release(leases)",
    means="a document that makes settlements fail is parsed for ever",
    case="parse",
)
@guards(
    "shared/ingest/index/stage.py",
    "await self._any.work.release(leases, self._costs.take(leases), lost=True)",
    "await self._any.work.release(leases, self._costs.take(leases))",
    means="a chunk that makes settlements fail is embedded for ever",
    case="index",
)
@guards(
    "shared/ingest/generate/stage.py",
    "await self.work.release(leases, lost=True)",
    "await self.work.release(leases)",
    means="a chunk that makes settlements fail is paid for ever",
    case="generate",
)
@pytest.mark.parametrize("name", ["parse", "index", "generate"])
async def test_expired_leases_count_as_lost_unlike_released_ones(services, name):
    stage, seen = await at_stage(services, name), []
    for end in (stage.release, stage.expire, stage.release):
        (item,) = await stage.claim(1, {})
        seen.append((item[0] if name == "index" else item).lost_leases)
        await end(stage.leases_of(item))

    assert seen == [0, 0, 1]
