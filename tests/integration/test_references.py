"""Objects of sources are not copied: they are read again in the version that a sync has seen, or not at all."""

import hashlib
import os
import shutil
from dataclasses import replace
from datetime import timedelta

import pytest

from features.sources.ledger.hints import Hints
from features.sources.ledger.references import WaitingReferences
from features.sources.ledger.sources import Sources
from features.sources.syncing.originals import SourceOriginals
from shared.domain.errors import Transient
from shared.domain.states import DocumentState
from shared.ledger.documents.dead_letters import DeadLetters
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.ledger.tenants.deployment import DeploymentIdentity
from shared.storage.references import Reference
from tests.integration.test_api_sources import ParseWorker, add, write
from tests.support.api import calling
from tests.support.sources import Corpus, ScriptedSource, SyncedCorpus, make_older


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "wiki"
    folder.mkdir()
    write(folder, "leave.md", "Employees get thirty days of leave.")
    return folder


@pytest.fixture
def allowed(settings, tmp_path):
    return settings.model_copy(update={"source_roots": {"*": (f"file://{tmp_path}",)}})


@pytest.fixture
async def client(services, allowed, provider):
    async with calling(allowed, services) as client:
        yield client


@pytest.fixture
def worker(services, allowed):
    return ParseWorker(services, allowed)


async def rows(services, statement):
    async with services.database.begin() as connection:
        return (await connection.execute(Statement(statement))).all()


async def objects(services):
    return [name async for names in services.uploads.pages() for name in names]


async def document(services):
    (document,) = await services.ledger[Documents].page("default")
    return document


async def texts(client, document):
    return (await client.get(f"/v1/documents/{document.id}/text")).text


async def try_twice(services, worker):
    """Try to parse a document twice, without the pause of a retry; return the reason of the last failure."""
    for _ in range(2):
        await rows(services, "UPDATE documents SET due_at = now() WHERE state = 'queued' RETURNING id")
        await worker.work("parse")
        await services.ledger[Hints].reopen()
        await worker.run()
    return (await document(services)).error


async def test_synced_folder_is_parsed_without_copies(client, services, folder, worker):
    write(folder, "strange #,%.md", "Names may contain any character.")
    await add(client, folder)
    await worker.sync(client)

    await worker.work()

    page = await services.ledger[Documents].page("default")
    assert {(each.state, each.size_bytes) for each in page} == {(DocumentState.READY, 35), (DocumentState.READY, 32)}
    assert await objects(services) == []


