"""Verification: differences between Qdrant and the ledger are reported and repaired without calls."""

import asyncio
import random
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from uuid import UUID, uuid4

import httpx
import pytest
from qdrant_client import models

from features.verification.comparison import Verification
from features.verification.domain import ComparisonProgress, DifferingPoint, Position, VerificationCounts
from features.verification.job import VerificationWork
from features.verification.ledger import VerificationRequest, Verifications, findings_of
from shared.broker.wakeups import Wakeups
from shared.domain.corpus.ids import question_point_id
from shared.domain.errors import LeaseLost, Unavailable
from shared.domain.jobs import JobKind
from shared.domain.states import DocumentState
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.model.collections import Collections
from shared.ledger.work.indexing import IndexWork
from shared.maintenance.jobs.progress import JobYielded
from tests.conftest import Library
from tests.support.api import as_tenant, calling, events_of, running, serving, with_keys, work
from tests.support.planted import guards
from tests.support.qdrant import qdrant_client
from tests.support.waiting import TIMEOUT_SECONDS, eventually

DOCUMENTS = 3
NAMES = ("alpha", "beta")  # chunks of a document

NOTHING = {"missing": 0, "stale": 0, "orphaned": 0}


def text(edition):
    """Return a text of two chunks that are unique to this edition."""
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
        return qdrant_client(self.services)

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
        audit, index = self.services.ledger[Audit], self.services.index
        return Verification(audit, index, self.collection, repair=repair, position=position)

    async def verify(self, *, repair=False):
        comparison = self.comparison(repair=repair)
        findings = [item async for item in comparison.run() if isinstance(item, DifferingPoint)]
        return findings, comparison.so_far


async def fill(services):
    """Index some documents, one in its second version."""
    library = Library(services)
    for number in range(DOCUMENTS):
        await library.add(text(number), f"{number}.md")
    await work(services)
    await library.add(text("a second edition"), "0.md")
    await work(services)
    await forget_sweeps(services)


@pytest.fixture
async def indexed(services, once, library):
    await once(fill)
    return IndexedCollection(services, await library.collection())


async def forget_sweeps(services):
    """Delete the sweeps, as if they had been done: a point that waits for one is not a finding."""
    async with services.database.begin() as connection:
        await connection.execute_sql("DELETE FROM sweeps")


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
    assert await indexed.verify() == ([], VerificationCounts(DOCUMENTS, len(before), 0, 0, 0, 0))
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
    assert (verified.documents, verified.points) == (DOCUMENTS, len(await indexed.points()))


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
        assert not (await connection.execute_sql("SELECT 1 FROM chunks WHERE state = 'dead'")).all()
        await connection.execute_sql("UPDATE chunks SET due_at = now() WHERE state = 'generated'")
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
    for identity in draw.sample(sorted(before), 15):
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
        monkeypatch.setattr(f"features.verification.comparison.{size}", 2)
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
        await connection.execute_sql("DELETE FROM completions")

    findings, verified = await indexed.verify(repair=True)

    assert verified.unrepaired == len(findings) == len(chunk_points(before))
    documents = await indexed.services.ledger[Documents].page("default")
    assert [document.state for document in documents] == [DocumentState.READY] * DOCUMENTS
    assert provider.stats()["calls"] == 0


@guards(
    "features/verification/comparison.py",
    "document.live_version is not None and (document.is_final or is_reopened)",
    "document.live_version is not None",
    means="unfinished documents are verified",
)
async def test_unfinished_documents_are_neither_reported_nor_changed(indexed, library, provider):
    from shared.ingest.index.stage import index_batch

    await library.add(text("a third edition"), "0.md")
    services = indexed.services
    await services.ledger[Documents].reindex(indexed.collection)
    await work(services, "parse")
    chunks = await services.ledger[IndexWork].claim(4)
    await index_batch(services.indexer, chunks)  # written, but not settled yet
    before = await indexed.points()

    findings, verified = await indexed.verify(repair=True)

    assert (findings, verified.documents) == ([], 0)
    assert visible_state(await indexed.points()) == visible_state(before)


