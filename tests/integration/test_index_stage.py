"""Index workers: claims, writes, and behaviour while Qdrant refuses writes."""

import base64
from dataclasses import replace
from datetime import timedelta

import numpy as np
import orjson
import pytest
from qdrant_client import models
from structlog.testing import capture_logs

from shared.domain.errors import LeaseLost
from shared.domain.retry import Dead
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.indexing import IndexOutcome
from shared.ingest.index import writer
from shared.ingest.index.stage import IndexStage, index_batch
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.indexing import IndexWork
from shared.vectors.transport.errors import Refusal
from tests.conftest import Library
from tests.integration.test_ledger import parsed
from tests.support.api import as_tenant, calling, ready, searchable, with_keys, work
from tests.support.emptying import use_own_collections
from tests.support.planted import guards
from tests.support.qdrant import is_upsert, qdrant_client


async def states(services, table):
    async with services.database.begin() as connection:
        found = await connection.execute(
            Statement(f"SELECT state, count(*) FROM {table} GROUP BY state ORDER BY state")
        )
        return [tuple(row) for row in found]


async def test_worker_with_other_embedding_model_claims_nothing(services, provider, settings):
    texts = (f"Text number {number}." for number in range(5))
    await parsed(services, Library(services, "alice"), *texts, ready_questions=("Which number?",))

    other = IndexWork(services.database, worker="other", lease=timedelta(seconds=30), embeddings=["other-model"])
    for suspects in (False, True):
        assert await other.claim(10, suspects=suspects) == []
    assert await states(services, "chunks") == [("parsed", 5)]
    assert "index" in await services.ledger[Backlogs].due()

    async with calling(with_keys(settings).model_copy(update={"embedding_model": "other-model"}), services) as client:
        status = (await client.get("/v1/status", headers=as_tenant("alice"))).json()
    assert status["unserved"] == [{"embedding_model": settings.embedding_model, "chunks": 5}]

    await work(services, "index")
    assert await states(services, "documents") == [("ready", 1)]


async def test_chunks_of_many_collections_share_embedding_requests(services, provider):
    await parsed_of_tenants(services, 4)

    await work(services, "index")

    assert provider.stats()["embeddings"] <= 2  # one request measures the vector size
    assert await states(services, "documents") == [("ready", 4)]


async def parsed_of_tenants(services, count):
    for number in range(count):
        library, text = Library(services, f"t{number}"), f"Text number {number} of a tenant."
        await parsed(services, library, text, ready_questions=("Which number?",))


@pytest.fixture
def refuse_writes(services, monkeypatch):
    """Return a function that makes Qdrant answer a number of writes as with a full disk."""
    requests = services.index._requests
    send = requests.send

    def refuse(times):
        remaining = [None] * times

        async def answer(method, path, body=None):
            if remaining and is_upsert(method, path):
                remaining.pop()
                raise Refusal(507, b"{}")
            return await send(method, path, body)

        monkeypatch.setattr(requests, "send", answer)
        return remaining

    monkeypatch.setattr(writer, "_FIRST_PAUSE_SECONDS", 0.01)
    return refuse


async def test_vectors_are_kept_while_qdrant_refuses_writes(services, library, provider, refuse_writes):
    await parsed(services, library, "The keeper lives alone.", ready_questions=("Who lives alone?",))
    remaining = refuse_writes(4)

    await work(services, "index")

    assert (remaining, await states(services, "documents")) == ([], [("ready", 1)])
    assert (
        provider.stats()["embedded_inputs"] <= 3
    )  # the text, its question, and the request that measures the vector size


async def test_kept_vectors_are_dropped_when_lease_is_lost(services, library, refuse_writes):
    await parsed(services, library, "The keeper lives alone.", ready_questions=("Who lives alone?",))
    refuse_writes(1000)
    checks = iter([None, None, LeaseLost()])

    def require_lease():
        if error := next(checks):
            raise error

    (failed,) = await index_batch(services.indexer, await services.ledger[IndexWork].claim(1), require_lease)

    assert isinstance(failed, FailedAttempt)
    assert not failed.decision.burns_attempt


