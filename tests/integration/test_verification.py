"""Verification: whatever is changed behind the ledger's back is named, and brought back without a call."""

import asyncio
import random
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest
from qdrant_client import models

from shared.domain.ids import question_point_id
from shared.domain.states import DocumentState
from shared.maintenance.verification import Finding, Verification, VerificationCounts
from tests.support.api import as_tenant, calling, events_of, serving, with_keys, work

NAMES = ("alpha", "beta", "gamma")

NOTHING = {"missing": 0, "stale": 0, "orphaned": 0}


def text(edition):
    """Three chunks that only this edition has."""
    return "\n\n".join(f"# {name}\n\n" + f"{name} is about the {name} of the bay in {edition}. " * 30 for name in NAMES)


@dataclass
class Shelf:
    """An ingested collection, and what it takes to damage it."""

    services: object
    collection: object

    @property
    def name(self):
        return self.collection.index_name

    @property
    def client(self):
        return self.services.index._client

    async def points(self):
        """Every stored point with its payload and vectors."""
        records, _ = await self.client.scroll(self.name, limit=10_000, with_payload=True, with_vectors=True)
        return {str(record.id): record for record in records}

    async def remove(self, *ids):
        await self.client.delete(self.name, models.PointIdsList(points=list(ids)), wait=True)

    async def write(self, record, identity=None, **payload):
        """Put a copy of a point with other payload."""
        point = models.PointStruct(
            id=identity or str(record.id), vector=record.vector, payload=record.payload | payload
        )
        await self.client.upsert(self.name, [point], wait=True)

    def comparison(self, *, repair=False, position=None):
        audit, index = self.services.ledger.audit, self.services.index
        return Verification(audit, index, self.collection, repair=repair, position=position)

    async def verify(self, *, repair=False):
        comparison = self.comparison(repair=repair)
        findings = [item async for item in comparison.run() if isinstance(item, Finding)]
        return findings, comparison.so_far


@pytest.fixture
async def shelf(services, library, provider):
    """Five documents, one of them in its second version, with the provider's counts begun anew."""
    for number in range(5):
        await library.add(text(number), f"{number}.md")
    await work(services)
    await library.add(text("a second edition"), "0.md")
    await work(services)
    async with services.database.begin() as connection:
        await connection.exec_driver_sql("DELETE FROM sweeps")  # as when their time has come
    provider.reset()
    return Shelf(services, await library.collection())


def seen(points):
    """What queries can tell points by."""
    return {
        identity: (p.payload["version"], bool(p.payload.get("hidden")), p.payload["chunk_id"])
        for identity, p in points.items()
    }


def named(findings):
    return {(finding.kind, finding.point_id) for finding in findings}


async def mended(shelf, before, provider):
    """Repair, index what is due, and hold the result against what was there before the damage."""
    findings, verified = await shelf.verify(repair=True)
    assert verified.unrepaired == 0, [f for f in findings if not f.repaired]
    assert len(findings) == len(named(findings))
    await work(shelf.services)
    assert seen(await shelf.points()) == seen(before)
    assert provider.stats()["calls"] == 0
    assert await shelf.verify() == ([], VerificationCounts(5, len(before), 0, 0, 0, 0))
    return findings


def a_chunk(points):
    """The points of one chunk."""
    first = min(p.payload["chunk_id"] for p in points.values())
    return [identity for identity, p in points.items() if p.payload["chunk_id"] == first]


def a_question(points):
    return min(identity for identity, p in points.items() if "question" in p.payload)


async def test_a_whole_index_is_as_the_ledger_says(shelf):
    findings, verified = await shelf.verify()

    assert findings == []
    assert (verified.documents, verified.points) == (5, len(await shelf.points()))


