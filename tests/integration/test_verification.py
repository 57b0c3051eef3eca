"""Verification: differences between Qdrant and the ledger are reported and repaired without calls."""

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
from shared.maintenance.verification import DifferingPoint, Verification, VerificationCounts
from tests.support.api import as_tenant, calling, events_of, serving, with_keys, work

NAMES = ("alpha", "beta", "gamma")

NOTHING = {"missing": 0, "stale": 0, "orphaned": 0}


def text(edition):
    """Return a text of three chunks that are unique to this edition."""
    return "\n\n".join(f"# {name}\n\n" + f"{name} is about the {name} of the bay in {edition}. " * 30 for name in NAMES)


@dataclass
class IndexedCollection:
    """An indexed collection with methods to damage it."""

    services: object
    collection: object

    @property
    def name(self):
        return self.collection.index_name

    @property
    def client(self):
        return self.services.index._client

    async def points(self):
        """Return every stored point with its payload and vectors, by id."""
        records, _ = await self.client.scroll(self.name, limit=10_000, with_payload=True, with_vectors=True)
        return {str(record.id): record for record in records}

    async def remove(self, *ids):
        await self.client.delete(self.name, models.PointIdsList(points=list(ids)), wait=True)

    async def write(self, record, identity=None, **payload):
        """Write a copy of a point with other payload."""
        point = models.PointStruct(
            id=identity or str(record.id), vector=record.vector, payload=record.payload | payload
        )
        await self.client.upsert(self.name, [point], wait=True)

    def comparison(self, *, repair=False, position=None):
        audit, index = self.services.ledger.audit, self.services.index
        return Verification(audit, index, self.collection, repair=repair, position=position)

    async def verify(self, *, repair=False):
        comparison = self.comparison(repair=repair)
        findings = [item async for item in comparison.run() if isinstance(item, DifferingPoint)]
        return findings, comparison.so_far


@pytest.fixture
async def indexed(services, library, provider):
    """Index five documents, one in its second version, and reset the provider's counters."""
    for number in range(5):
        await library.add(text(number), f"{number}.md")
    await work(services)
    await library.add(text("a second edition"), "0.md")
    await work(services)
    async with services.database.begin() as connection:
        await connection.exec_driver_sql("DELETE FROM sweeps")  # as if they had been done
    provider.reset()
    return IndexedCollection(services, await library.collection())


def visible_state(points):
    """Return the fields of points that affect queries."""
    return {
        identity: (p.payload["version"], bool(p.payload.get("hidden")), p.payload["chunk_id"])
        for identity, p in points.items()
    }


def kinds_and_ids(findings):
    return {(finding.kind, finding.point_id) for finding in findings}


async def repair_and_compare(indexed, before, provider):
    """Repair, index due chunks, and compare the result with the points before the damage."""
    findings, verified = await indexed.verify(repair=True)
    assert verified.unrepaired == 0, [f for f in findings if not f.repaired]
    assert len(findings) == len(kinds_and_ids(findings))
    await work(indexed.services)
    assert visible_state(await indexed.points()) == visible_state(before)
    assert provider.stats()["calls"] == 0
    assert await indexed.verify() == ([], VerificationCounts(5, len(before), 0, 0, 0, 0))
    return findings


def chunk_points(points):
    """Return the point ids of one chunk."""
    first = min(p.payload["chunk_id"] for p in points.values())
    return [identity for identity, p in points.items() if p.payload["chunk_id"] == first]


def question_point(points):
    return min(identity for identity, p in points.items() if "question" in p.payload)


async def test_undamaged_index_has_no_findings(indexed):
    findings, verified = await indexed.verify()

    assert findings == []
    assert (verified.documents, verified.points) == (5, len(await indexed.points()))


@pytest.mark.parametrize("lost", ["chunk", "question", "document", "everything"])
async def test_lost_points_are_reported_and_restored_without_calls(indexed, provider, lost):
    before = await indexed.points()
    document = min(p.payload["document_id"] for p in before.values())
    removed = {
        "chunk": chunk_points(before),
        "question": [question_point(before)],
        "document": [i for i, p in before.items() if p.payload["document_id"] == document],
        "everything": list(before),
    }[lost]
    await indexed.remove(*removed)

    findings, verified = await indexed.verify()
    assert kinds_and_ids(findings) == {("missing", identity) for identity in removed}
    assert verified.missing == len(findings) == len(removed)
    assert not any(finding.repaired for finding in findings)
    assert visible_state(await indexed.points()) == {k: v for k, v in visible_state(before).items() if k not in removed}
    assert kinds_and_ids(await repair_and_compare(indexed, before, provider)) == kinds_and_ids(findings)


