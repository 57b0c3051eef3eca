"""Documents that an older reader has read are listed, counted and read again; only changed chunks are paid for."""

import pytest

from shared.domain.corpus import readers
from shared.domain.jobs import JobState
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.model.rows import parsing
from tests.conftest import Library
from tests.integration.test_builds import run
from tests.support.api import work
from tests.support.counters import DIFFERENCES
from tests.support.lossy import with_losses
from tests.support.planted import guards

TIDE = "# Tide\n\n" + "The tide is about the tide of the bay. " * 40
MOLE = "# Mole\n\n" + "The mole is about the mole of the bay. (lost) " * 40
BOTH = f"{TIDE}\n\n{MOLE}"

# Count the chunks that an older reader drops, and their questions.
NEW_CHUNKS = """
    SELECT count(*)::int, sum(c.questions_passed)::int
    FROM chunks c JOIN documents d ON d.id = c.document_id AND d.version = c.version
    JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
    WHERE t.content ->> 'text' LIKE '%(lost)%'
"""


@pytest.fixture
def older(monkeypatch):
    """Make all readers older until it is called."""
    monkeypatch.setattr(parsing, "reader_of", lambda _: "plain 0")
    monkeypatch.setattr(readers, "FAILED", "failed 0")
    return monkeypatch.undo


async def read_by_older(services, *texts):
    """Ingest texts, named `0.md` and so on, with an older reader that drops chunks."""
    lossy, reader = with_losses(services)
    reader.drops = True
    documents = [await Library(lossy).add(text, f"{number}.md") for number, text in enumerate(texts)]
    await work(lossy)
    return documents


async def reread(client, services):
    """Read the outdated documents of the collection again; return the reply."""
    reply = await client.post("/v1/collections/default/reindex", params={"outdated": True})
    assert reply.status_code == 202
    while await services.ledger[Documents].continue_reindex():
        pass
    await work(services)
    await services.ledger[Jobs].settle()
    return reply.json()


async def outdated(client):
    """Return the number of outdated documents by collection, and their external ids."""
    listed = (await client.get("/v1/documents", params={"outdated": True, "sort": "name"})).json()["items"]
    assert all(each["outdated"] for each in listed)
    return (await client.get("/v1/status")).json()["outdated"], [each["external_id"] for each in listed]


@guards(
    "shared/ledger/documents/documents.py",
    "if not found.reindexes_outdated or is_outdated(row.state, row.reader)]",
    "]",
    means="documents that the current readers have read are read again",
)
async def test_only_outdated_documents_are_read_again(client, services, provider, older):
    old = await read_by_older(services, BOTH, TIDE)
    older()
    new = await Library(services).add("The harbour opens at six.", "new.md")
    await work(services)
    assert await outdated(client) == ({"default": 2}, ["0.md", "1.md"])
    provider.script()

    started = await reread(client, services)

    assert started["documents"] == 2
    assert await outdated(client) == ({}, [])
    versions = [(await services.ledger[Documents].get("default", each.id)).version for each in (*old, new)]
    assert versions == [2, 2, 1]
    job = await services.ledger[Jobs].get("default", started["job_id"])
    assert (job.state, job.documents) == (JobState.DONE, {DocumentState.READY: 2})
    assert await run(services, DIFFERENCES) == []


@guards(
    "shared/ingest/parse/stage.py",
    "content_key(document.tenant, model, content, options)",
    "content_key(f'{document.tenant} {document.lease.version}', model, content, options)",
    means="unchanged chunks are paid for again when a file is read again",
)
async def test_rereading_pays_only_for_changed_chunks(client, services, provider, older):
    await read_by_older(services, BOTH, TIDE)
    before = provider.stats()
    older()

    await reread(client, services)

    after = provider.stats()
    chunks, questions = (await run(services, NEW_CHUNKS))[0]
    assert (chunks, after["calls"] - before["calls"]) == (1, 1)
    assert after["embedded_inputs"] - before["embedded_inputs"] == chunks + questions


async def test_unchanged_documents_are_reread_for_nothing(client, services, provider, older):
    await read_by_older(services, TIDE)
    before = provider.stats()
    older()

    await reread(client, services)

    after = provider.stats()
    assert (after["calls"], after["embedded_inputs"]) == (before["calls"], before["embedded_inputs"])


async def test_queries_find_old_version_until_reread(client, services, provider, older):
    await read_by_older(services, TIDE)
    older()
    await client.post("/v1/collections/default/reindex", params={"outdated": True})
    await work(services, "parse")

    reply = await client.post("/v1/retrieve", json={"question": "What is the tide about?"})

    assert [chunk["external_id"] for chunk in reply.json()["chunks"]][:1] == ["0.md"]


@guards(
    "shared/ledger/work/parsing.sql",
    "reader = CASE WHEN v.dead THEN :reader ELSE t.reader END",
    "reader = CASE WHEN v.dead THEN t.reader ELSE :reader END",
    means="a file that no reader reads is read again by every command",
)
async def test_failed_document_is_outdated_once(client, services, provider, older):
    await Library(services).add("", "0.md")
    await work(services, "parse")
    older()
    assert await outdated(client) == ({"default": 1}, ["0.md"])

    await reread(client, services)

    (failed,) = await services.ledger[Documents].page("default")
    assert failed.state is DocumentState.FAILED
    assert await outdated(client) == ({}, [])


async def test_documents_of_earlier_release_are_outdated(client, services, provider):
    await Library(services).add(TIDE, "0.md")
    await work(services)
    await run(services, "UPDATE documents SET reader = NULL")

    assert await outdated(client) == ({"default": 1}, ["0.md"])
    assert (await reread(client, services))["documents"] == 1
    assert await outdated(client) == ({}, [])


async def test_other_tenants_documents_are_not_counted(services, provider, older):
    await Library(services, "alice").add(TIDE, "0.md")
    await work(services)
    older()

    assert await services.ledger[Documents].outdated("bob") == {}
    assert await services.ledger[Documents].outdated("alice") == {"default": 1}


@guards(
    "shared/ledger/documents/documents.py",
    "    if not is_outdated(document.state, document.reader):",
    "    if True:",
    means="a retry of an outdated document is refused although the current reader may read more",
)
async def test_retry_reads_outdated_losses_again(client, services, provider, older):
    lossy, _ = with_losses(services)
    document = await Library(lossy).add(MOLE, "0.md")
    await work(lossy)
    older()

    retried = await client.post(f"/v1/documents/{document.id}/retry")
    await work(services)

    assert (retried.status_code, retried.json()["state"]) == (202, "queued")
    shown = (await client.get(f"/v1/documents/{document.id}")).json()
    assert (shown["state"], shown["version"], shown["losses"], shown["outdated"]) == ("ready", 2, [], False)
    assert (await client.post(f"/v1/documents/{document.id}/retry")).status_code == 409