async def test_concurrent_ingest_is_never_a_finding(indexed, library):
    async def ingest():
        for round_ in range(3):
            for number in range(DOCUMENTS):
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
    assert len({finding.document_id for finding in findings}) == DOCUMENTS - 1


async def test_points_awaiting_sweep_are_not_findings(indexed, library):
    before = await indexed.points()
    newer = next(p for p in before.values() if p.payload["version"] == 2)
    await indexed.write(newer, str(uuid4()), version=1, chunk_id=str(uuid4()))
    async with indexed.services.database.begin() as connection:
        await connection.execute_sql(
            "INSERT INTO sweeps (collection_id, tenant, index_name, document_id, obsolete_version,"
            " below_version, due_at)"
            " SELECT d.collection_id, d.tenant, l.index_name, d.id, 1, 2, now() + interval '1 hour'"
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


@pytest.mark.usefixtures("runner")
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
        assert summary == {"documents": DOCUMENTS, "points": len(before) - 3} | NOTHING | {"missing": 3, "repaired": 0}
        assert wakes == ["runs"]

        accept = {"accept": "text/event-stream"}
        async with client.stream("POST", address, json={"repair": True}, headers=accept) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            events = [event async for event in events_of(response)]
    assert {name for name, _ in events} == {"progress", "finding", "done"}
    assert {data["point_id"] for name, data in events if name == "finding"} == set(removed)
    assert events[-1] == ("done", summary | {"repaired": 3})
    assert wakes[:2] == ["runs", "runs"]
    assert set(wakes[2:]) == {"index"}


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("repair", [False, True])
async def test_findings_in_reply_are_limited(indexed, settings, monkeypatch, repair):
    monkeypatch.setattr("features.verification.job.MOST_FINDINGS", 2)
    before = await indexed.points()
    await indexed.remove(*before)
    async with calling(settings, indexed.services) as client:
        summary = (await client.post("/v1/collections/default/verify", json={"repair": repair})).json()

    assert (len(summary["findings"]), summary["missing"]) == (2, len(before))


async def test_tenants_cannot_verify_each_others_collections(services, settings, provider):
    async with calling(with_keys(settings), services) as client, running(services):
        (await client.put("/v1/collections/mine", json={}, headers=as_tenant("alice"))).raise_for_status()
        address = "/v1/collections/mine/verify"

        assert (await client.post(address, json={}, headers=as_tenant("alice"))).status_code == 200
        assert (await client.post(address, json={}, headers=as_tenant("bob"))).status_code == 404


async def test_interrupted_verification_resumes(indexed, monkeypatch):
    monkeypatch.setattr("features.verification.comparison._POINTS", 4)
    monkeypatch.setattr("features.verification.comparison._DOCUMENTS", 2)
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


@pytest.mark.usefixtures("runner")
async def test_verification_resumes_from_cursor_over_http(indexed, settings, monkeypatch):
    address, accept = "/v1/collections/default/verify", {"accept": "text/event-stream"}
    shown, page = asyncio.Event(), Audit.page

    async def later(*arguments, **named):
        await shown.wait()
        return await page(*arguments, **named)

    monkeypatch.setattr(Audit, "page", later)
    async with serving(settings, indexed.services) as client:
        whole = []
        async with client.stream("POST", address, json={}, headers=accept) as response:
            async for name, data in events_of(response):
                whole.append((name, data))
                if data["points"]:
                    shown.set()
        cursor = next(data["cursor"] for name, data in whole if name == "progress" and data["points"])

        reply = await client.post(address, json={"cursor": cursor}, headers=accept)
        rest = [event async for event in events_of(reply)]
        assert {name for name, _ in rest[:-1]} == {"progress"}
        assert rest[-1] == ("done", whole[-1][1] | {"points": 0})

        reply = await client.post(address, json={"cursor": "bm9uZQ"})
        assert reply.status_code == 400


# --- runs of verifications ---

ADDRESS = "/v1/collections/default/verify"
EVENTS = {"accept": "text/event-stream"}


QUEUE_ANOTHER = """
    WITH job AS (
        INSERT INTO jobs (id, tenant, collection, collection_id, kind, state)
        SELECT gen_random_uuid(), tenant, collection, collection_id, kind, state FROM jobs LIMIT 1
        RETURNING id, kind, tenant, collection)
    INSERT INTO job_claims (id, kind, tenant, collection, embeddings) SELECT *, '{}' FROM job
"""


class Killed(Exception):
    """The process of a worker ends."""


class DyingVerifications(Verifications):
    """Verifications of a worker that is killed before or after it saves for the n-th time."""

    def __init__(self, database, nth, *, after):
        super().__init__(database)
        self._saves = count(1)
        self._nth = nth
        self._after = after

    async def save(self, *arguments, **named):
        killed = next(self._saves) == self._nth
        if killed and not self._after:
            raise Killed
        await super().save(*arguments, **named)
        if killed:
            raise Killed


def verifying(services, verifications=None):
    ledger = services.ledger
    chosen = verifications or ledger[Verifications]
    return VerificationWork(chosen, ledger[Collections], ledger[Audit], services.index, ledger[JobClaims], lambda: None)


WHOLE = VerificationRequest(Position())


def progress_of(**counts):
    return ComparisonProgress(VerificationCounts(**counts))


async def claimed(services):
    return await services.ledger[JobClaims].claim([JobKind.VERIFICATION])


async def lose_leases(services):
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE job_claims SET leased_until = now() - interval '1 second'")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("repair", [False, True])
async def test_killed_worker_loses_no_finding_and_no_repair(indexed, provider, monkeypatch, repair, after):
    for name, size in (("_POINTS", 10), ("_CHUNKS", 2), ("_DOCUMENTS", 2)):
        monkeypatch.setattr(f"features.verification.comparison.{name}", size)
    before, services = await indexed.points(), indexed.services
    whole = sorted(before)
    lost, hidden = whole[::7], [identity for identity in whole[1::7] if identity not in whole[::7]]
    a_text = next(p for identity, p in before.items() if "question" not in p.payload and identity not in lost)
    strays = [str(uuid4()) for _ in range(5)]

    for nth in count(1):
        await indexed.remove(*lost)
        await indexed.client.set_payload(indexed.name, {"hidden": True}, points=hidden, wait=True)
        for stray in strays:
            await indexed.write(a_text, stray, chunk_id=stray)
        run = await services.ledger[Verifications].start(indexed.collection, repair=repair)
        dying = verifying(services, DyingVerifications(services.database, nth, after=after))
        killed = True
        with suppress(Killed):
            await dying.work(await claimed(services))
            killed = False
        if killed:
            await lose_leases(services)
            await verifying(services).work(await claimed(services))
        run = await services.ledger[Verifications].get(run.id)
        assert run.state == "done"
        findings, counts = findings_of(run), run.progress.counts
        kinds = Counter(finding.kind for finding in findings)
        assert kinds == {"missing": len(lost), "stale": len(hidden), "orphaned": len(strays)}
        assert {f.point_id for f in findings} == {*lost, *hidden, *strays}
        assert counts.repaired == (len(findings) if repair else 0)
        assert (counts.missing, counts.stale, counts.orphaned) == (len(lost), len(hidden), len(strays))
        assert all(finding.repaired == repair for finding in findings)
        await work(services)
        await forget_sweeps(services)
        if repair:
            assert visible_state(await indexed.points()) == visible_state(before)
        else:
            await indexed.remove(*strays)
        if not killed:
            break
    assert nth > 4  # several saves of both passes
    assert provider.stats()["calls"] == 0


@guards(
    "features/verification/job.py",
    "        await self._turn.offer()",
    "        pass",
    means="a long verification delays all others until its end",
)
async def test_long_verification_gives_way_to_waiting_one(indexed, monkeypatch):
    for name, size in (("_POINTS", 10), ("_CHUNKS", 2), ("_DOCUMENTS", 2)):
        monkeypatch.setattr(f"features.verification.comparison.{name}", size)
    services = indexed.services
    run = await services.ledger[Verifications].start(indexed.collection, repair=False)
    long, other = await claimed(services), None
    async with services.database.begin() as connection:
        for _ in range(2):
            await connection.execute_sql(QUEUE_ANOTHER)
    other = await claimed(services)

    with pytest.raises(JobYielded):
        await replace(verifying(services), turn=timedelta(0)).work(long)

    part = await services.ledger[Verifications].get(run.id)
    counts = part.progress.counts
    assert (part.state, counts.documents + counts.points > 0) == ("queued", True)
    waiting = await claimed(services)
    assert len({long.id, other.id, waiting.id}) == 3
    for claim in (other, waiting):
        await services.ledger[JobClaims].fail(claim, "It ended.")
    await verifying(services).work(await claimed(services))
    whole = await services.ledger[Verifications].get(run.id)
    assert whole.state == "done"
    assert whole.progress.counts.points == len(await indexed.points())


async def test_late_worker_cannot_save_verification(indexed):
    ledger = indexed.services.ledger
    run = await ledger[Verifications].start(indexed.collection, repair=False)
    late = await claimed(indexed.services)
    await lose_leases(indexed.services)
    claim = await claimed(indexed.services)
    with pytest.raises(LeaseLost):
        await ledger[Verifications].save(late, WHOLE, progress_of(points=9), findings=[])
    with pytest.raises(LeaseLost):
        await ledger[Verifications].claimed(late)
    await ledger[Verifications].finish(late)
    assert await ledger[Verifications].get(run.id, with_request=True) == replace(run, state="running")

    rest = VerificationRequest(Position("documents"))
    await ledger[Verifications].save(claim, rest, progress_of(points=5), findings=[])
    await ledger[Verifications].finish(claim)
    found = await ledger[Verifications].get(run.id)
    assert (found.state, found.progress.counts.points) == ("done", 5)


async def test_progress_clears_lost_leases(indexed):
    services = indexed.services
    await services.ledger[Verifications].start(indexed.collection, repair=True)
    await claimed(services)
    for advanced, lost in ((False, 1), (True, 2), (False, 1)):
        await lose_leases(services)
        claim = await claimed(services)
        assert claim.lost_leases == lost
        point = DifferingPoint("orphaned", "a test", str(uuid4()), None, None)
        rest = WHOLE if advanced else replace(WHOLE, intended=[point])
        await services.ledger[Verifications].save(claim, rest, progress_of(), findings=[])


async def test_same_request_joins_running_verification(indexed, settings, provider):
    async with calling(settings, indexed.services) as client:
        sent = [asyncio.create_task(client.post(ADDRESS, json={})) for _ in range(2)]
        await eventually(lambda: _rows(indexed.services))
        other = await client.post(ADDRESS, json={"repair": True})
        async with running(indexed.services):
            replies = await asyncio.gather(*sent)
        assert [reply.status_code for reply in replies] == [200, 200]
        assert await _rows(indexed.services) == 1
        newest = (await client.get(ADDRESS)).json()
    assert other.status_code == 409
    assert other.json()["detail"].startswith("A verification without repairs is running")
    assert newest == replies[0].json() | {
        "repair": False,
        "state": "done",
        "error": None,
        "created_at": newest["created_at"],
        "ended_at": newest["ended_at"],
    }


async def _rows(services):
    async with services.database.begin() as connection:
        return (await connection.execute_sql("SELECT count(*) FROM jobs")).scalar_one()


async def test_verification_continues_without_client_and_api(indexed, settings, provider, monkeypatch):
    async with httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_SECONDS) as follower:
        async with serving(settings, indexed.services) as client:
            async with client.stream("POST", ADDRESS, json={}, headers=EVENTS) as response:
                first = await anext(events_of(response))
            assert (first[0], first[1]["state"]) == ("progress", "queued")
            joined = asyncio.Event()
            monkeypatch.setattr(Wakeups, "wake", lambda *_: joined.set())
            following = asyncio.create_task(follower.post(f"{client.base_url}{ADDRESS}", json={}))
            await joined.wait()
        stopped = await following
    assert stopped.status_code == 503
    assert stopped.json()["detail"].startswith("This server stops. The job continues")
    async with serving(settings, indexed.services) as client, running(indexed.services):
        await eventually(lambda: _state_is(client, "done"))
        assert (await client.get(ADDRESS)).json()["documents"] == DOCUMENTS
    assert await _rows(indexed.services) == 1


