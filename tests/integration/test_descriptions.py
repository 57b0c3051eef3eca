"""Descriptions: titles and metadata change without embedding or generating, and a crash loses no change."""

import asyncio

import pytest

from shared.domain.errors import Unavailable
from shared.domain.stages.work import LeaseExtension
from shared.ingest.index.stage import index_batch
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.model.collections import Collections
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.parsing import ParseWork
from shared.vectors.index import Index
from tests.support.api import calling, work
from tests.support.qdrant import qdrant_client

TEXT = "# Harbour\n\nThe harbour opens at six and closes at nine."
FIELDS = {"department": "keyword", "year": "integer", "at": "datetime"}


async def submit(client, name="a", **more):
    body = {"text": TEXT, "external_id": name, "collection": "c", "metadata": {"department": "hr", "year": 2025}}
    reply = await client.post("/v1/documents", json=body | more)
    assert reply.status_code in {200, 202}, reply.text
    return reply.json()


async def indexed(services):
    async with calling(services.settings, services) as client:
        document = await submit(client)
    await work(services)
    return document


@pytest.fixture
async def document(once):
    """Return a document that is ready."""
    return await once(indexed)


async def change(client, document, **changes):
    reply = await client.patch(f"/v1/documents/{document['id']}", json=changes)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def found(client, **filter_):
    """Return the title and metadata of the chunks that a filter finds, by external id."""
    body = {"question": "When does the harbour open?", "collection": "c", "filter": filter_}
    chunks = (await client.post("/v1/retrieve", json=body)).json()["chunks"]
    return {chunk["external_id"]: (chunk["title"], chunk["metadata"]) for chunk in chunks}


@pytest.mark.parametrize("declared", [{}, FIELDS])
async def test_metadata_change_is_searchable_at_once_without_calls(client, services, provider, declared):
    await client.put("/v1/collections/c", json={"filterable": declared})
    document, other = await submit(client), await submit(client, "b")
    await work(services)
    before = provider.stats()

    new = {"department": "law", "at": "2026-05-01", "more": {"deep": [1]}}
    shown = await change(client, document, metadata=new)

    assert (shown["metadata"], shown["state"], shown["version"]) == (new, "ready", 1)
    assert (await client.get(f"/v1/documents/{document['id']}")).json()["metadata"] == new
    assert (await found(client, department="hr")).keys() == (await found(client, year=2025)).keys() == {"b"}
    assert await found(client, department="law", year=None, at={"gte": "2026-01-01"}) == {"a": ("Harbour", new)}
    assert (await found(client, **{"not": {"department": "law"}})).keys() == {"b"}
    assert {name: count for name, count in provider.stats().items() if name == "calls"} == {"calls": before["calls"]}
    assert await services.ledger[Descriptions].claim(10) == []
    assert other["metadata"] == (await client.get(f"/v1/documents/{other['id']}")).json()["metadata"]


async def test_title_change_appears_in_chunks_and_lists(client, document):
    assert (await change(client, document, title=" Opening hours "))["title"] == "Opening hours"

    assert await found(client) == {"a": ("Opening hours", {"department": "hr", "year": 2025})}
    chunks = (await client.get(f"/v1/documents/{document['id']}/chunks")).json()["items"]
    assert [chunk["title"] for chunk in chunks] == ["Opening hours"]
    listed = await client.get("/v1/documents", params={"q": "hours"})
    assert [one["external_id"] for one in listed.json()["items"]] == ["a"]
    again = await submit(client)  # the new upload has no title
    assert (again["version"], again["title"]) == (2, None)


@pytest.mark.parametrize("lost", ["qdrant", "process"])
async def test_change_missed_by_qdrant_is_repeated(client, services, monkeypatch, lost, document):
    async def unavailable(*_):
        raise Unavailable("unavailable", component="qdrant" if lost == "qdrant" else "ledger")

    with monkeypatch.context() as patched:
        patched.setattr(
            *((Index, "describe", unavailable) if lost == "qdrant" else (Descriptions, "claim", unavailable))
        )
        await change(client, document, metadata={"department": "law"})
        assert await found(client, department="law") == {}

    async with services.database.begin() as connection:  # the update was deferred for some seconds
        await connection.execute_sql("UPDATE documents SET description_due_at = now() - interval '1 second'")
    await services.cleaner.clean()
    assert (await found(client, department="law")).keys() == {"a"}
    assert await services.ledger[Descriptions].claim(10) == []