async def test_unwritable_collection_does_not_block_others(services, provider, monkeypatch):
    monkeypatch.setattr(writer, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(writer, "_HOLD_BESIDE_OTHERS", timedelta(seconds=0.05))
    for tenant in ("refused", "taken"):
        library = Library(services, tenant)
        await parsed(services, library, "The keeper lives alone.", ready_questions=("Who lives alone?",))
    async with services.database.begin() as connection:
        change = Statement("UPDATE collections SET index_name = :name WHERE tenant = 'refused'")
        await connection.execute(change, {"name": f"no/such/path-{services.indexer.space}"})

    outcomes = await index_batch(services.indexer, await services.ledger[IndexWork].claim(10))

    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, FailedAttempt)]
    (taken,) = [outcome for outcome in outcomes if isinstance(outcome, IndexOutcome)]
    assert not refused.decision.burns_attempt
    assert "Qdrant" in refused.decision.reason
    assert taken.chunk.tenant == "taken"


class OddEmbedder:
    """An embedder that returns too short vectors for some texts."""

    def __init__(self, embedder, odd):
        self.embedder = embedder
        self.name = embedder.name
        self.prefixes = embedder.prefixes
        self.odd = odd

    async def dimensions(self):
        return await self.embedder.dimensions()

    async def embed(self, texts, billed):
        vectors = await self.embedder.embed(texts, billed)
        return [v[:5] if any(word in text for word in self.odd) else v for text, v in zip(texts, vectors, strict=True)]


@pytest.fixture
def upserts(services, monkeypatch):
    """Return a list that receives the upserts sent to Qdrant."""
    requests, sent = services.index._requests, []
    send = requests.send

    async def counted(method, path, body=None, within=None):
        if is_upsert(method, path):
            sent.append(body)
        return await send(method, path, body, within)

    monkeypatch.setattr(requests, "send", counted)
    return sent


async def test_embedded_engine_receives_vectors_in_base64(services, library, provider, upserts):
    await parsed(services, library, "The keeper lives alone.", ready_questions=("Who lives alone?",))

    await work(services, "index")

    written = [point for body in upserts for point in orjson.loads(body)["points"]]
    assert [type(point["vector"]["dense"]) for point in written] == [str, str]
    stored = await services.index.stored_vectors((await library.collection()).index_name, [p["id"] for p in written])
    for point in written:
        sent = np.frombuffer(base64.b64decode(point["vector"]["dense"]), np.float32)
        assert stored[point["id"]].vector == pytest.approx(sent)


async def collection_with(services, library, *names):
    """Create a Qdrant collection with the named vectors only, and return its name."""
    vector = models.VectorParams(size=await services.indexer.embedder.dimensions(), distance=models.Distance.COSINE)
    use_own_collections(services)
    name = (await library.collection()).index_name
    await qdrant_client(services).create_collection(
        name,
        vectors_config={each: vector for each in names if each != "bm25"},
        sparse_vectors_config={"bm25": models.SparseVectorParams()} if "bm25" in names else None,
    )
    return name


async def texts_of_points(services, library):
    name = (await library.collection()).index_name
    points, _ = await qdrant_client(services).scroll(name, limit=1000)
    return {point.payload["text"] for point in points if "text" in point.payload}, len(points)


