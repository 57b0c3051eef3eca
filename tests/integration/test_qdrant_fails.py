"""Behaviour while Qdrant refuses writes, or lists collections but answers no query."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import numpy as np
import pytest
from qdrant_client import models
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from features.erasure.ledger.erasures import Erasures
from features.verification.comparison import Verification
from features.verification.domain import DifferingPoint
from shared.domain.errors import Unavailable
from shared.domain.retry import Retry
from shared.domain.stages.attempts import FailedAttempt
from shared.ingest.index import writer
from shared.ingest.index.stage import index_batch
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.indexing import IndexWork
from shared.vectors.index import Index
from shared.vectors.schema.points import Point
from shared.vectors.transport.errors import CollectionRefused, Refusal
from shared.vectors.transport.requests import Requests
from tests.conftest import Library
from tests.support.api import calling, ready, work
from tests.support.planted import guards
from tests.support.proxy import REFUSAL, Fault, Link
from tests.support.qdrant import is_upsert, qdrant_client
from tests.support.waiting import TIMEOUT_SECONDS, eventually
from workers import scheduler

WRITES = Fault(refuse="?wait=true")
QUERIES = Fault(refuse="/points/query/batch")
HARBOUR = "The harbour opens at seven in the morning for all ships."


@pytest.fixture(autouse=True)
def short_hold(monkeypatch):
    """Make workers release rejected batches at once instead of keeping their vectors for minutes."""
    monkeypatch.setattr(writer, "_HOLD", timedelta(seconds=0.05))


@pytest.fixture
async def link(settings):
    """Yield a link to Qdrant that fails on demand."""
    link = Link(settings.qdrant_url.removeprefix("http://").rstrip("/"))
    link.port = await link.listen()
    yield link
    await link.aclose()


@pytest.fixture
async def index(link, settings):
    index = Index(f"http://127.0.0.1:{link.port}", api_key=settings.qdrant_api_key)
    yield index
    await index.aclose()


@asynccontextmanager
async def client_over(link, settings):
    change = {"qdrant_url": f"http://127.0.0.1:{link.port}"}
    async with calling(settings.model_copy(update=change)) as client:
        yield client


async def create_collection(services, name):
    """Create a collection of Qdrant as the product does, but without the indexes, which take most of the time."""
    client = qdrant_client(services)
    if not await client.collection_exists(name):
        vector = models.VectorParams(size=3, distance=models.Distance.COSINE)
        await client.create_collection(name, vectors_config={"dense": vector})


async def stored(services, library):
    collection = await library.collection()
    return await services.index.scroll_points(collection.location, limit=1000)


async def findings(services, library):
    verification = Verification(services.ledger[Audit], services.index, await library.collection(), repair=False)
    return [item async for item in verification.run() if isinstance(item, DifferingPoint)]


async def generated(services):
    """Add a document whose questions wait to be indexed."""
    await Library(services).add(HARBOUR)
    await work(services, "parse", "index", "generate")


@guards(
    "shared/vectors/lifecycle.py",
    "if self._rejecting:",
    "if False:",
    means="chunks are claimed for the index while Qdrant rejects writes",
)
@pytest.mark.parametrize("existing", [True, False], ids=["existing collection", "new collection"])
async def test_worker_claims_nothing_until_writes_succeed(services, once, link, index, existing):
    indexer = replace(services.indexer, index=index)
    await once(generated)
    (chunk,) = await services.ledger[IndexWork].claim(10)
    if existing:
        await index.ensure_collection(chunk.index_name, await indexer.embedder.dimensions())
    link.change(WRITES)
    (outcome,) = await index_batch(indexer, [chunk])

    assert isinstance(outcome, FailedAttempt)
    assert not outcome.decision.burns_attempt
    await index.count_points(chunk.location)  # reads still work
    for _ in range(2):
        with pytest.raises(Unavailable):
            await index.require()
    link.change(Fault())
    await index.require()
    before = link.accepted
    await index.require()
    assert link.accepted == before


@guards(
    "shared/vectors/lifecycle.py",
    "\n            if error.status != ABSENT:",
    "\n            if True:",
    means="a collection of Qdrant that another worker creates counts as refused",
)
async def test_collection_that_another_worker_creates_is_tried_again(index, monkeypatch):
    """Qdrant answered that it exists, and then 404."""

    async def exists(_):
        return True

    with monkeypatch.context() as patch:
        patch.setattr(index, "_exists", exists)
        with pytest.raises(Unavailable) as raised:
            await index.ensure_collection("late", 3)
    assert not isinstance(raised.value, CollectionRefused)

    await index.ensure_collection("late", 3)


async def test_unwritable_collection_does_not_block_others(index, link):
    for name in ("full", "roomy"):
        await index.ensure_collection(name, 3)
    link.change(Fault(refuse="/collections/full/points"))
    with pytest.raises(Unavailable):
        await index._write_neutral("full")

    await index.require()
    link.change(WRITES)
    with pytest.raises(Unavailable):
        await index.require()


async def test_unwritable_collection_does_not_keep_other_builds(services, index, link):
    cleaner = replace(services.cleaner, index=index)
    for name in ("full", "roomy"):
        await create_collection(services, name)
        await services.ledger[Collections].ensure(name, name, embedding_model=name)
        await services.ledger[Erasures].start(name)
    await cleaner.drop_builds()
    await cleaner.drop_builds()
    async with services.database.begin() as connection:
        await connection.execute(
            Statement("UPDATE collections SET index_name = name, emptied_at = now() - interval '1 hour'")
        )
    link.change(Fault(refuse="/collections/full/points"))

    await cleaner.drop_builds()

    assert await services.ledger[Collections].index_names() == ["full"]
    link.change(Fault())
    await cleaner.drop_builds()
    assert await services.ledger[Collections].index_names() == []


@guards(
    "shared/vectors/lifecycle.py",
    "if self._unavailable:",
    "if False:",
    means="a chunk is claimed for the index while Qdrant is unavailable",
)
async def test_claims_stop_during_qdrant_outage(library, link, index):
    location = (await library.collection()).location
    link.change(Fault(refuse="/collections"))
    with pytest.raises(Unavailable):
        await index.count_points(location)
    with pytest.raises(Unavailable):
        await index.require()

    link.change(Fault())
    await index.require()


async def test_readiness_sends_query_and_names_reason(settings, once, link):
    await once(ready, (HARBOUR, "a.md"))
    link.change(QUERIES)
    async with client_over(link, settings) as client:
        health = {}

        async def uploads_answer():  # on a busy machine the folder may answer late
            health.update((await client.get("/health/ready")).json())
            return "uploads" not in health["down"]

        await eventually(uploads_answer)
        with capture_logs(processors=[merge_contextvars]) as logs:
            reply = await client.post("/v1/retrieve", json={"question": "When?"}, headers={"x-request-id": "r-1"})

    assert (health["status"], health["down"]) == ("degraded", ["qdrant"])
    assert (reply.status_code, reply.json()["component"]) == (503, "qdrant")
    assert reply.json()["detail"].startswith("Qdrant has no disk space left (Service internal error: No space left on")
    assert health["reasons"]["qdrant"] == reply.json()["detail"]
    (answered,) = [entry for entry in logs if entry["event"] == "qdrant.answered"]
    assert answered["words"] == REFUSAL.decode()
    assert (answered["status"], answered["request_id"]) == (500, "r-1")


async def test_concurrent_readiness_checks_share_one_query(once, link, index):
    await once(ready, (HARBOUR, "a.md"))
    link.change(QUERIES)

    answers = await asyncio.gather(*(index.ready() for _ in range(50)), return_exceptions=True)
    with pytest.raises(Unavailable):
        await index.ready()

    assert {type(answer) for answer in answers} == {Unavailable}
    assert link.refused == 1


async def test_cancelled_waiter_does_not_cancel_shared_probe(services, index):
    first, second = asyncio.create_task(index.ready()), asyncio.create_task(index.ready())
    await asyncio.sleep(0)
    first.cancel()

    await second
    assert first.cancelled()


async def test_rejected_write_waits_for_its_other_requests(services, monkeypatch):
    """A request that finishes later would write points of abandoned chunks."""
    index, requests, finished = services.index, services.index._requests, []
    send = requests.send

    async def slower(method, path, body=None):
        if b"[0.1," in body:
            raise Refusal(500, b"")
        await asyncio.sleep(0.2)
        finished.append(body)
        return await send(method, path, body)

    await create_collection(services, "many")
    monkeypatch.setattr(requests, "send", slower)
    points = [
        Point(str(UUID(int=n)), {"dense": np.full(3, 0.1, np.float32)}, {"version": 1, "token": 1}) for n in range(128)
    ]
    others = [
        Point(str(UUID(int=n)), {"dense": np.full(3, 0.2, np.float32)}, {"version": 1, "token": 1})
        for n in range(128, 136)
    ]

    with pytest.raises(Unavailable):
        await index.upsert("many", [*points, *others])

    assert len(finished) == 1


@pytest.fixture
def refuse_texts(services, monkeypatch):
    """Return a function that makes Qdrant refuse the points of chunks, and accept the points of questions."""
    requests = services.index._requests
    send = requests.send

    async def misnamed(method, path, body=None, *others):
        if is_upsert(method, path):
            body = body.replace(b'"bm25":', b'"bm26":')
        return await send(method, path, body, *others)

    return lambda: monkeypatch.setattr(requests, "send", misnamed)


async def test_points_of_chunk_rejected_by_qdrant_are_deleted(services, library, provider, refuse_texts):
    refuse_texts()
    document = await library.add(HARBOUR)
    with capture_logs() as logs:
        await work(services)

    (chunk,) = await services.ledger[Documents].chunks("default", document.id)
    assert chunk.state == "dead"
    assert chunk.error == (
        "Qdrant refuses the points of this chunk: Qdrant answered 400"
        " (Wrong input: Not existing vector name error: bm26)"
    )
    assert any("bm26" in entry.get("words", "") for entry in logs)
    assert await stored(services, library) == ([], None)
    assert await findings(services, library) == []


async def test_chunk_rejected_after_indexing_matches_ledger(services, library, once, refuse_texts):
    (document,) = await once(ready, (HARBOUR, "a.md"))
    refuse_texts()
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE documents SET state = 'searchable'"))
        await connection.execute(Statement("UPDATE chunks SET state = 'generated', due_at = now()"))
    await work(services, "index")

    (chunk,) = await services.ledger[Documents].chunks("default", document.id)
    assert chunk.state == "dead"
    points, _ = await stored(services, library)
    assert points
    assert await findings(services, library) == []


async def test_rejected_chunk_is_retried_until_points_are_deleted(services, library, link, index, refuse_texts):
    refuse_texts()
    await library.add(HARBOUR)
    await work(services, "parse")
    (chunk,) = await services.ledger[IndexWork].claim(10)
    link.change(Fault(refuse="/points/batch"))
    indexer = replace(services.indexer, finisher=replace(services.indexer.finisher, index=index))

    (outcome,) = await index_batch(indexer, [chunk])

    assert isinstance(outcome.decision, Retry)
    assert not outcome.decision.burns_attempt


async def test_late_worker_abandoning_chunk_deletes_only_own_points(services, library, once):
    await once(generated)
    (late,) = await services.ledger[IndexWork].claim(10)
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET due_at = now() - interval '1 second'"))
    await work(services, "index")
    before, _ = await stored(services, library)
    assert before

    await index_batch(services.indexer, [replace(late, lost_leases=100)])

    assert (await stored(services, library))[0] == before


async def test_optimization_request_skips_missing_collections(services, library):
    await library.collection()

    await services.cleaner.nudge_optimizers()


@pytest.fixture
def polled():
    """Return the list of collections of which the state was read."""
    return []


@pytest.fixture
def nudged(monkeypatch, polled):
    """Return the list of nudged collections; names that start with `grey` are reported as waiting."""
    send, nudged = Requests.send, []

    async def answer(requests, method, path, body=None):
        result, name = await send(requests, method, path, body), path.removeprefix("/collections/")
        if method == "PATCH":
            nudged.append(name)
        if method == "GET":
            polled.append(name)
        waits = method == "GET" and name.startswith("grey") and "/" not in name and name not in nudged
        return result | {"status": "grey"} if waits else result

    monkeypatch.setattr(Requests, "send", answer)
    return nudged


async def test_rejected_collection_is_named_and_stops_no_nudge(services, nudged, capsys):
    for tenant, name in (("bad", "a/b"), ("good", "grey-3")):
        await Library(services, tenant).collection()
        change = Statement("UPDATE collections SET index_name = :name WHERE tenant = :tenant")
        async with services.database.begin() as connection:
            await connection.execute(change, {"name": name, "tenant": tenant})
    await create_collection(services, "grey-3")

    await services.cleaner.nudge_optimizers()

    assert nudged == ["grey-3"]
    assert "a/b" in capsys.readouterr().out


async def test_scheduler_starts_pending_optimizations_of_collections(services, settings, nudged, polled, monkeypatch):
    monkeypatch.setattr(scheduler, "_NUDGE_EVERY", timedelta(seconds=0.05))
    names = ("grey-1", "grey-2", "green-1")
    for number, name in enumerate(names):
        await create_collection(services, name)
        await Library(services, f"t{number}").collection()
        change = Statement("UPDATE collections SET index_name = :name WHERE tenant = :tenant")
        async with services.database.begin() as connection:
            await connection.execute(change, {"name": name, "tenant": f"t{number}"})

    running = asyncio.create_task(scheduler.run(settings))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while len(nudged) < 2 or min(map(polled.count, names)) < 3:  # each nudge is followed by another iteration
            await asyncio.sleep(0.02)
    os.kill(os.getpid(), signal.SIGTERM)
    await running

    assert sorted(nudged) == ["grey-1", "grey-2"]
