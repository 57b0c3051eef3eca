"""The wanted numbers of workers are computed from the ledger and the shared limits, then stored and exported."""

from dataclasses import replace

import pytest
from pydantic import SecretStr

from features.all import FEATURES
from shared.domain.errors import Unavailable
from shared.domain.spending.budgets import BudgetUnit, NewBudget, Period, SetBy
from shared.domain.spending.rates import Rates
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.work.demand import Demand
from shared.maintenance.wanted import WantedWorkers
from shared.process.telemetry import metrics
from shared.services import build
from shared.settings import ApiKey
from tests.conftest import Library
from tests.integration.test_interleavings import run
from tests.integration.test_ledger import parsed
from tests.support.api import calling, work
from workers.scheduler import count_wanted

# Copy the only chunk of a tenant; each copy has different content.
COPY = """
    INSERT INTO chunks (id, version, document_id, tenant, ordinal, content_key, embedding_model, lane, state)
    SELECT gen_random_uuid(), version, document_id, tenant, n, int4send(n), embedding_model, lane, state
    FROM chunks, generate_series(1, {copies}) n WHERE tenant = '{tenant}'"""


def limited(services, *, most=16, **changes):
    """Return the computation of wanted workers with other limits."""
    pool = replace(services.wanted._pool, most=most, **changes)
    return WantedWorkers(services.ledger[Demand], pool, services.wanted._usage)


@pytest.fixture(autouse=True)
async def unrecorded(services):
    """The row of the deployment outlives a test."""
    yield
    await run(services, "UPDATE deployment SET wanted = NULL")


async def to_generate(services, copies, tenant="default"):
    """Store chunks whose questions are missing."""
    await parsed(services, Library(services, tenant), "a text")
    await run(services, COPY.format(copies=copies - 1, tenant=tenant))
    await run(services, f"UPDATE chunks SET state = 'generating', due_at = now() WHERE tenant = '{tenant}'")


async def test_generate_workers_follow_queue_up_to_maximum(services):
    await to_generate(services, 641)

    assert (await limited(services).update())["generate"] == 11
    assert (await limited(services, most=5).update())["generate"] == 5
    await run(services, "UPDATE chunks SET leased_by = 'w', due_at = now() + interval '1 minute'")
    assert (await limited(services).update())["generate"] == 11  # rows in progress need their workers
    await run(services, "UPDATE chunks SET leased_by = NULL, due_at = now() + interval '1 minute'")
    assert (await limited(services).update())["generate"] == 1  # retried later


async def test_wanted_workers_return_to_minimum_with_empty_queue(services, provider):
    await to_generate(services, 130)
    assert (await services.wanted.update())["generate"] == 3

    await run(services, "DELETE FROM chunks")

    assert await services.wanted.update() == {"parse": 1, "generate": 1, "index": 1}


async def test_rate_limit_bounds_workers_regardless_of_queue(services, library, provider):
    await library.add("alpha beta")
    await work(services)  # calls are measured
    await to_generate(services, 641, "other")

    assert (await limited(services, rates=Rates(requests=600)).update())["generate"] == 1
    assert (await limited(services, rates=Rates(requests=10**9)).update())["generate"] == 11


async def test_broker_outage_keeps_measured_calls_and_counts_rows(services, settings, library, provider):
    await library.add("alpha beta")
    await work(services)  # calls are measured
    wanted = limited(services, rates=Rates(requests=600))
    await wanted.update()
    await to_generate(services, 641, "other")
    unreachable = settings.model_copy(update={"redis_url": SecretStr("redis://127.0.0.1:1")})

    async with build("scheduler", unreachable, FEATURES) as broken:
        wanted._usage = broken.wanted._usage
        with pytest.raises(Unavailable):
            await wanted._usage()
        assert (await wanted.update())["generate"] == 1  # the limit allows no more calls
        wanted._pool = replace(wanted._pool, rates=Rates(requests=10**9))
        assert (await wanted.update())["generate"] == 11
        assert (await broken.wanted.update())["generate"] == 11
    assert await services.ledger[Demand].wanted() == {"parse": 1, "generate": 11, "index": 1}