async def test_touched_file_still_has_its_bytes(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    os.utime(folder / "leave.md", (1, 1))

    await worker.work("parse")

    assert (await document(services)).state is DocumentState.INDEXING


async def test_file_changed_before_parsing_arrives_without_sync(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    write(folder, "leave.md", "Employees get thirty-two days of leave.")

    await worker.work("parse")
    waiting = await document(services)
    assert await services.ledger[Hints].reopen()
    await worker.run()
    await worker.work()

    assert (waiting.state, waiting.version) == (DocumentState.QUEUED, 1)
    assert "changed or deleted after a sync had read this version" in waiting.error
    current = await document(services)
    assert (current.state, current.version) == (DocumentState.READY, 2)
    assert "thirty-two" in await texts(client, current)
    assert await services.ledger[DeadLetters].page("default") == []


async def test_deleted_file_fails_reindex_and_keeps_answers(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    await worker.work()
    (folder / "leave.md").unlink()
    live = await document(services)

    await services.ledger[Documents].reindex(await services.ledger[Collections].get("default", "handbook"))
    while await services.ledger[Documents].continue_reindex():
        pass
    await rows(services, "UPDATE documents SET attempts = 6 RETURNING id")
    reason = await try_twice(services, worker)

    assert reason.startswith("gave up after 8 attempts: 'leave.md' of the source 'wiki'")
    assert "copy_files" in reason
    failed = await document(services)
    assert (failed.state, failed.live_version) == (DocumentState.FAILED, live.live_version)


async def test_unreachable_source_uses_no_attempt(client, services, folder, worker, tmp_path):
    await add(client, folder)
    await worker.sync(client)
    shutil.move(folder, tmp_path / "unmounted")

    assert "cannot be read" in await try_twice(services, worker)
    assert await rows(services, "SELECT state, attempts FROM documents") == [("queued", 0)]

    shutil.move(tmp_path / "unmounted", folder)
    again = ParseWorker(services, services.settings.model_copy(update={"source_roots": {"*": (f"file://{folder}",)}}))
    await rows(services, "UPDATE documents SET due_at = now() RETURNING id")
    await again.work("parse")
    assert (await document(services)).state is DocumentState.INDEXING


class Snapshot(ScriptedSource):
    """Shows the texts at the time when it was opened."""

    is_snapshot = True

    def __init__(self, corpus):
        super().__init__(replace(corpus, texts=dict(corpus.texts)))


@pytest.mark.parametrize(("current", "is_ready"), [(timedelta(0), True), (timedelta(hours=1), False)])
async def test_old_snapshot_is_opened_again(services, current, is_ready):
    corpus, opened = Corpus(), []
    corpus.put("a.txt")
    source = await SyncedCorpus(services, corpus).add()

    def open_source(definition):
        opened.append(definition.name)
        return Snapshot(corpus)

    ledger = services.ledger
    originals = SourceOriginals(
        ledger[Sources], ledger[Hints], ledger[WaitingReferences], open_source, max_bytes=1_000, current=current
    )
    async with originals.fetched(reference_to(source, corpus, "a.txt")) as path:
        assert path.read_text() == corpus.texts["a.txt"]
    corpus.put("a.txt", text="The harbour opens at seven.")
    if is_ready:
        async with originals.fetched(reference_to(source, corpus, "a.txt")) as path:
            assert path.read_text() == corpus.texts["a.txt"]
    else:
        with pytest.raises(Transient, match="changed or deleted"):
            async with originals.fetched(reference_to(source, corpus, "a.txt")):
                pass
    await originals.aclose()

    assert len(opened) == 1 + is_ready


def reference_to(source, corpus, key):
    return Reference(source.id, hashlib.sha256(corpus.texts[key].encode()).digest(), corpus.version(key), key)


async def test_removed_source_fails_new_attempts_at_once(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    await services.ledger[Sources].remove("default", "wiki", with_documents=False)

    await worker.work("parse")

    failed = await document(services)
    assert (failed.state, "its source was removed" in failed.error) == (DocumentState.FAILED, True)


async def test_source_added_again_adopts_references(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    await services.ledger[Sources].remove("default", "wiki", with_documents=False)
    while await services.ledger[Sources].continue_removal():
        pass
    await add(client, folder)
    assert (await worker.sync(client)).unchanged == 1

    await worker.work("parse")

    assert (await document(services)).state is DocumentState.INDEXING


async def test_kept_bytes_outlive_their_file(client, services, folder, worker):
    await add(client, folder, options={"copy_files": True})
    await worker.sync(client)
    (folder / "leave.md").unlink()

    await worker.work("parse")

    parsed = await document(services)
    assert parsed.state is DocumentState.INDEXING
    assert (await client.get(f"/v1/documents/{parsed.id}/content")).text == "Employees get thirty days of leave."


async def test_copy_files_changes_without_confirmation(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)

    reply = await client.patch("/v1/sources/wiki", json={"options": {"copy_files": True}})
    write(folder, "leave.md", "Employees get thirty-two days of leave.")
    await worker.sync(client)

    assert reply.status_code == 200, reply.text
    assert len(await objects(services)) == 1


async def test_content_of_reference_names_its_source(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)

    reply = await client.get(f"/v1/documents/{(await document(services)).id}/content")

    assert reply.status_code == 404
    assert f"'leave.md' of the source 'wiki' (file://{folder})" in reply.json()["detail"]


async def test_replaced_reference_leaves_no_outdated_object(client, services, folder, worker):
    await add(client, folder)
    await worker.sync(client)
    await worker.work("parse", "index")
    write(folder, "leave.md", "Employees get thirty-two days of leave.")
    await worker.sync(client)
    await worker.work("parse", "index")

    assert await services.cleaner.purge_versions() is False  # no stored object was left
    assert await rows(services, "SELECT version FROM document_versions") == [(2,)]
    assert await rows(services, "SELECT * FROM outdated_objects") == []
    assert [lost async for lost in services.orphans.lost()] == []
    assert await services.ledger[DeploymentIdentity].newest_uploads(10) == []


async def test_deleted_file_deletes_document_after_two_listings(client, services, folder, worker):
    write(folder, "parking.md", "Parking is free.")
    await add(client, folder)
    await worker.sync(client)
    await worker.work("parse")
    (folder / "leave.md").unlink()

    await worker.sync(client)
    await make_older(services)
    await worker.sync(client)

    assert (await document(services)).external_id == "wiki/parking.md"
