"""Budgets of lines of batches: a line reserves as much as a live call, until its batch is collected."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.domain.states import DocumentState
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.documents.documents import Documents
from shared.ledger.work.batches import Batches
from tests.integration.test_batch_lane import (
    BATCH,
    HOUR,
    TERMS,
    _all_generated,
    lane,
    loaded,
    prepared,
    rows,
    unprobed,
    until,
    work_on,
)
from tests.integration.test_batch_lane import chunks as chunks_of
from tests.integration.test_budgets import amounts, billed, set_budget
from tests.support.api import work
from tests.support.waiting import eventually

__all__ = ["lane", "loaded", "unprobed"]

PLENTY = 1_000_000


def waiting(lane):
    """Return the lane with a long wait: its batches stay in planning."""
    return replace(lane, terms=replace(TERMS, wait=HOUR))


def unpolled(lane):
    """Return the lane with a long pause between polls: its batches stay at the provider."""
    return replace(lane, terms=replace(TERMS, poll=HOUR))


async def is_idle(services, lane):
    """Work on batches, and return whether none is due and no chunk waits for one."""
    await work_on(lane)
    return not await services.ledger[Batches].due()


async def test_line_reserves_until_its_bill(services, loaded):
    await set_budget(services, PLENTY)
    await until(services, waiting(loaded), "tenant IS NOT NULL", "planning")
    planned = await amounts(services)
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'planning'")
    await until(services, unpolled(loaded), "tenant IS NOT NULL", "running")
    running = await amounts(services)
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'running'")
    await until(services, loaded)

    assert planned == running
    assert planned[0] == 0
    assert planned[1] > 3 * 1_800
    assert await amounts(services) == (await billed(services), 0)
    assert await billed(services) > 0


async def test_lines_that_fit_are_planned_and_others_wait(services, library, provider, lane):
    budget = await set_budget(services, PLENTY)
    await prepared(services, library, 1)
    await until(services, waiting(lane), "tenant IS NOT NULL", "planning")
    _, one = await amounts(services)
    await services.ledger[Budgets].delete("default", budget.id, budget.set_by)
    await set_budget(services, 2 * one + one // 2)
    await prepared(services, library, 5, first=1)
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'planning'")
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    _, held = await amounts(services)
    lines = await rows(services, "SELECT count(*) FROM batch_lines")
    released = [chunk for chunk in await chunks_of(services) if not chunk.leased]

    assert lines == [(3,)]  # the first one was planned before the budget was set
    assert 0 < held <= 2 * one + one // 2
    assert [(chunk.lane, chunk.attempts) for chunk in released] == [(BATCH, 0)] * 3
    assert not await services.ledger[Batches].due()


async def test_exhausted_budget_starts_no_batch_until_raised(services, provider, loaded):
    await set_budget(services, 10)
    await eventually(lambda: is_idle(services, loaded))
    tried = await rows(services, "SELECT lines FROM batches WHERE tenant IS NOT NULL")
    states = {document.state for document in await services.ledger[Documents].page("default")}

    await set_budget(services, PLENTY)
    await eventually(lambda: _all_generated(services, loaded))

    assert set(tried) <= {(0,)}
    assert states == {DocumentState.SEARCHABLE}
    assert provider.batch_stats("number")["lines"] == 3
    assert await amounts(services) == (await billed(services), 0)


async def test_exhausted_collection_starts_no_batches(services, loaded):
    await set_budget(services, 10, collection="default")
    await eventually(lambda: is_idle(services, loaded))

    assert await rows(services, "SELECT DISTINCT lines FROM batches WHERE tenant IS NOT NULL") in ([], [(0,)])
    assert await amounts(services) == (0, 0)


async def test_dropped_line_releases_its_reservation(services, provider, loaded):
    await set_budget(services, PLENTY)
    await until(services, waiting(loaded), "tenant IS NOT NULL", "planning")
    document = (await services.ledger[Documents].page("default"))[0]
    await services.ledger[Documents].delete("default", document.id)
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'planning'")
    await until(services, loaded)

    assert provider.batch_stats("number")["lines"] == 2
    assert await amounts(services) == (await billed(services), 0)


async def test_yielded_line_is_billed_a_day_later(services, library, provider, lane):
    await set_budget(services, PLENTY)
    provider.batch_script(running_seconds=3600)
    await prepared(services, library, 1)
    await until(services, lane, "tenant IS NOT NULL", "running")
    _, held = await amounts(services)
    await library.add("The lighthouse of number 0 stands on the northern cliff.", "upload", lane=0)
    await work(services, "parse", "index")
    await services.ledger[Batches].yield_to_uploads()
    await services.ledger[Budgets].book_lost()
    yielded = await amounts(services)
    await work(services, "generate")
    provider.batch_script(running_seconds=0)
    await until(services, lane)

    assert yielded == (0, held)
    assert provider.stats()["calls"] == 1
    assert await amounts(services) == (await billed(services), 0)


async def test_unknown_results_cost_their_reservation(services, provider, loaded):
    await set_budget(services, PLENTY)
    await until(services, unpolled(loaded), "tenant IS NOT NULL", "running")
    _, held = await amounts(services)
    old = "UPDATE batches SET provider = 'elsewhere', due_at = now(), created_at = now() - CAST(:age AS interval)"
    await rows(services, f"{old} WHERE tenant IS NOT NULL", age=timedelta(days=8))
    await work_on(replace(loaded, terms=replace(TERMS, enabled=False)))

    assert await amounts(services) == (held, 0)


@pytest.mark.parametrize("fault", ["share_expired", "share_missing"])
async def test_unfinished_lines_cost_nothing(services, provider, loaded, fault):
    await set_budget(services, PLENTY)
    provider.batch_script(**{fault: 1})
    await until(services, loaded)

    assert await billed(services) == 0
    assert await amounts(services) == (0, 0)