async def test_undecodable_collection_does_not_stop_other_updates(client, services, provider, capsys):
    bad, _ = await submit(client, collection="bad"), await submit(client)
    await work(services)
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE documents SET description_changes = 1, description_due_at = now()")
        await connection.execute_sql('UPDATE document_versions SET metadata = \'{"department": "law"}\'')
        await connection.execute_sql("UPDATE collections SET options = '[]' WHERE name = 'bad'")

    await services.cleaner.describe()

    assert await found(client, department="law") == {"a": ("Harbour", {"department": "law"})}
    assert bad["id"] in capsys.readouterr().out


async def test_concurrent_updates_last_write_wins(client, services, monkeypatch, document):
    describe, slow, sent = Index.describe, asyncio.Event(), []

    async def slowly(self, description):
        sent.append(description.changes)
        await slow.wait()
        await describe(self, description)

    monkeypatch.setattr(Index, "describe", slowly)
    first = asyncio.create_task(change(client, document, metadata={"department": "law"}))
    while not sent:
        await asyncio.sleep(0.01)
    assert (await change(client, document, metadata={"department": "tax"}))["metadata"] == {"department": "tax"}
    slow.set()
    await first

    assert sent == [1, 2]
    assert (await found(client, department="tax")).keys() == {"a"}
    assert await services.ledger[Descriptions].claim(10) == []


@pytest.mark.parametrize("late", [False, True])
async def test_index_worker_does_not_restore_outdated_metadata(client, services, provider, late):
    document = await submit(client)
    await work(services, "parse", "index", "generate")
    claimed = await services.ledger[IndexWork].claim(10)
    assert [chunk.metadata["department"] for chunk in claimed] == ["hr"]

    await change(client, document, metadata={"department": "law"})
    if late:
        await work(services, "index")
    outcomes = await index_batch(services.indexer, claimed)
    assert await services.ledger[IndexWork].settle(outcomes) == set()
    await work(services, "index")
    await services.cleaner.clean()

    assert (await client.get(f"/v1/documents/{document['id']}")).json()["state"] == "ready"
    assert (await found(client, department="law")).keys() == {"a"}
    assert {department for _, department in await stored_departments(services)} == {"law"}


async def test_metadata_change_reaches_every_build(client, services, document):
    assert (await client.post("/v1/collections/c/builds", json={"questions_per_chunk": 2})).status_code == 201
    while await services.ledger[Builds].fill():
        pass
    await change(
        client, document, metadata={"department": "law"}
    )  # changes rows in two builds, one of which is not parsed
    await work(services)
    assert len({group for group, _ in await stored_departments(services)}) == 4
    assert {department for _, department in await stored_departments(services)} == {"law"}

    await change(client, document, metadata={"department": "tax"})
    assert {department for _, department in await stored_departments(services)} == {"tax"}


async def stored_departments(services):
    """Return the group and the department of every point."""
    collection = await services.ledger[Collections].get("default", "c")
    points, _ = await qdrant_client(services).scroll(collection.index_name, limit=100)
    return [(point.payload["group"], point.payload["metadata"]["department"]) for point in points]


async def test_parse_worker_does_not_restore_outdated_title(client, services, provider):
    document = await submit(client, title="Old")
    (claimed,) = await services.ledger[ParseWork].claim(1)
    await change(client, document, title="New")
    assert await services.ledger[ParseWork].extend([claimed.lease]) == LeaseExtension(set(), set())

    await work(services)
    assert {title for title, _ in (await found(client)).values()} == {"New"}


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, None), ({"title": " "}, "title"), ({"metadata": {"year": "x"}}, "metadata.year"), ({"text": "a"}, "text")],
)
async def test_invalid_description_change_is_rejected(client, body, field):
    await client.put("/v1/collections/c", json={"filterable": FIELDS})
    document = await submit(client)

    reply = await client.patch(f"/v1/documents/{document['id']}", json=body)

    assert (reply.status_code, reply.json().get("field")) == (422, field)
    assert (await client.get(f"/v1/documents/{document['id']}")).json()["metadata"] == document["metadata"]