async def _state_is(client, state):
    return (await client.get(ADDRESS)).json()["state"] == state


async def test_cancelled_verification_stops_and_keeps_repairs(indexed, settings, provider, monkeypatch):
    before = await indexed.points()
    stray, page = str(uuid4()), Audit.page
    a_text = next(p for p in before.values() if "question" not in p.payload)
    await indexed.write(a_text, stray, chunk_id=stray)
    monkeypatch.setattr(Audit, "page", lambda *_, **__: asyncio.Event().wait())  # the second pass never ends
    async with serving(settings, indexed.services) as client, running(indexed.services) as runner:
        assert (await client.delete(ADDRESS)).status_code == 404
        following = asyncio.create_task(client.post(ADDRESS, json={"repair": True}))
        await eventually(lambda: _repaired(client))
        assert (await client.delete(ADDRESS)).status_code == 204
        ended = await following
        await eventually(lambda: runner.claimed == 0)
        cancelled = (await client.get(ADDRESS)).json()
        monkeypatch.setattr(Audit, "page", page)
        again = await client.post(ADDRESS, json={})
    assert (ended.status_code, ended.json()["detail"]) == (409, "The job was cancelled.")
    assert (cancelled["state"], cancelled["repaired"]) == ("cancelled", 1)
    assert again.json()["orphaned"] == 0


