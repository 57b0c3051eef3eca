"""Billed usage is counted once, regardless of the outcome of the attempt and its results."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from api.schemas.status import UsageReply
from shared.domain.errors import Unavailable
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Cost, Usage
from shared.ingest.index.stage import IndexStage, index_batch
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.attempt_costs import record
from shared.ledger.work.costs import Costs
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.indexing import IndexWork
from shared.ledger.work.leftovers import Leftovers
from tests.conftest import Library
from tests.support.api import calling, ready, searchable, work

KEEPER = "The lighthouse keeper lives alone on the northern cliff all the year round."
HARBOUR = "The harbour opens at nine and closes at noon, on Sundays too."


class InterruptedEmbedder:
    """An embedder whose requests after the first never finish, or fail while the first one is running."""

    def __init__(self, embedder, error=None):
        self.embedder = embedder
        self.error = error
        self.reached, self.billed = asyncio.Event(), asyncio.Event()

    @property
    def name(self):
        return self.embedder.name

    @property
    def prefixes(self):
        return self.embedder.prefixes

    async def dimensions(self):
        return await self.embedder.dimensions()

    async def embed(self, texts, billed):
        if self.reached.is_set():
            await self.billed.wait() if self.error is None else None
            if self.error is None:
                await asyncio.Event().wait()
            raise self.error
        self.reached.set()
        if self.error is not None:
            await asyncio.sleep(0.05)  # the other requests fail in this time
        vectors = await self.embedder.embed(texts, billed)
        self.billed.set()
        return vectors


async def spent(services, kind="generate", tenant="default"):
    """Return the numbers of calls, prompt tokens and completion tokens."""
    sums = [s for s in await services.ledger[Costs].sums(tenant) if s.kind == kind]
    usage = sum((s.usage for s in sums), Usage())
    return sum(s.calls for s in sums), usage.prompt_tokens, usage.completion_tokens


async def claimed(services):
    (chunk,) = (await services.ledger[GenerateWork].claim(1)).chunks
    return chunk


async def make_due(services):
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET due_at = now()"))


async def test_every_ingest_call_is_counted(services, library, provider):
    await library.add(KEEPER, "a.md")
    await library.add(HARBOUR, "b.md")
    await work(services)

    stats = provider.stats()
    calls, prompt_tokens, completion_tokens = await spent(services)
    assert calls == stats["calls"] == 2
    assert prompt_tokens > completion_tokens > 0
    embeddings, tokens, none = await spent(services, "embed")
    assert embeddings == stats["embeddings"]
    assert tokens > none == 0
    (generate_sum, embed_sum) = await services.ledger[Costs].sums("default")
    assert (generate_sum.collection, generate_sum.model) == ("default", services.generator.model.name)
    assert (embed_sum.collection, embed_sum.model) == ("default", services.indexer.embedder.name)


async def test_cost_of_late_generate_settlement_is_counted(services, provider, once):
    await once(searchable, (KEEPER, "a.md"))
    slow = await services.generator.process(await claimed(services))
    await make_due(services)
    quick = await services.generator.process(await claimed(services))

    await services.ledger[GenerateWork].settle([quick])
    await services.ledger[GenerateWork].settle([slow])

    assert (await spent(services))[0] == provider.stats()["calls"] == 2


async def test_cost_of_late_failure_is_counted(services, provider, once):
    await once(searchable, (KEEPER, "a.md"))
    provider.script(malformed_containing="lighthouse")
    slow = await services.generator.process(await claimed(services))
    await make_due(services)
    await claimed(services)

    await services.ledger[GenerateWork].settle([slow])

    assert (await spent(services))[0] == provider.stats()["calls"] == 3


@pytest.mark.parametrize("change", ["edit", "delete"])
async def test_call_of_deleted_chunk_is_charged(services, library, provider, change, once):
    (document,) = await once(searchable, (KEEPER, "a.md"))
    outcome = await services.generator.process(await claimed(services))
    if change == "edit":
        await library.add(HARBOUR, "a.md")
    else:
        await services.ledger[Documents].delete("default", document.id)

    await services.ledger[GenerateWork].settle([outcome])

    assert (await spent(services))[0] == provider.stats()["calls"] == 1


async def test_costs_of_superseded_versions_are_retained(services, library, provider):
    (document,) = await ready(services, (KEEPER, "a.md"))
    await library.add(HARBOUR, "a.md")
    await work(services)
    await services.ledger[Leftovers].purge_versions()
    assert (await spent(services))[0] == provider.stats()["calls"] == 2

    await services.ledger[Documents].delete("default", document.id)
    await services.cleaner.clean()
    assert (await spent(services))[0] == 2
    assert (await spent(services, "embed"))[0] == provider.stats()["embeddings"]


CACHE = {"prompt_tokens_details": {"cached_tokens": 11, "cache_write_tokens": 7}}


async def test_tier_and_cache_of_reply_are_booked(services, settings, library, provider):
    provider.script(reply_tier="flex", usage={"prompt_tokens": 100} | CACHE)
    await library.add(KEEPER, "a.md")
    await work(services)
    provider.script(reply_tier="priority")
    await library.add(HARBOUR, "b.md")
    await work(services)

    for _ in range(2):
        sums = [s for s in await services.ledger[Costs].sums("default") if s.kind == "generate"]
        assert [(s.tier, s.calls, s.usage.prompt_tokens) for s in sums] == [
            (Tier.STANDARD, 1, 100),
            (Tier.FLEX, 1, 100),
        ]
        assert {(s.usage.cached_tokens, s.usage.cache_write_tokens) for s in sums} == {(11, 7)}
        await services.ledger[Costs].fold()  # the second iteration reads the sums by day

    priced = settings.model_copy(update={"llm_input_price": 2.0, "llm_output_price": 0.0})
    async with calling(priced, services) as client:
        shown = UsageReply.model_validate_json((await client.get("/v1/usage")).content).items
        flex, standard = [item for item in shown if item.kind == "generate"]
        usage = [each for each in (await client.get("/v1/status")).json()["usage"] if each["kind"] == "generate"]
    assert (flex.tier, standard.tier) == ("flex", "standard")
    assert standard.cost == pytest.approx(2 * flex.cost)
    assert (flex.cached_tokens, flex.cache_write_tokens) == (11, 7)
    assert [(each["tier"], each["cached_tokens"], each["cost"]) for each in usage] == [
        ("standard", 11, standard.cost),
        ("flex", 11, flex.cost),
    ]


class TieredModel:
    """A model whose replies are of one tier after the other."""

    def __init__(self, model, *tiers):
        self.model = model
        self.tiers = list(tiers)

    @property
    def name(self):
        return self.model.name

    async def complete(self, request):
        return replace(await self.model.complete(request), tier=self.tiers.pop(0))


@pytest.mark.parametrize(
    ("tiers", "booked"),
    [((Tier.FLEX,) * 3, Tier.FLEX), ((Tier.FLEX, Tier.STANDARD, Tier.FLEX), Tier.STANDARD)],
)
async def test_replies_of_several_tiers_count_as_standard(services, provider, tiers, booked, once):
    await once(searchable, (KEEPER, "a.md"))
    provider.script(malformed_containing="lighthouse")
    generator = replace(services.generator, model=TieredModel(services.generator.model, *tiers))

    await services.ledger[GenerateWork].settle([await generator.process(await claimed(services))])

    assert [(s.tier, s.calls) for s in await services.ledger[Costs].sums("default") if s.kind == "generate"] == [
        (booked, 3)
    ]


async def test_later_record_of_attempt_replaces_its_tier(services, library):
    cost = await _cost(services, library, tier=Tier.FLEX)
    async with services.database.begin() as connection:
        await record(connection, [cost])
        await record(connection, [replace(cost, calls=2, usage=Usage(20, 2, 5, 1), tier=Tier.STANDARD)])
        await record(connection, [cost])  # a late repetition

    (found,) = await services.ledger[Costs].sums("default")
    assert (found.tier, found.calls, found.usage) == (Tier.STANDARD, 2, Usage(20, 2, 5, 1))


async def test_costs_of_jobs_are_summed_separately(services, library):
    job = uuid4()
    cost = await _cost(services, library)
    async with services.database.begin() as connection:
        await record(connection, [cost, replace(cost, token=2, job_id=job), replace(cost, token=3, job_id=job)])
    await services.ledger[Costs].fold()

    async with services.database.begin() as connection:
        rows = await connection.execute(Statement("SELECT job_id, calls FROM spent_by_day ORDER BY calls"))
        assert [tuple(row) for row in rows] == [(UUID(int=0), 1), (job, 2)]
    assert [s.calls for s in await services.ledger[Costs].sums("default")] == [3]


async def _cost(services, library, **more):
    document = await library.add(KEEPER, "a.md")
    async with services.database.begin() as connection:
        found = await connection.execute(Statement("SELECT collection_id FROM documents"))
        collection_id = found.scalar_one()
    return Cost(1, "default", collection_id, document.id, "generate", "m", Usage(10, 1, 4, 0), 1, **more)


async def test_cost_of_malformed_replies_is_counted(services, library, provider):
    provider.script(malformed_containing="lighthouse")
    await library.add(KEEPER, "a.md")
    await work(services)

    assert (await spent(services))[0] == provider.stats()["calls"] == 3


async def test_cost_of_repeated_settlement_is_counted_once(services, provider):
    await searchable(services, (KEEPER, "a.md"))
    outcome = await services.generator.process(await claimed(services))
    for _ in range(2):
        await services.ledger[GenerateWork].settle([outcome])
    outcomes = await index_batch(services.indexer, await services.ledger[IndexWork].claim(10))
    for _ in range(2):
        await IndexStage([services.indexer]).settle([outcomes])

    stats = provider.stats()
    assert (await spent(services))[:2] == (1, outcome.usage.prompt_tokens)
    assert (await spent(services, "embed"))[0] == stats["embeddings"]


async def test_cost_of_late_index_settlement_is_counted(services, library, provider):
    await library.add(KEEPER, "a.md")
    await work(services, "parse", "generate")
    slow = await index_batch(services.indexer, await services.ledger[IndexWork].claim(10))
    settled = await _settled(services, slow, late=True)

    await work(services, "index")

    assert settled > 0
    assert await spent(services, "embed") == (provider.stats()["embeddings"], 2 * settled, 0)


async def _settled(services, outcomes, *, late):
    """Settle indexing outcomes, optionally after their lease has expired; return the counted tokens."""
    if late:
        await make_due(services)
        lost = await services.ledger[IndexWork].claim(10)
        await services.ledger[IndexWork].release([chunk.lease for chunk in lost])
    await IndexStage([services.indexer]).settle([outcomes])
    return (await spent(services, "embed"))[1]


@pytest.fixture
def unbatched_indexer(services):
    """Return an indexer that makes one request per text."""
    return replace(services.indexer, request_inputs=1)


async def test_embeddings_of_released_batch_are_charged(services, library, provider, unbatched_indexer):
    await library.add(KEEPER, "a.md", questions=["Who lives alone?"])
    await work(services, "parse")
    interrupted = InterruptedEmbedder(services.indexer.embedder)
    stage = IndexStage([replace(unbatched_indexer, embedder=interrupted)])
    (batch,) = await stage.claim(1, {})
    running = asyncio.create_task(stage.process(batch, lambda: None))
    await interrupted.billed.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    await stage.release([chunk.lease for chunk in batch])

    assert (await spent(services, "embed"))[0] == provider.stats()["embeddings"] == 1


async def test_embeddings_next_to_failed_request_are_charged(services, library, provider, unbatched_indexer):
    await library.add(KEEPER, "a.md", questions=["Who lives alone?"])
    await work(services, "parse")
    unavailable = InterruptedEmbedder(services.indexer.embedder, Unavailable("unavailable", component="embedding"))
    indexer = replace(unbatched_indexer, embedder=unavailable)
    (chunk,) = await services.ledger[IndexWork].claim(10)

    (outcome,) = await index_batch(indexer, [chunk])
    await IndexStage([indexer]).settle([[outcome]])

    assert outcome.cost.calls == 1
    assert (await spent(services, "embed"))[0] == provider.stats()["embeddings"] == 1


async def test_tenants_see_only_their_own_costs(services, provider):
    await Library(services, "alice").add(KEEPER)
    await work(services)

    assert (await spent(services, tenant="alice"))[0] == 1
    assert await services.ledger[Costs].sums("bob") == []


async def test_shared_request_tokens_are_charged_to_each_tenant(services, provider):
    """One request embeds texts of both tenants; one of them is charged the call."""
    await Library(services, "alice").add(KEEPER)
    await Library(services, "bob").add(HARBOUR)
    await work(services, "parse")
    await work(services, "index")

    calls, tokens, _ = zip(*[await spent(services, "embed", tenant) for tenant in ("alice", "bob")], strict=True)
    assert sum(calls) == provider.stats()["embeddings"] == 1
    assert min(tokens) > 0


async def test_older_costs_are_summed_by_day(services, library, once):
    await once(ready, (KEEPER, "a.md"))
    before = await services.ledger[Costs].sums("default")
    assert not await services.ledger[Costs].fold()
    assert await services.ledger[Costs].sums("default") == before
    await _age_costs(services)
    await library.add(HARBOUR, "b.md")
    await work(services)

    assert await services.ledger[Costs].forget(timedelta(days=1))
    assert not await services.ledger[Costs].forget(timedelta(days=1))
    async with services.database.begin() as connection:
        young = (await connection.execute(Statement("SELECT kind FROM spent ORDER BY kind"))).scalars()
        days = (await connection.execute(Statement("SELECT kind, calls FROM spent_by_day ORDER BY kind"))).all()
    assert young == ["embed", "embed", "generate"]
    assert days == [(s.kind, s.calls) for s in reversed(before)]

    sums = await services.ledger[Costs].sums("default")
    await services.ledger[Costs].fold()
    assert await services.ledger[Costs].sums("default") == sums


async def _age_costs(services):
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE spent SET at = at - interval '25 hours'"))


async def test_long_attempts_do_not_delay_daily_sums(services):
    """The rows with the lowest tokens are recent, because their attempts started long ago."""
    async with services.database.begin() as connection:
        for token, age in enumerate((0, 30, 0, 30)):
            await connection.execute(
                Statement(
                    "INSERT INTO spent (token, tenant, collection_id, kind, model, prompt_tokens, completion_tokens,"
                    " calls, at)"
                    " VALUES (:token, 'default', :id, 'embed', 'm', 1, 0, 1, now() - CAST(:age AS interval))"
                ),
                {"token": token, "id": uuid4(), "age": timedelta(days=age)},
            )

    assert await services.ledger[Costs].forget(timedelta(days=1))
    assert not await services.ledger[Costs].forget(timedelta(days=1))


async def test_usage_is_shown_by_day_collection_and_model(services, settings, provider):
    priced = settings.model_copy(update={"llm_input_price": 2.0, "llm_output_price": 10.0})
    async with calling(settings, services) as client:
        for collection, content in (("cliffs", KEEPER), ("harbours", HARBOUR)):
            await client.post("/v1/documents", json={"text": content, "filename": "a.md", "collection": collection})
        await work(services)
        await services.ledger[Costs].fold()  # these costs are summed already, the next ones are not
        await client.post("/v1/documents", json={"text": "A cat.", "filename": "b.md", "collection": "cliffs"})
        await work(services)
    async with services.database.begin() as connection:
        await connection.execute_sql("UPDATE spent_by_day SET day = day - 2 WHERE kind = 'generate'")

    async with calling(priced, services) as client:

        async def usage(**parameters):
            items = UsageReply.model_validate_json((await client.get("/v1/usage", params=parameters)).content).items
            return [item for item in items if item.kind == "generate"]

        before, today = await usage()
        assert (before.calls, today.calls, today.day - before.day) == (2, 1, timedelta(days=2))
        assert today.cost == pytest.approx((2 * today.prompt_tokens + 10 * today.completion_tokens) / 1e6)
        assert await usage(days=2) == [today]
        assert [(item.collection, item.calls) for item in await usage(by="collection")] == [
            ("cliffs", 2),
            ("harbours", 1),
        ]
        (model,) = await usage(by="model")
        assert (model.model, model.calls, model.unpriced_calls) == (settings.llm_model, 3, 0)
        every = UsageReply.model_validate_json((await client.get("/v1/usage?by=model")).content).items
        (embedding,) = [item for item in every if item.kind == "embed"]
        assert (embedding.cost, embedding.unpriced_calls) == (None, embedding.calls)