async def test_tenants_with_exhausted_budget_need_no_workers(services):
    await to_generate(services, 200, "poor")
    await to_generate(services, 65, "rich")

    wanted = limited(services)
    new = NewBudget("poor", None, None, Period.TOTAL, BudgetUnit.TOKENS, SetBy.TENANT, 10)
    await services.ledger[Budgets].set(new)
    await run(services, "UPDATE budgets SET spent = most")
    assert (await wanted.update())["generate"] == 2


async def test_chunks_of_exhausted_collection_need_no_workers(services):
    await to_generate(services, 641, "poor")
    wanted = limited(services)
    assert (await wanted.update())["generate"] == 11

    new = NewBudget("poor", "default", None, Period.TOTAL, BudgetUnit.TOKENS, SetBy.TENANT, 10)
    await services.ledger[Budgets].set(new)
    await run(services, "UPDATE budgets SET spent = most")
    assert (await wanted.update())["generate"] == 1

    await to_generate(services, 65, "rich")
    assert (await wanted.update())["generate"] == 2


async def test_nearly_exhausted_budget_needs_workers_for_its_calls(services):
    await to_generate(services, 641, "poor")
    new = NewBudget("poor", None, None, Period.TOTAL, BudgetUnit.TOKENS, SetBy.TENANT, 65 * 2_000)
    await services.ledger[Budgets].set(new)
    await run(services, "UPDATE budgets SET needs = 2000")

    assert (await limited(services).update())["generate"] == 2


async def test_parse_workers_follow_due_documents_and_their_time(services, library):
    for number in range(17):
        await library.add(f"text {number}")
    wanted = limited(services, slots={**services.wanted._pool.slots, "parse": 2})
    wanted._means["parse"].seconds = 15.0

    assert (await wanted.update())["parse"] == 3  # 17 * 15 s / 60 s / 2


async def test_index_workers_ignore_unserved_embeddings(services, library):
    for number in range(5):
        await parsed(services, library, f"text {number}")
    wanted = limited(services, slots={**services.wanted._pool.slots, "index": 1})
    wanted._means["index"].seconds = 30.0

    assert (await wanted.update())["index"] == 3
    other = limited(services, embeddings=["other"], slots=wanted._pool.slots)
    assert (await other.update())["index"] == 1


async def test_mean_time_is_measured_from_finished_rows(services, library, provider):
    for number in range(6):
        await library.add(f"text {number}", f"{number}.md")
    await work(services)
    finished = await services.ledger[Demand].finished_per_second()

    assert finished["parse"] == pytest.approx(6 / 60)
    assert finished["index"] >= 12 / 60  # each text, then its questions


async def test_wanted_workers_are_stored_exported_and_shown(services, settings):
    await to_generate(services, 65)
    await count_wanted(services)

    assert await run(services, "SELECT wanted->>'generate' FROM deployment") == [("2",)]
    assert metrics.REGISTRY.get_sample_value("foreask_workers_wanted", {"stage": "generate"}) == 2
    key = "operators-key-of-this-test-0123456789"
    operated = settings.model_copy(update={"operator_keys": (ApiKey.parse_operator(key),)})
    async with calling(operated, services) as client:
        status = await client.get("/v1/operator/status", headers={"authorization": f"Bearer {key}"})
    assert status.json()["workers_wanted"] == {"parse": 1, "generate": 2, "index": 1}


async def test_scheduler_without_model_counts_due_rows_only(services, settings):
    await to_generate(services, 65)
    async with build(
        "scheduler", settings.model_copy(update={"llm_model": None, "embedding_model": None}), FEATURES
    ) as bare:
        assert (await bare.wanted.update())["generate"] == 2