@pytest.mark.parametrize("odd", [("number 17.",), ("number 0.", "number 13.", "number 14.", "number 31.")])
async def test_rejected_chunk_does_not_fail_others(services, library, provider, upserts, odd):
    await parsed(services, library, *(f"Text number {number}." for number in range(32)), ready_questions=())
    indexer = replace(services.indexer, embedder=OddEmbedder(services.indexer.embedder, odd))
    batch = await indexer.work.claim(32)

    with capture_logs() as logs:
        outcomes = await index_batch(indexer, batch)

    refused = [outcome for outcome in outcomes if isinstance(outcome, FailedAttempt)]
    names = {chunk.lease: chunk for chunk in batch}
    assert len(refused) == len(odd)
    for failure in refused:
        assert names[failure.lease].content.text.endswith(odd)
        assert isinstance(failure.decision, Dead)
        assert failure.decision.reason.startswith("Qdrant refuses the points of this chunk: Qdrant answered 400 (Wrong")
    texts, count = await texts_of_points(services, library)
    assert (len(texts), count) == (32 - len(odd), 32 - len(odd))
    assert len(upserts) <= 1 + 2 * 5 * len(odd)  # two requests for each level of halves
    named = {entry["chunk_id"] for entry in logs if entry["event"] == "points.refused"}
    assert named == {str(failure.lease.id) for failure in refused}


async def test_partially_written_points_of_dead_chunk_are_deleted(services, library, provider, monkeypatch):
    """Qdrant may write the other points of a request in which it refuses one."""
    requests = services.index._requests
    send = requests.send

    async def misnamed(method, path, body=None):
        """Send the keeper's question with a vector name that does not exist in the collection."""
        if is_upsert(method, path):
            body = orjson.loads(body)
            for point in body["points"]:
                if "question" in point["payload"]:
                    point["vector"] = {"another": point["vector"]["dense"]}
        return await send(method, path, body)

    monkeypatch.setattr(requests, "send", misnamed)
    await parsed(services, library, *(f"Text number {number}." for number in range(7)), ready_questions=())
    refused = await parsed(services, library, "The keeper lives alone.", ready_questions=("Who lives alone?",))

    await work(services, "index")

    (chunk,) = await services.ledger[Documents].chunks("default", refused.id)
    assert chunk.state == "dead"
    texts = {f"Text number {number}." for number in range(7)} | {"The keeper lives alone."}
    assert await texts_of_points(services, library) == (texts, 8)
    assert await states(services, "chunks") == [("dead", 1), ("indexed", 7)]


async def test_collection_rejecting_all_points_waits_after_one_request(services, library, provider, upserts):
    await collection_with(services, library, "dense")
    await parsed(services, library, *(f"Text number {number}." for number in range(32)), ready_questions=())

    outcomes = await index_batch(services.indexer, await services.ledger[IndexWork].claim(32))

    ((reason, burns_attempt),) = {(each.decision.reason, each.decision.burns_attempt) for each in outcomes}
    assert reason.startswith("Qdrant takes no points: Qdrant answered 400 (Wrong input: Not existing vector name error")
    assert (len(outcomes), burns_attempt) == (32, False)
    assert len(upserts) == 1
    before = provider.stats()["embedded_inputs"]
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET due_at = now()"))
    await work(services, "index")
    assert provider.stats()["embedded_inputs"] == before


async def test_index_claims_are_limited_by_slots(services, provider):
    await parsed_of_tenants(services, 4)

    assert len(await IndexStage([services.indexer]).claim(2, {})) <= 2


@guards(
    "shared/ingest/index/writer.py",
    "await self.index.renew(",
    "0 and await self.index.renew(",
    means="the sweep after a lost lease deletes the text of an indexed chunk",
)
async def test_sweep_keeps_text_older_than_questions(services, library, provider):
    await ready(services, ("The keeper lives alone.", "a.md"))

    async with services.database.begin() as connection:
        recorded = (await connection.execute(Statement("SELECT points_token FROM chunks"))).scalars()
    name = (await library.collection()).index_name
    points, _ = await qdrant_client(services).scroll(name, limit=1000)
    assert [point.payload["text"] for point in points if "text" in point.payload] == ["The keeper lives alone."]
    assert {point.payload["token"] for point in points} == set(recorded)


async def test_text_is_written_once(services, library, provider, upserts):
    await searchable(services, ("The keeper lives alone.", "a.md"))
    written = len(upserts)

    await work(services, "generate", "index")

    (questions,) = upserts[written:]
    assert all("question" in point["payload"] for point in orjson.loads(questions)["points"])