@pytest.mark.parametrize("lost", ["chunk", "question", "document", "everything"])
async def test_lost_points_are_reported_and_restored_without_calls(shelf, provider, lost):
    before = await shelf.points()
    document = min(p.payload["document_id"] for p in before.values())
    gone = {
        "chunk": a_chunk(before),
        "question": [a_question(before)],
        "document": [i for i, p in before.items() if p.payload["document_id"] == document],
        "everything": list(before),
    }[lost]
    await shelf.remove(*gone)

    findings, verified = await shelf.verify()
    assert named(findings) == {("missing", identity) for identity in gone}
    assert verified.missing == len(findings) == len(gone)
    assert not any(finding.repaired for finding in findings)
    assert seen(await shelf.points()) == {k: v for k, v in seen(before).items() if k not in gone}
    assert named(await mended(shelf, before, provider)) == named(findings)


async def test_lost_collection_is_rebuilt_without_calls(shelf, provider):
    before = await shelf.points()
    await shelf.client.delete_collection(shelf.name)  # the workers still take it for being there

    _, verified = await shelf.verify(repair=True)
    assert verified.repaired == verified.missing == len(before)
    await work(shelf.services)
    async with shelf.services.database.begin() as connection:
        assert not (await connection.exec_driver_sql("SELECT 1 FROM chunks WHERE state = 'dead'")).all()
        await connection.exec_driver_sql("UPDATE chunks SET due_at = now() WHERE state = 'generated'")
    await work(shelf.services)

    assert seen(await shelf.points()) == seen(before)
    assert provider.stats()["calls"] == 0


async def test_unexpected_points_are_reported_and_deleted(shelf, provider):
    before = await shelf.points()
    a_text = next(p for p in before.values() if "question" not in p.payload)
    question = before[a_question(before)]
    chunk = UUID(question.payload["chunk_id"])
    stranger, gone, nameless = (str(uuid4()) for _ in range(3))
    beyond = question_point_id(chunk, question.payload["version"], 99)
    await shelf.write(a_text, stranger, chunk_id=stranger)
    await shelf.write(question, beyond)
    await shelf.write(question, gone, document_id=str(uuid4()))
    await shelf.write(question, nameless, document_id="none")

    findings, _ = await shelf.verify()

    assert named(findings) == {("orphaned", identity) for identity in (stranger, beyond, gone, nameless)}
    await mended(shelf, before, provider)


async def test_outdated_version_is_reported_and_repaired(shelf, provider):
    before = await shelf.points()
    newer = [i for i, p in before.items() if p.payload["version"] == 2]
    left_behind, taken_back = str(uuid4()), newer[0]
    await shelf.write(before[newer[1]], left_behind, version=1, chunk_id=str(uuid4()))
    await shelf.write(before[taken_back], version=1)

    findings, _ = await shelf.verify()

    assert named(findings) == {("stale", left_behind), ("stale", taken_back)}
    await mended(shelf, before, provider)


async def test_hidden_points_of_live_version_are_shown(shelf, provider):
    before = await shelf.points()
    hidden = list(before)[:3]
    await shelf.client.set_payload(shelf.name, {"hidden": True}, points=hidden, wait=True)

    findings, _ = await shelf.verify()

    assert named(findings) == {("stale", identity) for identity in hidden}
    await mended(shelf, before, provider)


@pytest.mark.parametrize("seed", range(5))
async def test_any_damage_is_named_and_mended(shelf, provider, seed):
    draw = random.Random(seed)
    before = await shelf.points()
    expected = set()
    for identity in draw.sample(sorted(before), 25):
        record = before[identity]
        match draw.choice(["lose", "hide", "age", "copy"]):
            case "lose":
                await shelf.remove(identity)
                expected.add(("missing", identity))
            case "hide":
                await shelf.write(record, hidden=True)
                expected.add(("stale", identity))
            case "age":
                await shelf.write(record, version=record.payload["version"] - 1)
                expected.add(("stale", identity))
            case "copy":
                copy = str(UUID(int=draw.getrandbits(128), version=4))
                await shelf.write(record, copy)
                expected.add(("orphaned", copy))

    assert named(await mended(shelf, before, provider)) == expected


