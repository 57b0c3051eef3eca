"""Transactions are bounded: rows of documents and collections of any size are changed in slices."""

from datetime import timedelta
from uuid import uuid4

import pytest

from features.all import FEATURES
from features.erasure.ledger.leftover_rows import LeftoverRows
from features.verification.comparison import Verification
from features.verification.domain import DifferingPoint
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import JobIsOpen, Unavailable
from shared.domain.spending.usage import Usage
from shared.domain.stages.generation import GenerateOutcome
from shared.domain.stages.indexing import IndexOutcome
from shared.domain.stages.parsing import NewChunk, ParseOutcome
from shared.domain.states import DocumentState
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.leftovers import Leftovers
from shared.ledger.work.parsing import ParseWork
from shared.services.features import erased_tables
from tests.support.api import work
from tests.support.sent import changed_rows


def new_chunks(count, words="chunk", key=None):
    return [NewChunk(uuid4(), n, ChunkContent.whole(f"{words} {n}"), key or uuid4().bytes) for n in range(count)]


async def claimed(services, library, name="a.md", count=1):
    for number in range(count):
        await library.add(f"unused {name} {number}", f"{name}{number}")
    return await services.ledger[ParseWork].claim(10)


def parsed(document, chunks):
    return ParseOutcome(document, "Title", "text/markdown", chunks)


async def rows(services, statement):
    async with services.database.begin() as connection:
        return [tuple(row) for row in await connection.execute(Statement(statement))]


async def test_large_document_chunks_are_written_in_slices(services, library, monkeypatch):
    monkeypatch.setattr("shared.ledger.work.parsing._SLICE_CHUNKS", 4)
    (document,) = await claimed(services, library)
    chunks = new_chunks(10)

    with changed_rows("INSERT INTO chunks") as sizes:
        assert await services.ledger[ParseWork].settle([parsed(document, chunks)]) == {document.lease.id}

    assert sizes == [4, 4, 2]
    shown = await services.ledger[Documents].get("default", document.lease.id)
    assert (shown.state, shown.title, shown.progress.total) == (DocumentState.INDEXING, "Title", 10)


async def test_document_group_is_written_in_slices(services, library, monkeypatch):
    monkeypatch.setattr("shared.ledger.work.parsing._SLICE_CHUNKS", 4)
    documents = await claimed(services, library, count=5)
    outcomes = [parsed(d, new_chunks(n)) for d, n in zip(documents, (2, 2, 1, 9, 3), strict=True)]

    with changed_rows("INSERT INTO chunks") as sizes:
        assert await services.ledger[ParseWork].settle(outcomes) == {d.lease.id for d in documents}

    assert sizes == [3, 2, 3, 4, 4, 1]  # the largest document is last, so that the others do not wait for its slices


async def test_document_too_large_for_one_transaction_is_settled(services, library, monkeypatch):
    monkeypatch.setattr("shared.ledger.work.parsing._SLICE_CHUNKS", 100)
    (document,) = await claimed(services, library)
    short_timeout = Database(
        services.settings.database_url.get_secret_value(), timeout=timedelta(seconds=0.25)
    )  # in proportion to 20 s and a document 80 times as large
    try:
        held = await ParseWork(short_timeout, worker="w", lease=timedelta(seconds=30)).settle(
            [parsed(document, new_chunks(6_000))]
        )
    finally:
        await short_timeout.aclose()

    assert held == {document.lease.id}
    assert await rows(services, "SELECT count(*) FROM chunks") == [(6_000,)]


async def test_worker_death_between_slices_restarts_document(services, library, monkeypatch):
    """The options may have changed since, so nothing of the first parse may remain."""
    monkeypatch.setattr("shared.ledger.work.parsing._SLICE_CHUNKS", 4)
    (document,) = await claimed(services, library)
    ledger = services.ledger

    async def die(*_):
        raise Unavailable("the worker died", component="ledger")

    with monkeypatch.context() as dying:
        dying.setattr(ParseWork, "_settle", die)
        with pytest.raises(Unavailable):
            await ledger[ParseWork].settle([parsed(document, new_chunks(10, "old"))])
    assert await rows(services, "SELECT count(*) FROM chunks") == [(8,)]
    await rows(services, "UPDATE documents SET due_at = now() - interval '1 s' RETURNING 1")

    (again,) = await ledger[ParseWork].claim(1)

    assert (again.lease.version, again.upload) == (2, document.upload)
    assert await ledger[ParseWork].settle([parsed(document, new_chunks(10, "late"))]) == set()
    assert await ledger[ParseWork].settle([parsed(again, new_chunks(5, "new"))]) == {again.lease.id}
    assert {chunk.content.text for chunk in await ledger[IndexWork].claim(50)} == {f"new {n}" for n in range(5)}
    assert await rows(services, "SELECT below_version FROM sweeps") == [(2,)]  # some may be in Qdrant already
    assert await ledger[Leftovers].purge_versions() == []
    assert await rows(services, "SELECT DISTINCT version FROM chunks") == [(2,)]