async def _repaired(client):
    reply = await client.get(ADDRESS)
    return reply.status_code == 200 and reply.json()["repaired"]


async def test_verification_survives_outage_of_qdrant(indexed, settings, provider, monkeypatch):
    read, failures = indexed.services.index.scroll_points, iter(range(2))

    async def scroll(*arguments, **named):
        if next(failures, None) is not None:
            raise Unavailable("Qdrant is unavailable.", component="qdrant")
        return await read(*arguments, **named)

    monkeypatch.setattr(indexed.services.index, "scroll_points", scroll)
    async with calling(settings, indexed.services) as client, running(indexed.services):
        reply = await client.post(ADDRESS, json={})
    assert (reply.status_code, reply.json()["documents"]) == (200, DOCUMENTS)
    assert next(failures, None) is None


@pytest.mark.usefixtures("runner")
async def test_long_outage_fails_verification(indexed, settings, provider, monkeypatch):
    async def scroll(*_, **__):
        raise Unavailable("Qdrant is unavailable.", component="qdrant")

    monkeypatch.setattr(indexed.services.index, "scroll_points", scroll)
    monkeypatch.setattr("features.verification.job.TIMEOUT", timedelta(seconds=-1))
    async with serving(settings, indexed.services) as client:
        events = [event async for event in events_of(await client.post(ADDRESS, json={}, headers=EVENTS))]
    name, problem = events[-1]
    assert (name, problem["detail"], problem["component"]) == ("error", "Qdrant is unavailable.", "worker")