async def test_pages_of_any_size_find_the_same(shelf, provider, monkeypatch):
    for size in ("_POINTS", "_CHUNKS", "_DOCUMENTS"):
        monkeypatch.setattr(f"shared.maintenance.verification.{size}", 2)
    before = await shelf.points()
    gone = sorted(before)[::3]
    await shelf.remove(*gone)

    assert named(await mended(shelf, before, provider)) == {("missing", identity) for identity in gone}


async def test_unpaid_questions_are_reported_without_calls(shelf, provider):
    before = await shelf.points()
    await shelf.remove(*a_chunk(before))
    async with shelf.services.database.begin() as connection:
        await connection.exec_driver_sql("DELETE FROM completions")

    findings, verified = await shelf.verify(repair=True)

    assert verified.unrepaired == len(findings) == len(a_chunk(before))
    assert Counter(d.state for d in await shelf.services.ledger.documents.page("default")) == {DocumentState.READY: 5}
    assert provider.stats()["calls"] == 0


async def test_documents_in_work_are_neither_reported_nor_touched(shelf, library, provider):
    from shared.ingest.index.stage import index_batch

    await library.add(text("a third edition"), "0.md")
    services = shelf.services
    await services.ledger.documents.reindex(shelf.collection)
    await work(services, "parse")
    chunks = await services.ledger.work.claim_to_index(4)
    await index_batch(services.indexer, chunks)  # written, and not yet said so
    before = await shelf.points()

    findings, _ = await shelf.verify(repair=True)

    assert findings == []
    assert seen(await shelf.points()) == seen(before)


async def test_concurrent_ingest_is_never_a_finding(shelf, library):
    async def ingest():
        for round_ in range(3):
            for number in range(4):
                await library.add(text(f"{round_} {number}"), f"{number}.md")
            await library.add(text(f"new {round_}"), f"new-{round_}.md")
            await work(shelf.services)

    running = asyncio.create_task(ingest())
    looked = 0
    while not running.done():
        findings, _ = await shelf.verify(repair=True)
        assert findings == []
        looked += 1
    await running

    assert looked >= 3
    assert (await shelf.verify())[0] == []


async def test_a_document_that_changes_meanwhile_is_left_out(shelf, library, monkeypatch):
    before = await shelf.points()
    await shelf.remove(*before)
    stored_points = shelf.services.index.stored_points
    edited = []

    async def slow(place, ids):
        if not edited:
            edited.append(await library.add("Something else entirely.", "1.md"))
        return await stored_points(place, ids)

    monkeypatch.setattr(shelf.services.index, "stored_points", slow)
    findings, _ = await shelf.verify(repair=True)

    assert edited[0].id not in {finding.document_id for finding in findings}
    assert len({finding.document_id for finding in findings}) == 4


async def test_points_awaiting_sweep_are_not_findings(shelf, library):
    before = await shelf.points()
    newer = next(p for p in before.values() if p.payload["version"] == 2)
    await shelf.write(newer, str(uuid4()), version=1, chunk_id=str(uuid4()))
    async with shelf.services.database.begin() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO sweeps (collection_id, tenant, index_name, document_id, below_version, due_at)"
            " SELECT d.collection_id, d.tenant, l.index_name, d.id, 2, now() + interval '1 hour'"
            " FROM documents d JOIN collections l ON l.id = d.collection_id"
        )

    assert (await shelf.verify())[0] == []


async def test_texts_of_dead_chunks_are_optional(services, library, provider):
    provider.script(malformed_containing="lighthouse")
    await library.add("The lighthouse keeper lives alone on the northern cliff all year.", "a.md")
    await work(services)
    shelf = Shelf(services, await library.collection())
    assert len(await shelf.points()) == 1

    assert (await shelf.verify())[0] == []
    await shelf.remove(*await shelf.points())
    assert (await shelf.verify())[0] == []