async def test_same_content_chunks_advance_in_slices(services, library, monkeypatch):
    monkeypatch.setattr("shared.ledger.work.generation._MOST_TWINS", 4)
    (document,) = await claimed(services, library)
    await services.ledger[ParseWork].settle([parsed(document, new_chunks(11, key=b"k" * 32))])
    texts = await services.ledger[IndexWork].claim(50)
    await services.ledger[IndexWork].settle([IndexOutcome(text_only, [], 0) for text_only in texts])
    (chunk,) = (await services.ledger[GenerateWork].claim(50)).chunks

    with changed_rows("UPDATE chunks") as sizes:
        await services.ledger[GenerateWork].settle(
            [GenerateOutcome(chunk, "scripted", ("What is it?",), Usage(10, 5), 1)]
        )
        paid = []
        while (again := await services.ledger[GenerateWork].claim(50)).paid_already:
            assert again.chunks == []
            paid.append(again.paid_already)

    assert max(sizes) <= 5  # including the claimed chunk
    assert len(paid) == 2
    assert len(await services.ledger[IndexWork].claim(50)) == 11


async def test_collection_is_reindexed_in_slices(services, library, provider, monkeypatch):
    monkeypatch.setattr("shared.ledger.documents.documents._REINDEX_SLICE", 2)
    for number in range(5):
        await library.add(f"Text number {number}.", f"{number}.md", questions=["Which number?"])
    await work(services)
    await library.add("Another text.", "unfinished.md")

    with changed_rows("AS newest") as sizes:
        assert (await services.ledger[Documents].reindex(await library.collection())).documents == 5
        assert sizes == [2]  # the request was answered
        while await services.ledger[Documents].continue_reindex():
            pass

    assert sizes == [2, 2, 1]
    assert await rows(services, "SELECT version, count(*) FROM documents GROUP BY 1 ORDER BY 1") == [(1, 1), (2, 5)]
    with pytest.raises(JobIsOpen):  # all are being processed
        await services.ledger[Documents].reindex(await library.collection())


async def test_old_versions_are_deleted_in_slices(services, library, provider, monkeypatch):
    monkeypatch.setattr("shared.ledger.documents.versions._SLICE_CHUNKS", 4)
    (document,) = await claimed(services, library)
    await services.ledger[ParseWork].settle([parsed(document, new_chunks(10))])
    await work(services, "index", "generate", "index")
    await library.add("another text", "a.md0", questions=["Which text?"])
    await work(services)

    with changed_rows("DELETE FROM chunks") as sizes:
        await services.cleaner.clean()

    assert [size for size in sizes if size] == [4, 4, 2]
    for table in ("chunks", "chunk_contents", "chunk_questions"):
        assert await rows(services, f"SELECT DISTINCT version FROM {table}") == [(2,)]


async def test_deleted_document_is_removed_in_slices(services, library, provider, monkeypatch):
    monkeypatch.setattr("shared.ledger.documents.versions._SLICE_CHUNKS", 4)
    monkeypatch.setattr("shared.ledger.documents.versions._MOST_SLICES", 1)
    (document,) = await claimed(services, library)
    await services.ledger[ParseWork].settle([parsed(document, new_chunks(10))])
    await work(services, "index", "generate", "index")
    await services.ledger[Documents].delete("default", document.lease.id)

    left = []
    for _ in range(3):
        await services.cleaner.clean()
        left += await rows(services, "SELECT (SELECT count(*) FROM chunks), count(*) FROM documents")

    assert left == [(6, 1), (2, 1), (0, 0)]


async def test_lost_index_is_repaired_in_slices(services, library, provider, monkeypatch):
    monkeypatch.setattr("features.verification.comparison._CHUNKS", 4)
    (document,) = await claimed(services, library)
    await services.ledger[ParseWork].settle([parsed(document, new_chunks(10))])
    await work(services, "index", "generate", "index")
    collection = await library.collection()
    await services.index.delete_document(collection.location, document.lease.id)

    async def verify():
        verification = Verification(services.ledger[Audit], services.index, collection, repair=True)
        findings = [item async for item in verification.run() if isinstance(item, DifferingPoint)]
        return {finding.chunk_id for finding in findings if finding.repaired}, verification.so_far.unrepaired

    with changed_rows("UPDATE chunks") as sizes:
        repaired, unrepaired = await verify()

    assert (len(repaired), unrepaired) == (10, 0)
    assert sizes == [4, 4, 2]
    await work(services, "index")
    assert await verify() == (set(), 0)
    assert (await services.ledger[Documents].get("default", document.lease.id)).state == DocumentState.READY


async def test_erasure_leftovers_are_searched_in_slices(services, monkeypatch):
    await rows(
        services,
        "INSERT INTO queries (id, tenant, collection_id, question, chunk_ids)"
        " SELECT gen_random_uuid(), 'erased', gen_random_uuid(), repeat('x', 200), '{}' FROM generate_series(1, 100)"
        " RETURNING 1",
    )
    leftovers, statements = LeftoverRows(services.database, erased_tables(FEATURES)), {}
    for pages in (1, 4_000):
        monkeypatch.setattr("features.erasure.ledger.leftover_rows._SLICE_PAGES", pages)
        with changed_rows("FROM queries t") as statements[pages]:
            assert (await leftovers.rows("erased", [uuid4()], whole_tenant=True))["queries"] == 100

    assert len(statements[1]) > len(statements[4_000]) == 1
