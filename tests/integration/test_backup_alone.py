"""Only PostgreSQL, Qdrant or the uploads are restored from an hour-old backup; documented commands repair the rest."""

import asyncio
import shutil
from collections import Counter
from uuid import uuid4

import pytest
from qdrant_client import models

from features.all import FEATURES
from features.verification.comparison import Verification
from features.verification.domain import DifferingPoint
from shared.ledger.documents.audit import Audit
from shared.ledger.model.collections import Collections
from shared.services import build
from tests.support.api import running, serving, work
from tests.support.backups import commands, run
from tests.support.qdrant import qdrant_client

CHUNKS = 2  # number of chunks of each document


def text_of(name, edition="first"):
    """Return a text of two chunks whose words identify a document and its edition."""
    return "\n\n".join(
        f"# {part}\n\n" + f"The {name} of the {edition} edition has a {part} by the bay. " * 30
        for part in ("harbour", "lighthouse")
    )


async def stored_points(services):
    """Return the name of the collection in Qdrant, and its points with payloads and vectors."""
    collection = await services.ledger[Collections].get("default", "default")
    client = qdrant_client(services)
    records, _ = await client.scroll(collection.index_name, limit=10_000, with_payload=True, with_vectors=True)
    return collection.index_name, records


class Hour:
    """A deployment, a backup of it, and the work of an hour after the backup."""

    def __init__(self, client, services, settings, provider):
        self.client, self.services, self.settings, self.provider = client, services, settings, provider
        self.ids = {}

    async def submit(self, name, edition="first"):
        body = {"external_id": name, "text": text_of(name, edition), "metadata": {"edition": edition}}
        reply = await self.client.post("/v1/documents", json=body)
        assert reply.status_code in {200, 202}, reply.text
        self.ids[name] = reply.json()["id"]
        return reply

    async def before(self):
        for name in ("kept", "deleted", "replaced", "described"):
            await self.submit(name)
        await work(self.services)
        await self.submit("waiting")  # a backup does not wait until all work is finished

    async def after(self):
        async with self.services.database.begin() as connection:  # tokens of other documents' claims
            await connection.execute_sql("SELECT nextval('fencing') FROM generate_series(1, 1000)")
        await work(self.services)
        await self.submit("added")
        await self.submit("replaced", "second")
        await self.client.delete(f"/v1/documents/{self.ids['deleted']}")
        changes = {"title": "Another", "metadata": {"edition": "described"}}
        assert (await self.client.patch(f"/v1/documents/{self.ids['described']}", json=changes)).status_code == 200
        await work(self.services)
        await self.clean()
        await self.submit("unread")

    async def clean(self):
        """Finish all deletions and sweeps, as the scheduler does within an hour."""
        for _ in range(3):  # a sweep is repeated after all leases have expired
            async with self.services.database.begin() as connection:
                await connection.execute_sql("UPDATE sweeps SET due_at = now()")
                await connection.execute_sql("UPDATE documents SET due_at = now() WHERE state = 'deleting'")
            await self.services.cleaner.clean()

    def calls(self, *names):
        """Return the number of answered calls about each document."""
        return {name: self.provider.stats(f"The {name} of the")["answered"] for name in names}


@pytest.fixture
async def hour(client, services, settings, provider):
    hour = Hour(client, services, settings, provider)
    await hour.before()
    return hour


async def empty_ledger(services, settings):
    """Return settings that name a new, empty database."""
    name = f"restored_{uuid4().hex}"
    async with services.database.pool.lend() as connection:
        await connection.execute_sql(f"CREATE DATABASE {name}")
    url = settings.database_url.get_secret_value().rpartition("/")[0] + f"/{name}"
    return settings.model_copy(update={"database_url": type(settings.database_url)(url)})


async def repair(client, services, settings):
    """Run the command that repairs Qdrant while a worker indexes."""
    command = run(commands("How do I restore?", 1) + "true", settings, FOREASK_URL=str(client.base_url))
    async with running(services):
        repairing = asyncio.create_task(command)
        while not repairing.done():
            await work(services, "index")
            await asyncio.sleep(0.05)
    await work(services, "index")
    return await repairing


async def differences(services):
    collection = await services.ledger[Collections].get("default", "default")
    comparison = Verification(services.ledger[Audit], services.index, collection, repair=False)
    return [item async for item in comparison.run() if isinstance(item, DifferingPoint)]


async def documents_of(client):
    """Return all documents by external id."""
    items = (await client.get("/v1/documents", params={"limit": 100})).json()["items"]
    return {document["external_id"]: document for document in items}


