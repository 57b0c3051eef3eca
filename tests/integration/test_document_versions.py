"""Document versions: a failed edit does not change the live version, and uploads are kept while needed."""

import pytest

from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from tests.support.api import calling, left_behind, work
from tests.support.qdrant import qdrant_client

KEEPER = "The lighthouse keeper lives alone on the northern cliff all year."
PILOT = "The pilot boards the ships in the mouth of the river every morning."
BROKEN_PDF = "%PDF-1.7 this is not a PDF"
LIVE = {"text": KEEPER, "filename": "a.md", "title": "Leave", "metadata": {"department": "hr"}}
BROKEN = {
    "text": BROKEN_PDF,
    "filename": "b.pdf",
    "media_type": "application/pdf",
    "external_id": "a.md",
    "title": "Law",
    "metadata": {"department": "legal"},
}


async def submit(client, body, status=202):
    reply = await client.post("/v1/documents", json=body)
    assert reply.status_code == status, reply.text
    return reply.json()["id"]


async def document(client, document_id):
    return (await client.get(f"/v1/documents/{document_id}")).json()


async def departments(services):
    """Return the departments in the metadata of the collection's points."""
    collection = await services.ledger[Collections].get("default", "default")
    points, _ = await qdrant_client(services).scroll(collection.index_name, limit=100, with_payload=True)
    return {point.payload["metadata"]["department"] for point in points}


async def count_uploads(services, settings):
    return len((await left_behind(services, settings))[1])


async def live_then_broken(services):
    """Return the id of a document with a live version and a later version that failed to parse."""
    async with calling(services.settings, services) as client:
        document_id = await submit(client, LIVE)
        await work(services)
        assert await submit(client, BROKEN) == document_id
        await work(services)
        await services.cleaner.clean()
        assert (await document(client, document_id))["state"] == "failed"
    return document_id


@pytest.fixture
async def failed_edit(once):
    return await once(live_then_broken)


async def discard(client, document_id):
    reply = await client.post("/v1/dead-letters/discard", json={"document_id": document_id})
    assert reply.json() == {"documents": 1, "pages": 0, "chunks": 0, "in_progress": 0}


async def test_discarded_failed_edit_restores_live_version(client, services, settings, failed_edit):
    assert (await document(client, failed_edit))["metadata"] == {"department": "legal"}

    await discard(client, failed_edit)

    shown = await document(client, failed_edit)
    assert (shown["state"], shown["filename"], shown["title"]) == ("ready", "a.md", "Leave")
    assert shown["metadata"] == {"department": "hr"}
    assert await departments(services) == {"hr"}
    await services.cleaner.clean()
    assert await count_uploads(services, settings) == 1


async def test_reindex_after_discarded_edit_uses_live_content(client, services, failed_edit):
    await discard(client, failed_edit)

    assert (await client.post("/v1/collections/default/reindex")).json()["documents"] == 1
    await work(services)
    await services.cleaner.clean()

    shown = await document(client, failed_edit)
    assert (shown["state"], shown["error"], shown["live_version"]) == ("ready", None, 3)
    assert await departments(services) == {"hr"}


async def test_reindex_uses_newest_undiscarded_content(client, services, failed_edit):

    assert (await client.post("/v1/collections/default/reindex")).json()["documents"] == 1
    await work(services)

    shown = await document(client, failed_edit)
    assert (shown["state"], shown["version"], shown["filename"]) == ("failed", 3, "b.pdf")
    assert await departments(services) == {"hr"}


async def test_resubmitting_live_content_after_failure_starts_new_version(
    client, services, settings, provider, failed_edit
):
    assert await submit(client, LIVE) == failed_edit
    await work(services)
    await services.cleaner.clean()

    shown = await document(client, failed_edit)
    assert (shown["state"], shown["live_version"], shown["title"]) == ("ready", 3, "Leave")
    assert provider.stats()["calls"] == 0
    assert await count_uploads(services, settings) == 1


async def test_resubmitting_live_content_after_discard_changes_nothing(client, services, failed_edit):
    await discard(client, failed_edit)

    assert await submit(client, LIVE, status=200) == failed_edit


async def test_rewritten_live_chunk_keeps_its_fields_during_edit(client, services, provider):
    document_id = await submit(client, LIVE)
    await work(services)
    found = (await client.post("/v1/retrieve", json={"question": "Where does somebody live alone?"})).json()
    feedback = {"query_id": found["metadata"]["query_id"], "chunk_id": found["chunks"][0]["chunk_id"], "helpful": True}
    assert (await client.post("/v1/feedback", json=feedback)).status_code == 200
    await submit(client, BROKEN)

    await work(services, "index")

    assert (await document(client, document_id))["version"] == 2
    assert await departments(services) == {"hr"}


async def test_uploads_are_kept_while_a_version_needs_them(client, services, settings, failed_edit):
    assert await count_uploads(services, settings) == 2

    await submit(client, LIVE | {"text": PILOT})  # replaces the failed edit
    await services.cleaner.clean()
    assert await count_uploads(services, settings) == 2

    await work(services)
    await services.cleaner.clean()
    assert (await document(client, failed_edit))["live_version"] == 3
    assert await count_uploads(services, settings) == 1

    await client.post("/v1/collections/default/reindex")  # two versions use the same upload
    await services.cleaner.clean()
    assert await count_uploads(services, settings) == 1
    await work(services)
    await services.cleaner.clean()
    assert (await document(client, failed_edit))["live_version"] == 4
    assert await count_uploads(services, settings) == 1

    await client.delete(f"/v1/documents/{failed_edit}")
    for _ in range(2):
        await services.cleaner.clean()
    assert await left_behind(services, settings) == (0, [])


async def test_rows_of_replaced_version_are_deleted(client, services, provider):
    await submit(client, LIVE)
    await work(services)
    await submit(client, LIVE | {"text": PILOT})
    await work(services)
    await services.cleaner.clean()

    async with services.database.begin() as connection:
        assert (await connection.execute(Statement("SELECT DISTINCT version FROM chunks"))).scalars() == [2]
        assert (await connection.execute(Statement("SELECT version FROM document_versions"))).scalars() == [2]
