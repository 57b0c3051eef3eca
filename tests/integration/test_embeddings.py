"""Embeddings by name: one process serves several, each with its own endpoint, size and prefixes."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from aiohttp import web

from features.all import FEATURES
from shared.domain.stages.attempts import FailedAttempt
from shared.ingest.index.stage import IndexStage, index_batch
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.indexing import IndexWork
from shared.services import build
from shared.settings import Embedding
from tests.support.api import as_tenant, calling, with_keys, work
from tests.support.planted import guards
from tests.support.provider import Script, ScriptedEndpoints

QUERY, PASSAGE = "query: ", "passage: "
TEXT = "The harbour opens at nine. It closes at noon."
GIVEN_QUESTIONS = ["When does the harbour open?"]
USER_QUESTION = "Which hour does the harbour open?"


class Endpoint(ScriptedEndpoints):
    """A server of one embedding model that records its requests."""

    def __init__(self):
        super().__init__(Script())
        self.bodies = []
        self.url = ""

    async def embed(self, request):
        self.bodies.append(await request.json())
        return await super().embed(request)

    @property
    def inputs(self):
        """The embedded texts, except the probes that measure the vector size."""
        sent = [text for body in self.bodies for text in body["input"]]
        return sorted(set(sent) - {"ping", "How long are the vectors of this model?"})


@pytest.fixture
async def other():
    """Yield a second embedding server."""
    endpoint = Endpoint()
    runner = web.AppRunner(endpoint.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield endpoint
    await runner.cleanup()


@pytest.fixture
def serving(services, settings, other):
    """Return a function that builds services with an embedding `e5` in addition to the default one."""

    @asynccontextmanager
    async def building(**change):
        e5 = {"model": "e5-small", "dimensions": 512, "query_prefix": QUERY, "passage_prefix": PASSAGE}
        entry = Embedding(base_url=other.url, **e5 | change)
        more = {"embeddings": {"e5": entry}, "qdrant_prefix": services.ledger[Collections]._index_names.prefix}
        async with build("all", settings.model_copy(update=more), FEATURES) as built:
            yield built

    return building


@asynccontextmanager
async def client_of(built):
    async with calling(with_keys(built.settings), built) as client:
        client.headers.update(as_tenant("alice"))
        yield client


async def upload(client, collection, name="harbour", **more):
    document = {"external_id": name, "text": TEXT, "questions": GIVEN_QUESTIONS, "collection": collection} | more
    reply = await client.post("/v1/documents", json=document)
    assert reply.status_code == 202, reply.text


async def ask(client, collection, **more):
    reply = await client.post("/v1/retrieve", json={"question": USER_QUESTION, "collection": collection} | more)
    assert reply.status_code == 200, reply.text
    return [chunk["external_id"] for chunk in reply.json()["chunks"]]


async def chunk_states(services):
    async with services.database.begin() as connection:
        found = await connection.execute(Statement("SELECT embedding_model, state FROM chunks ORDER BY 1"))
        return [tuple(row) for row in found]


async def test_each_collection_uses_its_own_embedding(serving, other, provider):
    async with serving() as built, client_of(built) as client:
        made = await client.put("/v1/collections/new", json={"embedding": "e5"})
        assert (made.status_code, made.json()["embedding_model"]) == (201, "e5")
        for collection in ("default", "new"):
            await upload(client, collection)
        await work(built)
        ingested, embedded = other.inputs, provider.stats()["embedded_inputs"]

        assert await ask(client, "default") == ["harbour"]
        assert other.inputs == ingested  # the question was embedded by the default server
        assert provider.stats()["embedded_inputs"] == embedded + 1
        assert await ask(client, "new", unit="sentences") == ["harbour"]
        assert provider.stats()["embedded_inputs"] == embedded + 1

    assert ingested == [PASSAGE + TEXT, QUERY + GIVEN_QUESTIONS[0]]
    sentences = [PASSAGE + sentence for sentence in ("It closes at noon.", "The harbour opens at nine.")]
    assert other.inputs == sorted([*ingested, QUERY + USER_QUESTION, *sentences])
    assert {(body["model"], body["dimensions"]) for body in other.bodies} == {("e5-small", 512)}


async def test_quoted_answer_uses_embedding_of_its_collection(serving, other, provider):
    async with serving() as built:
        quoting = replace(built, settings=built.settings.model_copy(update={"answering": "extractive"}))
        async with build("api", quoting.settings, FEATURES) as api, client_of(built) as client:
            await client.put("/v1/collections/new", json={"embedding": "e5"})
            await upload(client, "new")
            await work(built)
            before = provider.stats()["embedded_inputs"]
            async with client_of(replace(built, answerer_for=api.answerer_for)) as asking:
                reply = await asking.post("/v1/query", json={"question": USER_QUESTION, "collection": "new"})

    assert reply.json()["form"] == "extractive"
    assert "opens at nine" in reply.json()["answer"]
    assert provider.stats()["embedded_inputs"] == before
    assert PASSAGE + "The harbour opens at nine." in other.inputs


@guards(
    "shared/ledger/work/claims_index.sql",
    " AND w.embedding_model = m.name\n",
    "\n",
    "AND w.embedding_model = m.name AND {no",
    "AND {no",
    means="a worker claims chunks of another embedding model",
)
async def test_worker_claims_only_chunks_of_its_embeddings(serving, other, provider):
    async with serving() as built, client_of(built) as client:
        await client.put("/v1/collections/new", json={"embedding": "e5"})
        for collection in ("default", "new"):
            await upload(client, collection)
        await work(built, "parse")

        of_e5 = replace(built, indexers={"e5": built.indexers["e5"]})
        await work(of_e5, "index")
        assert await chunk_states(built) == [("e5", "indexed"), ("scripted-embedding", "parsed")]
        assert provider.stats()["embedded_inputs"] == 0

        await work(built, "index")
        assert [state for _, state in await chunk_states(built)] == ["indexed", "indexed"]


async def test_chunks_of_unserved_embedding_wait_and_are_reported(services, serving, settings, provider):
    async with serving() as built:
        async with client_of(built) as client:
            await client.put("/v1/collections/new", json={"embedding": "e5"})
            await upload(client, "new")
        await work(built, "parse")

    async with client_of(services) as client:
        await work(services, "index")
        status = (await client.get("/v1/status")).json()
        refused = await client.post("/v1/retrieve", json={"question": USER_QUESTION, "collection": "new"})
        assert await chunk_states(services) == [("e5", "parsed")]
        assert (status["dead"], status["unserved"]) == (0, [{"embedding_model": "e5", "chunks": 1}])
        assert refused.status_code == 409
        assert "No setting describes the embedding 'e5': name it in FOREASK_EMBEDDINGS" in refused.json()["detail"]


async def test_redefined_embedding_is_refused_for_existing_collections(serving, provider):
    async with serving() as built, client_of(built) as client:
        await client.put("/v1/collections/new", json={"embedding": "e5"})
        await upload(client, "new")
        await work(built, "parse")

    async with serving(query_prefix="ask: ") as changed, client_of(changed) as client:
        refused = await client.post("/v1/documents", json={"text": TEXT, "collection": "new"})
        assert refused.status_code == 409
        assert "had another model, size or prefix" in refused.json()["detail"]

        (chunk,) = await changed.ledger[IndexWork].claim(1, embeddings=["e5"])
        (failed,) = await index_batch(changed.indexers["e5"], [chunk])
        assert isinstance(failed, FailedAttempt)
        assert not failed.decision.burns_attempt
        assert failed.decision.after >= timedelta(minutes=1)


async def test_embedding_is_changeable_only_before_first_document(serving, provider):
    async with serving() as built, client_of(built) as client:
        assert (await client.put("/v1/collections/c", json={})).json()["embedding_model"] == "scripted-embedding"
        changed = await client.put("/v1/collections/c", json={"embedding": "e5", "chunk_max_chars": 500})
        assert (changed.status_code, changed.json()["embedding_model"]) == (200, "e5")
        unchanged = await client.put("/v1/collections/c", json={})
        assert unchanged.json()["embedding_model"] == "e5"

        unknown = await client.put("/v1/collections/c", json={"embedding": "e6"})
        assert unknown.status_code == 422
        assert (
            "There is no embedding 'e6'. The configured embeddings are: scripted-embedding, e5."
            in unknown.json()["detail"]
        )

        await upload(client, "c")
        again = await client.put("/v1/collections/c", json={"embedding": "e5"})
        other = await client.put("/v1/collections/c", json={"embedding": "scripted-embedding"})
        assert (again.status_code, other.status_code) == (200, 409)
        assert "migrate it" in other.json()["detail"]


async def test_slow_embedding_does_not_block_another_embedding(serving, other, provider, wakes):
    async with serving() as built, client_of(built) as client:
        small = {"chunk_max_chars": 200, "chunk_overlap_chars": 0}
        await client.put("/v1/collections/new", json={"embedding": "e5"} | small)
        slow = built.indexers["e5"]
        sections = [f"# Part {number}\n\n{TEXT * 3}" for number in range(2 * 32 * slow.slots)]
        await upload(client, "new", text="\n\n".join(sections))
        await upload(client, "default")
        await work(built, "parse")
        stage = IndexStage(built.indexers.values())

        wakes.clear()
        claimed = await stage.claim(stage.slots, {})
        assert embeddings_of(claimed) == ["scripted-embedding", *["e5"] * slow.slots]
        assert wakes == ["index"]  # another worker may help

        other.script.embedding_latency_seconds = 60
        working = [asyncio.create_task(stage.process(batch, lambda: None)) for batch in claimed[1:]]
        await upload(client, "default", "another")
        await work(built, "parse")
        again = await stage.claim(stage.slots, {})
        assert embeddings_of(again) == ["scripted-embedding"]

        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        await stage.release([lease for batch in [*claimed, *again] for lease in stage.leases_of(batch)])
        assert embeddings_of(await stage.claim(stage.slots, {})).count("e5") == slow.slots


async def test_uploads_precede_bulk_work_of_other_embedding(serving, provider):
    async with serving() as built, client_of(built) as client:
        small = {"chunk_max_chars": 200, "chunk_overlap_chars": 0}
        await client.put("/v1/collections/new", json={"embedding": "e5"} | small)
        await client.put("/v1/collections/default", json=small)
        slots = built.indexers["e5"].slots
        sections = [f"# Part {number}\n\n{TEXT * 3}" for number in range(3 * 32 * slots)]
        await upload(client, "new", text="\n\n".join(sections), lane="bulk")
        await upload(client, "default", text="\n\n".join(sections[: 40 * slots]))
        await work(built, "parse")
        stage = IndexStage(built.indexers.values())

        claimed = embeddings_of(await stage.claim(stage.slots, {}))
        assert (claimed.count("scripted-embedding"), claimed.count("e5")) == (slots, 1)
        while "scripted-embedding" in embeddings_of(await stage.claim(slots, {})):
            pass  # claims the remaining chunks of the uploads
        assert embeddings_of(await stage.claim(stage.slots, {})) == ["e5"] * slots


def embeddings_of(batches):
    names = [{chunk.embedding_model for chunk in batch} for batch in batches]
    assert all(len(of_batch) == 1 for of_batch in names)
    return [name for of_batch in names for name in of_batch]


async def test_limits_and_prices_apply_per_embedding(serving, provider):
    async with serving(requests_per_minute=77, price=2.0) as built, client_of(built) as client:
        await client.put("/v1/collections/new", json={"embedding": "e5"})
        await upload(client, "new")
        await work(built)
        for limiter in built.limiters.embeddings.values():
            assert await limiter._client.refresh(timeout_seconds=5)
        status = (await client.get("/v1/status")).json()

    limits = {limit["name"]: limit["per_minute"] for limit in status["limits"]}
    assert (limits["e5: embedding requests"], limits["scripted-embedding: embedding requests"]) == (77, None)
    (spent,) = status["usage"]
    assert (spent["model"], spent["cost"]) == ("e5", spent["prompt_tokens"] * 2 / 1_000_000)


async def test_calibration_claims_only_served_embeddings(services, serving, provider):
    async with serving() as built, client_of(built) as client:
        for name, change in (("default", {}), ("new", {"embedding": "e5"})):
            await client.put(f"/v1/collections/{name}", json=change)
    async with services.database.begin() as connection:
        older = "now() - interval '1 day' * (2 - (name = 'default')::int)"
        await connection.execute(Statement(f"UPDATE collections SET calibration_due_at = {older}"))

    claim = partial(services.ledger[Calibrations].claim, every=timedelta(hours=1), lease=timedelta())
    assert await claim(["another"]) is None
    claimed = await claim(["scripted-embedding"])  # although the other collection has waited longer
    assert claimed.collection.name == "default"