async def test_lost_collection_is_rebuilt_without_calls(indexed, provider):
    before = await indexed.points()
    await indexed.client.delete_collection(indexed.name)  # the workers still assume that the collection exists

    _, verified = await indexed.verify(repair=True)
    assert verified.repaired == verified.missing == len(before)
    await work(indexed.services)
    async with indexed.services.database.begin() as connection:
        assert not (await connection.exec_driver_sql("SELECT 1 FROM chunks WHERE state = 'dead'")).all()
        await connection.exec_driver_sql("UPDATE chunks SET due_at = now() WHERE state = 'generated'")
    await work(indexed.services)

    assert visible_state(await indexed.points()) == visible_state(before)
    assert provider.stats()["calls"] == 0


async def test_unexpected_points_are_reported_and_deleted(indexed, provider):
    before = await indexed.points()
    a_text = next(p for p in before.values() if "question" not in p.payload)
    question = before[question_point(before)]
    chunk = UUID(question.payload["chunk_id"])
    unknown_chunk, unknown_document, invalid_document = (str(uuid4()) for _ in range(3))
    excess_question = question_point_id(chunk, question.payload["version"], 99)
    await indexed.write(a_text, unknown_chunk, chunk_id=unknown_chunk)
    await indexed.write(question, excess_question)
    await indexed.write(question, unknown_document, document_id=str(uuid4()))
    await indexed.write(question, invalid_document, document_id="none")

    findings, _ = await indexed.verify()

    assert kinds_and_ids(findings) == {
        ("orphaned", identity) for identity in (unknown_chunk, excess_question, unknown_document, invalid_document)
    }
    await repair_and_compare(indexed, before, provider)


async def test_outdated_version_is_reported_and_repaired(indexed, provider):
    before = await indexed.points()
    newer = [i for i, p in before.items() if p.payload["version"] == 2]
    left_behind, reverted = str(uuid4()), newer[0]
    await indexed.write(before[newer[1]], left_behind, version=1, chunk_id=str(uuid4()))
    await indexed.write(before[reverted], version=1)

    findings, _ = await indexed.verify()

    assert kinds_and_ids(findings) == {("stale", left_behind), ("stale", reverted)}
    await repair_and_compare(indexed, before, provider)


async def test_hidden_points_of_live_version_are_shown(indexed, provider):
    before = await indexed.points()
    hidden = list(before)[:3]
    await indexed.client.set_payload(indexed.name, {"hidden": True}, points=hidden, wait=True)

    findings, _ = await indexed.verify()

    assert kinds_and_ids(findings) == {("stale", identity) for identity in hidden}
    await repair_and_compare(indexed, before, provider)


@pytest.mark.parametrize("seed", range(5))
async def test_random_damage_is_reported_and_repaired(indexed, provider, seed):
    draw = random.Random(seed)
    before = await indexed.points()
    expected = set()
    for identity in draw.sample(sorted(before), 25):
        record = before[identity]
        match draw.choice(["lose", "hide", "age", "copy"]):
            case "lose":
                await indexed.remove(identity)
                expected.add(("missing", identity))
            case "hide":
                await indexed.write(record, hidden=True)
                expected.add(("stale", identity))
            case "age":
                await indexed.write(record, version=record.payload["version"] - 1)
                expected.add(("stale", identity))
            case "copy":
                copy = str(UUID(int=draw.getrandbits(128), version=4))
                await indexed.write(record, copy)
                expected.add(("orphaned", copy))

    assert kinds_and_ids(await repair_and_compare(indexed, before, provider)) == expected


async def test_findings_do_not_depend_on_page_size(indexed, provider, monkeypatch):
    for size in ("_POINTS", "_CHUNKS", "_DOCUMENTS"):
        monkeypatch.setattr(f"shared.maintenance.verification.{size}", 2)
    before = await indexed.points()
    removed = sorted(before)[::3]
    await indexed.remove(*removed)

    assert kinds_and_ids(await repair_and_compare(indexed, before, provider)) == {
        ("missing", identity) for identity in removed
    }


async def test_unpaid_questions_are_reported_without_calls(indexed, provider):
    before = await indexed.points()
    await indexed.remove(*chunk_points(before))
    async with indexed.services.database.begin() as connection:
        await connection.exec_driver_sql("DELETE FROM completions")

    findings, verified = await indexed.verify(repair=True)

    assert verified.unrepaired == len(findings) == len(chunk_points(before))
    assert Counter(d.state for d in await indexed.services.ledger.documents.page("default")) == {DocumentState.READY: 5}
    assert provider.stats()["calls"] == 0


async def test_unfinished_documents_are_neither_reported_nor_changed(indexed, library, provider):
    from shared.ingest.index.stage import index_batch

    await library.add(text("a third edition"), "0.md")
    services = indexed.services
    await services.ledger.documents.reindex(indexed.collection)
    await work(services, "parse")
    chunks = await services.ledger.work.claim_to_index(4)
    await index_batch(services.indexer, chunks)  # written, but not settled yet
    before = await indexed.points()

    findings, _ = await indexed.verify(repair=True)

    assert findings == []
    assert visible_state(await indexed.points()) == visible_state(before)