async def ledger_points(client):
    """Return the texts, titles and metadata of the points that the ledger's documents must have."""
    points = Counter()
    for name, document in (await documents_of(client)).items():
        chunks = (await client.get(f"/v1/documents/{document['id']}/chunks?version=live")).json()["items"]
        for chunk in chunks:
            metadata = document["metadata"]["edition"]
            points[name, chunk["text"], chunk["title"], metadata] += 1
            for question in chunk["questions"]:
                if question["passed"]:
                    points[name, question["text"], None, metadata] += 1
    return points


async def index_points(services, client):
    """Return the texts, titles and metadata of all stored points."""
    names = {document["id"]: name for name, document in (await documents_of(client)).items()}
    _, records = await stored_points(services)
    payloads = [record.payload for record in records]
    return Counter(
        (names.get(p["document_id"]), p.get("question") or p["text"], p.get("title"), p["metadata"]["edition"])
        for p in payloads
        if not p.get("hidden")
    )


async def in_line(client, services):
    """Return whether Qdrant has exactly the points of the ledger, and all documents are ready."""
    assert {document["state"] for document in (await documents_of(client)).values()} == {"ready"}
    assert await index_points(services, client) == await ledger_points(client)
    assert await differences(services) == []
    return True


async def downloads(client):
    """Return the status of each document's download."""
    replies = {
        name: await client.get(f"/v1/documents/{document['id']}/content")
        for name, document in (await documents_of(client)).items()
    }
    return {name: reply.status_code for name, reply in replies.items()}


async def test_restoring_only_ledger_serves_its_documents(hour, services, settings):
    await run(commands("How do I back up?"), settings)
    await hour.after()
    known = hour.calls("kept", "deleted", "described", "replaced")
    hour.provider.script(questions=3)  # the model writes other questions now

    elsewhere = await empty_ledger(services, settings)
    await run(commands("How do I restore?"), elsewhere)
    async with build("all", elsewhere, FEATURES) as restored, serving(elsewhere, restored) as client:
        await work(restored)
        await repair(client, restored, elsewhere)

        statuses = await downloads(client)
        assert statuses == dict.fromkeys([*known, "waiting"], 200)
        assert await in_line(client, restored)
    assert hour.calls(*known) == known


async def test_restoring_only_index_is_repaired_from_ledger(hour, services, settings):
    name, records = await stored_points(services)
    await hour.after()
    await work(services, "parse", "index")  # `unread` is found by its text, but has no questions yet
    calls = hour.provider.stats()["calls"]

    await qdrant_client(services).delete(name, models.FilterSelector(filter=models.Filter()), wait=True)
    points = [models.PointStruct(id=r.id, vector=r.vector, payload=r.payload) for r in records]
    await qdrant_client(services).upsert(name, points, wait=True)
    async with serving(settings, services) as client:
        await work(services)
        await repair(client, services, settings)

        assert await in_line(client, services)
    assert hour.provider.stats()["calls"] == calls + CHUNKS  # for the chunks of `unread`, which had no questions


async def test_restoring_only_uploads_reports_and_completes_missing_ones(hour, services, settings):
    folder, backup = settings.data_dir / "uploads", settings.data_dir.parent / f"uploads-{uuid4().hex}"
    shutil.copytree(folder, backup)
    await hour.after()
    before, calls = await documents_of(hour.client), hour.provider.stats()["calls"]

    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    await work(services)
    states = {name: document["state"] for name, document in (await documents_of(hour.client)).items()}
    assert states == dict.fromkeys(before, "ready") | {"unread": "failed"}
    with pytest.raises(AssertionError) as missing:
        await run(commands("How do I restore only one of them?"), settings)
    lines = [line for line in str(missing.value).splitlines() if line.startswith("missing")]
    assert {line.split()[-1] for line in lines} == {"added", "replaced", "unread"}

    assert (await hour.submit("kept")).status_code == 200
    for name, edition in (("added", "first"), ("replaced", "second"), ("unread", "first")):
        assert (await hour.submit(name, edition)).status_code == 202
    await work(services)

    assert set((await downloads(hour.client)).values()) == {200}
    assert await in_line(hour.client, services)
    assert {name: (d["id"], d["version"]) for name, d in (await documents_of(hour.client)).items()} == {
        name: (document["id"], document["version"]) for name, document in before.items()
    }
    assert hour.provider.stats()["calls"] == calls + CHUNKS
    assert "missing" not in await run(commands("How do I restore only one of them?"), settings)
