"""The service tier flex: calls that are refused for lack of capacity cost nothing and hinder nothing else."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from features.all import FEATURES
from shared.domain.errors import TimedOut
from shared.domain.spending.tiers import Tier
from shared.ingest.drain import Drain, DrainLimits
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.costs import Costs
from shared.ledger.work.generation import GenerateWork
from shared.providers.chat import OpenAIChat
from shared.providers.limiter.limited_chat import NEUTRAL, LimitedChat
from shared.providers.limiter.limiter import QUERY
from shared.providers.limiter.usage import usage_of
from shared.providers.provider import Provider
from shared.services import build
from tests.support.api import calling, work
from tests.support.clock import ManualClock
from tests.support.elapsed import age_rows
from tests.support.waiting import TIMEOUT_SECONDS, eventually

DOCUMENTS = 60


@pytest.fixture
def flexible(services):
    """Return a function that returns the services with an ingest in the tier flex."""

    def make(**more):
        chat = services.generator.model.in_tier(Tier.FLEX)
        return replace(services, generator=replace(services.generator, flex=chat, **more))

    return make


async def add_all(services, library, documents=DOCUMENTS):
    for number in range(documents):
        await library.add(f"Ship number {number} sails on day {number} of the month of May.", f"{number}.md")
    await work(services, "parse", "index")


async def one(services, statement):
    async with services.database.begin() as connection:
        return (await connection.execute(Statement(statement))).one()


async def generate_due(services):
    """Generate the due questions; return how many chunks still need them. Delayed chunks become due."""
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE chunks SET due_at = now() WHERE leased_by IS NULL"))
    await work(services, "generate")
    (left,) = await one(services, "SELECT count(*) FROM chunks WHERE state = 'generating'")
    return left


async def until_flex_pauses(services, documents):
    """Generate without success until all flex calls have been refused for a while."""

    async def pauses():
        assert await generate_due(services) == documents
        (use, *_) = await usage_of(services.limiters.llm, "default")
        return use.flex_pause > timedelta(0)

    await eventually(pauses)


async def booked(services):
    return {s.tier: s.calls for s in await services.ledger[Costs].sums("default") if s.kind == "generate"}


async def test_refused_flex_calls_are_repeated_without_attempts(services, library, provider, flexible):
    provider.script(share_no_capacity=0.3)
    await add_all(services, library)

    await eventually(lambda: all_generated(flexible()), "chunks were not generated")

    stats = provider.stats()
    assert (stats["statuses"]["200"], stats["paid_twice"]) == (DOCUMENTS, 0)
    assert stats["statuses"]["429"] > 0
    counted, refusals = await one(
        services,
        "SELECT max((h ->> 'attempt')::int), max(jsonb_array_length(history))"
        " FROM chunks CROSS JOIN jsonb_array_elements(history) h",
    )
    assert (counted, refusals > 1) == (1, True)  # each refusal was before the first attempt
    assert (await one(services, "SELECT count(*) FROM chunks WHERE error IS NOT NULL")) == (0,)
    (use, *_) = await usage_of(services.limiters.llm, "default")
    assert (use.breaker, use.cooldown, use.in_flight_lowered) == ("closed", timedelta(0), False)
    assert await booked(services) == {Tier.FLEX: DOCUMENTS}


async def test_only_generated_questions_wake_index(services, library, provider, flexible, wakes):
    await add_all(services, library, 3)
    wakes.clear()

    provider.script(share_no_capacity=1.0)
    assert await generate_due(flexible()) == 3
    assert "index" not in wakes

    provider.script(share_no_capacity=0.0)
    await eventually(lambda: all_generated(flexible()))
    assert "index" in wakes


async def all_generated(services):
    return not await generate_due(services)


async def test_query_is_answered_while_flex_is_refused(services, library, provider, flexible):
    provider.script(share_no_capacity=1.0)
    await add_all(services, library, 20)
    await until_flex_pauses(flexible(), 20)
    chat = LimitedChat(services.generator.model, services.limiters.llm, "default", QUERY)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert (await chat.complete(NEUTRAL)).text
    assert await booked(services) == {}


async def test_running_job_names_missing_flex_capacity(services, settings, client, provider, flexible):
    job = (await client.post("/v1/jobs", json={"kind": "load"})).json()["id"]
    body = {"text": "Ships sail in May.", "job": job}
    assert (await client.post("/v1/documents", json=body)).status_code == 202
    await work(services, "parse", "index")
    provider.script(share_no_capacity=1.0)
    await until_flex_pauses(flexible(), 1)

    async def reasons(**changes):
        async with calling(settings.model_copy(update=changes), services) as other:
            shown = (await other.get(f"/v1/jobs/{job}")).json()
        return shown["pause_reason"], shown["message"]

    async def is_paused():
        await generate_due(flexible())
        return (await reasons(llm_tier="flex"))[0] == "provider"

    await eventually(is_paused)
    (use, *_) = await usage_of(services.limiters.llm, "default")
    assert use.flex_limit == 1  # one worker is enough for calls that wait for capacity
    assert await reasons() == (None, None)  # the standard tier
    assert (await reasons(llm_tier="flex", llm_flex_wait=timedelta(microseconds=1)))[0] is None


async def test_refused_flex_falls_back_only_if_set(services, library, provider, flexible):
    provider.script(share_no_capacity=1.0)
    await add_all(services, library, 20)
    await until_flex_pauses(flexible(), 20)
    assert await generate_due(flexible()) == 20

    async def falls_back():
        return not await generate_due(flexible(flex_wait=timedelta(seconds=0.5)))

    await eventually(falls_back, "the standard tier was not used")

    assert await booked(services) == {Tier.STANDARD: 20}
    assert (await one(services, "SELECT sum(attempts) FROM chunks")) == (0,)


async def test_unsupported_tier_kills_no_chunk(services, library, provider, flexible):
    provider.script(refuses_tier=True)
    await add_all(services, library, 3)
    assert await generate_due(flexible()) == 3

    attempts, error = await one(services, "SELECT sum(attempts), max(error) FROM chunks")
    assert attempts == 0
    assert "set FOREASK_LLM_TIER=standard" in error
    assert await generate_due(services) == 0
    assert (await one(services, "SELECT count(*) FROM chunks WHERE state = 'dead'")) == (0,)


async def test_change_of_tier_pays_no_content_again(services, library, provider, flexible):
    await add_all(services, library)
    await generate_due(services)
    calls = provider.stats()["calls"]

    for number in range(DOCUMENTS):  # content is paid in the standard tier, and needed in the tier flex
        await library.add(f"Ship number {number} sails on day {number} of the month of May.", f"{number}-again.md")
    await work(services, "parse", "index")
    await generate_due(flexible())

    assert provider.stats()["calls"] == calls == DOCUMENTS
    assert provider.stats()["bills"].keys() == {"default"}


async def test_call_longer_than_many_leases_is_paid_once(services, library, provider, flexible):
    await add_all(services, library, 1)
    provider.script(held=True)
    lease = timedelta(seconds=TIMEOUT_SECONDS)
    worker = GenerateWork(services.database, worker="slow", lease=lease)
    stage = replace(flexible().generator, work=worker)
    # Leases are extended every 0.1 s. The drain's clock does not move, because a busy machine may be late.
    limits = DrainLimits(lease=timedelta(seconds=0.3), budget=lease, grace=lease)
    draining = asyncio.create_task(Drain(stage, limits, asyncio.Event(), now=ManualClock()).run())
    await eventually(lambda: provider.stats()["in_flight"] or draining.done())

    async def is_extended():
        assert not draining.done(), f"the drain has ended: {draining}"
        return (await one(services, f"SELECT due_at > now() + interval '{lease / 2}' FROM chunks"))[0]

    for _ in range(4):  # together three leases
        await age_rows(services.database, "chunks.due_at", 0.75 * lease)
        await eventually(is_extended, "the lease was not extended during the call")
    provider.script(held=False)
    await draining

    assert provider.stats()["calls"] == 1
    assert await booked(services) == {Tier.FLEX: 1}
    assert (await one(services, "SELECT state, lost_leases FROM chunks")) == ("generated", 0)
    assert provider.stats()["bodies"][-1]["service_tier"] == "flex"


async def test_flex_call_may_take_longer_than_timeout(provider):
    provider.script(latency_seconds=0.4)
    connection = Provider(component="llm", base_url=provider.url, api_key=None, timeout=timedelta(seconds=0.2))
    standard = OpenAIChat(connection, "scripted")

    with pytest.raises(TimedOut):
        await standard.complete(NEUTRAL)
    assert (await standard.in_tier(Tier.FLEX).complete(NEUTRAL)).tier is Tier.FLEX
    await connection.aclose()


@pytest.mark.parametrize(("tier", "sent"), [("standard", {}), ("flex", {"service_tier": "flex"})])
async def test_setting_decides_tier_of_ingest_alone(settings, provider, tier, sent):
    changed = settings.model_copy(update={"llm_tier": tier, "llm_flex_wait": timedelta(hours=1)})
    async with build("all", changed, FEATURES) as services:
        model, _ = services.generator.model_now()
        for chat in (model, LimitedChat(services.generator.model, services.limiters.llm, "default", QUERY)):
            await chat.complete(NEUTRAL)
        assert services.generator.flex_wait == timedelta(hours=1)

    of_ingest, of_query = provider.stats()["bodies"]
    assert {name: of_ingest[name] for name in of_ingest if name not in of_query} == sent
    assert "service_tier" not in of_query