async def test_concurrent_ingest_is_never_a_finding(indexed, library):
    async def ingest():
        for round_ in range(3):
            for number in range(4):
                await library.add(text(f"{round_} {number}"), f"{number}.md")
            await library.add(text(f"new {round_}"), f"new-{round_}.md")
            await work(indexed.services)

    running = asyncio.create_task(ingest())
    verifications = 0
    while not running.done():
        findings, _ = await indexed.verify(repair=True)
        assert findings == []
        verifications += 1
    await running

    assert verifications >= 3
    assert (await indexed.verify())[0] == []


async def test_document_edited_during_verification_is_skipped(indexed, library, monkeypatch):
    before = await indexed.points()
    await indexed.remove(*before)
    stored_points = indexed.services.index.stored_points
    edited = []

    async def slow(location, ids):
        if not edited:
            edited.append(await library.add("Something else entirely.", "1.md"))
        return await stored_points(location, ids)

    monkeypatch.setattr(indexed.services.index, "stored_points", slow)
    findings, _ = await indexed.verify(repair=True)

    assert edited[0].id not in {finding.document_id for finding in findings}
    assert len({finding.document_id for finding in findings}) == 4


async def test_points_awaiting_sweep_are_not_findings(indexed, library):
    before = await indexed.points()
    newer = next(p for p in before.values() if p.payload["version"] == 2)
    await indexed.write(newer, str(uuid4()), version=1, chunk_id=str(uuid4()))
    async with indexed.services.database.begin() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO sweeps (collection_id, tenant, index_name, document_id, below_version, due_at)"
            " SELECT d.collection_id, d.tenant, l.index_name, d.id, 2, now() + interval '1 hour'"
            " FROM documents d JOIN collections l ON l.id = d.collection_id"
        )

    assert (await indexed.verify())[0] == []


async def test_missing_text_points_of_dead_chunks_are_accepted(services, library, provider):
    provider.script(malformed_containing="lighthouse")
    await library.add("The lighthouse keeper lives alone on the northern cliff all year.", "a.md")
    await work(services)
    indexed = IndexedCollection(services, await library.collection())
    assert len(await indexed.points()) == 1

    assert (await indexed.verify())[0] == []
    await indexed.remove(*await indexed.points())
    assert (await indexed.verify())[0] == []


async def test_verification_route_returns_object_or_event_stream(indexed, settings, monkeypatch):
    before = await indexed.points()
    removed = sorted(before)[:3]
    await indexed.remove(*removed)
    wakes = []
    monkeypatch.setattr("shared.broker.wakeups.Wakeups.wake", lambda _, *queues: wakes.extend(queues))
    async with serving(settings, indexed.services) as client:
        address = "/v1/collections/default/verify"
        summary = (await client.post(address, json={})).json()
        assert {finding["point_id"] for finding in summary.pop("findings")} == set(removed)
        assert summary == {"documents": 5, "points": len(before) - 3} | NOTHING | {"missing": 3, "repaired": 0}
        assert wakes == []

        accept = {"accept": "text/event-stream"}
        async with client.stream("POST", address, json={"repair": True}, headers=accept) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            events = [event async for event in events_of(response)]
    assert {name for name, _ in events} == {"progress", "finding", "done"}
    assert {data["point_id"] for name, data in events if name == "finding"} == set(removed)
    assert events[-1] == ("done", summary | {"repaired": 3})
    assert wakes == ["index"]


async def test_findings_in_reply_are_limited(indexed, settings, monkeypatch):
    monkeypatch.setattr("api.routes.verification._FINDINGS_MAX", 2)
    before = await indexed.points()
    await indexed.remove(*before)
    async with calling(settings, indexed.services) as client:
        summary = (await client.post("/v1/collections/default/verify", json={})).json()

    assert (len(summary["findings"]), summary["missing"]) == (2, len(before))


async def test_tenants_cannot_verify_each_others_collections(services, settings, library, provider):
    async with calling(with_keys(settings), services) as client:
        body = {"text": "The tide of the harbour.", "filename": "a.md", "collection": "mine"}
        await client.post("/v1/documents", json=body, headers=as_tenant("alice"))
        address = "/v1/collections/mine/verify"

        assert (await client.post(address, json={}, headers=as_tenant("alice"))).status_code == 200
        assert (await client.post(address, json={}, headers=as_tenant("bob"))).status_code == 404


async def test_interrupted_verification_resumes(indexed, monkeypatch):
    monkeypatch.setattr("shared.maintenance.verification._POINTS", 4)
    monkeypatch.setattr("shared.maintenance.verification._DOCUMENTS", 2)
    whole = indexed.comparison()
    assert [item async for item in whole.run() if isinstance(item, DifferingPoint)] == []

    position, points, documents, rounds = None, 0, 0, 0
    while True:
        part = indexed.comparison(position=position)
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


async def test_verification_resumes_from_cursor_over_http(client, services, library, provider):
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


async def test_concurrent_verifications_are_limited_per_tenant(indexed, settings):
    address, accept = "/v1/collections/default/verify", {"accept": "text/event-stream"}
    async with calling(with_keys(settings), indexed.services) as client:
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