async def test_over_http_it_is_one_object_or_events(shelf, settings, monkeypatch):
    before = await shelf.points()
    gone = sorted(before)[:3]
    await shelf.remove(*gone)
    wakes = []
    monkeypatch.setattr("shared.broker.wakeups.Wakeups.wake", lambda _, *queues: wakes.extend(queues))
    async with serving(settings, shelf.services) as client:
        address = "/v1/collections/default/verify"
        told = (await client.post(address, json={})).json()
        assert {finding["point_id"] for finding in told.pop("findings")} == set(gone)
        assert told == {"documents": 5, "points": len(before) - 3} | NOTHING | {"missing": 3, "repaired": 0}
        assert wakes == []

        accept = {"accept": "text/event-stream"}
        async with client.stream("POST", address, json={"repair": True}, headers=accept) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            events = [event async for event in events_of(response)]
    assert {name for name, _ in events} == {"progress", "finding", "done"}
    assert {data["point_id"] for name, data in events if name == "finding"} == set(gone)
    assert events[-1] == ("done", told | {"repaired": 3})
    assert wakes == ["index"]


async def test_only_first_findings_have_details(shelf, settings, monkeypatch):
    monkeypatch.setattr("api.routes.verification._FINDINGS_MAX", 2)
    before = await shelf.points()
    await shelf.remove(*before)
    async with calling(settings, shelf.services) as client:
        told = (await client.post("/v1/collections/default/verify", json={})).json()

    assert (len(told["findings"]), told["missing"]) == (2, len(before))


async def test_no_tenant_verifies_anothers_collection(services, settings, library, provider):
    async with calling(with_keys(settings), services) as client:
        body = {"text": "The tide of the harbour.", "filename": "a.md", "collection": "mine"}
        await client.post("/v1/documents", json=body, headers=as_tenant("alice"))
        address = "/v1/collections/mine/verify"

        assert (await client.post(address, json={}, headers=as_tenant("alice"))).status_code == 200
        assert (await client.post(address, json={}, headers=as_tenant("bob"))).status_code == 404


async def test_interrupted_verification_resumes(shelf, monkeypatch):
    monkeypatch.setattr("shared.maintenance.verification._POINTS", 4)
    monkeypatch.setattr("shared.maintenance.verification._DOCUMENTS", 2)
    whole = shelf.comparison()
    assert [item async for item in whole.run() if isinstance(item, Finding)] == []

    position, points, documents, rounds = None, 0, 0, 0
    while True:
        part = shelf.comparison(position=position)
        rounds += 1
        async with aclosing(part.run()) as items:
            if await anext(items, None) is None:
                break
        assert part.position != position
        position = part.position
        points += part.so_far.points
        documents += part.so_far.documents

    assert (points, documents) == (whole.so_far.points, whole.so_far.documents)
    assert rounds > 5


async def test_progress_cursor_resumes_over_http(client, services, library, provider):
    for number in range(3):
        await library.add(text(number), f"{number}.md")
    await work(services)
    address, accept = "/v1/collections/default/verify", {"accept": "text/event-stream"}
    whole = [event async for event in events_of(await client.post(address, json={}, headers=accept))]
    cursor = next(data["cursor"] for name, data in whole if name == "progress")

    reply = await client.post(address, json={"cursor": cursor}, headers=accept)
    rest = [event async for event in events_of(reply)]
    assert [name for name, _ in rest] == ["progress", "done"]
    assert rest[-1][1] == whole[-1][1] | {"points": 0}

    reply = await client.post(address, json={"cursor": "bm9uZQ"})
    assert reply.status_code == 400


async def test_concurrent_verifications_are_limited_per_tenant(shelf, settings):
    address, accept = "/v1/collections/default/verify", {"accept": "text/event-stream"}
    async with calling(with_keys(settings), shelf.services) as client:
        for tenant in ("alice", "bob"):
            made = await client.put("/v1/collections/default", json={}, headers=as_tenant(tenant))
            assert made.status_code == 201
        sent = [
            client.post(address, json={}, headers=as_tenant("alice") | headers) for headers in (accept, {}, {}, accept)
        ]
        replies = await asyncio.gather(*sent, client.post(address, json={}, headers=as_tenant("bob")))
        later = await client.post(address, json={}, headers=as_tenant("alice"))

    assert sorted(reply.status_code for reply in replies[:4]) == [200, 200, 429, 429]
    assert [reply.status_code for reply in (replies[4], later)] == [200, 200]
