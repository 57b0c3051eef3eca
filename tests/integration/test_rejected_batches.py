"""Batches that the provider rejects as a whole: guilty lines fail alone, and each other line is paid for once."""

import asyncio
from dataclasses import replace
from math import ceil, log2

import pytest

from features.erasure.ledger.erasures import Erasures
from shared.domain.stages.batches import Unanswered
from shared.domain.states import DocumentState
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.batches import Batches
from shared.ledger.work.shown_batches import ShownBatches
from tests.integration.test_batch_budgets import PLENTY, unpolled
from tests.integration.test_batch_lane import (
    BATCH,
    BULK,
    HOUR,
    TERMS,
    _in_lane,
    billed,
    chunks,
    lane,
    rows,
    spent,
    states,
    unprobed,
    until,
    work_on,
)
from tests.integration.test_budgets import amounts, set_budget
from tests.integration.test_ledger import index_texts, parsed
from tests.support.api import work
from tests.support.planted import guards
from tests.support.scenario import section, text_of
from tests.support.waiting import eventually

__all__ = ["lane", "unprobed"]

POISON = "number 3 "
LOCK = Statement("SELECT id FROM batches WHERE id = :id FOR UPDATE")
BLOCKED = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
OF_TENANT = "FROM batches WHERE tenant IS NOT NULL ORDER BY lines DESC, state"


async def prepared(services, library, count, words="number"):
    """Add a document whose texts are searchable, and whose questions are due in the batch lane."""
    texts = (f"The lighthouse of {words} {number} stands on the northern cliff." for number in range(count))
    await parsed(services, library, *texts, lane=BATCH)
    await index_texts(services)


async def planned(services, columns="state, lines"):
    return await rows(services, f"SELECT {columns} {OF_TENANT}")


async def blocked(services, transactions):
    return len(await rows(services, BLOCKED)) == transactions


async def settled(services, lane):
    """Work on batches until each chunk has its questions, has failed, or is left to live calls."""

    async def ended():
        await work_on(lane)
        left = await rows(services, "SELECT 1 FROM batches WHERE ended_at IS NULL")
        waiting = await rows(services, "SELECT 1 FROM batch_lines")
        return not (left or waiting or await services.ledger[Batches].due())

    await eventually(ended)


@guards(
    "shared/ingest/batches/rejections.py",
    "if _are_reasons(named, lines) else ()",
    "if not _are_reasons(named, lines) else ()",
    means="a named line stays in its batch",
)
async def test_named_line_fails_and_others_are_asked_together(services, library, provider, lane):
    provider.batch_script(rejected_containing=POISON)
    await prepared(services, library, 4)
    await settled(services, lane)
    await work(services, "index")

    dead = [chunk.error for chunk in await chunks(services, "state, error") if chunk.error]
    assert await planned(services) == [("failed", 4), ("done", 3)]
    assert len(dead) == 1
    assert "answered 400" in dead[0]
    assert await states(services) == {DocumentState.DEGRADED}
    assert provider.batch_stats("number")["lines"] == 3
    assert provider.stats()["calls"] == 0
    assert await spent(services) == billed(provider)


async def test_lines_named_one_by_one_fail_alone(services, library, provider, lane):
    provider.batch_script(rejected_containing="odd", names="first")
    await prepared(services, library, 2)
    await prepared(services, library, 2, words="odd number")
    await settled(services, lane)
    await work(services, "index")

    stats = provider.batch_stats("number")
    assert await planned(services) == [("failed", 4), ("failed", 3), ("done", 2)]
    assert [bool(chunk.error) for chunk in await chunks(services, "error")].count(True) == 2
    assert (stats["lines"], stats["lines_twice"]) == (2, 0)
    assert await spent(services) == billed(provider)


async def test_unnamed_poisonous_line_is_isolated_by_halving(services, library, provider, lane):
    provider.batch_script(rejected_containing="number417 item", names="none")
    await library.add(text_of("number", [section(f"number{n:03}") for n in range(600)]), "a.md", lane=BATCH)
    await work(services, "parse", "index")
    assert len(await chunks(services)) == 600
    await settled(services, lane)
    failed = [batch.lines for batch in await planned(services) if batch.state == "failed"]
    await work(services, "generate", "index")

    stats = provider.batch_stats("number")
    assert await states(services) == {DocumentState.READY}
    assert failed == sorted(failed, reverse=True)
    assert failed[-1] == 1
    assert len(failed) <= 1 + ceil(log2(600))
    assert (stats["lines"], stats["lines_twice"], stats["second_batches"]) == (599, 0, 0)
    assert provider.stats()["calls"] == 1
    assert await spent(services) == billed(provider)


async def test_rejected_batch_below_minimum_is_generated_live(services, library, provider, lane):
    provider.batch_script(rejected_containing=POISON, names="none")
    await prepared(services, library, 4)
    await settled(services, replace(lane, terms=replace(TERMS, min_lines=3)))

    assert await planned(services, "state, lines, settled") == [("failed", 4, 4), ("done", 2, 2), ("failed", 2, 2)]
    assert sorted((chunk.lane, chunk.state) for chunk in await chunks(services)) == (
        [(BULK, "generating")] * 2 + [(BATCH, "generated")] * 2
    )
    assert provider.batch_stats("number")["lines"] == 2


@guards(
    "shared/ingest/batches/lane.py",
    'known.input_file_id in ("", batch.file_id) and not batch.settled',
    "not batch.settled",
    means="the numbers of another file make lines fail",
)
async def test_numbers_of_another_file_name_no_line(services, library, provider, lane):
    provider.batch_script(rejected_containing=POISON)
    await prepared(services, library, 4)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    await rows(services, "UPDATE batches SET file_id = 'another', due_at = now() WHERE state = 'running'")
    await settled(services, lane)

    assert await planned(services) == [("failed", 4), ("done", 2), ("failed", 2), ("done", 1)]


@guards(
    "shared/ingest/batches/lane.py",
    " or isinstance(rejection, Transient)",
    "",
    means="an error of the account divides a batch",
)
@pytest.mark.parametrize("code", ["billing_hard_limit_reached", "model_not_found"])
async def test_rejection_of_account_divides_no_batch(services, library, provider, lane, code):
    error = {"code": code, "message": "for org-x with key sk-abc", "line": None, "param": None}
    provider.batch_script(ends="failed", errors=[error])
    await prepared(services, library, 4)
    await eventually(lambda: _in_lane(services, lane, BULK))

    sentence = f'the provider rejected the batch ({code}); it says "for *** with key ***"'
    assert await planned(services, "lines, error") == [(4, sentence)] * 2


async def test_rejection_without_reason_ends_in_live_calls(services, library, provider, lane):
    provider.batch_script(ends="failed")
    await prepared(services, library, 2)
    await settled(services, lane)

    assert [batch.lines for batch in await planned(services)] == [2, 1, 1]
    assert await chunks(services) == [(BULK, "generating", 0, False)] * 2


@guards(
    "shared/providers/batches.py",
    'return self.status == "failed" and not (',
    'return self.status == "failed" or not (',
    means="the results of a batch that broke are paid for again",
)
async def test_batch_that_breaks_keeps_its_results(services, library, provider, lane):
    provider.batch_script(ends="broken", done_share=0.5)
    await prepared(services, library, 4)
    await settled(services, lane)
    await work(services, "generate")

    stats = provider.batch_stats("number")
    assert await planned(services) == [("done", 4), ("done", 2)]
    assert (stats["lines"], stats["lines_twice"], provider.stats()["calls"]) == (3, 0, 1)
    assert await spent(services) == billed(provider)


async def test_batch_without_its_results_costs_its_reservation(services, library, provider, lane):
    await set_budget(services, PLENTY)
    provider.batch_script(ends="broken", hides_files=True)
    await prepared(services, library, 2)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    _, held = await amounts(services)
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'running'")
    await until(services, unpolled(lane), "error IS NOT NULL", "failed")

    spent_amount, _ = await amounts(services)
    assert spent_amount == held


@guards(
    "shared/ingest/batches/lane.py",
    "await self.batches.renew_leases(batch)",
    "pass",
    means="the leases of lines end while their batches are divided",
)
async def test_division_keeps_reservations_and_renews_leases(services, library, provider, lane):
    await set_budget(services, PLENTY)
    provider.batch_script(rejected_containing=POISON, names="none")
    await prepared(services, library, 4)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    _, held = await amounts(services)
    await rows(services, "UPDATE chunks SET due_at = now() + interval '1 minute' WHERE leased_by LIKE 'batch:%'")
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'running'")
    await until(services, unpolled(lane), "root_id IS NOT NULL", "running")
    divided = await amounts(services)
    due = await rows(services, "SELECT DISTINCT due_at > now() + interval '6 days' AS later FROM chunks")
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'running'")
    await settled(services, lane)
    await work(services, "generate")

    assert divided == (0, held)
    assert due == [(True,)]
    assert await amounts(services) == (await billed_tokens(services), 0)
    assert provider.batch_stats("number")["lines"] == 3


async def billed_tokens(services):
    prompt, completion, _ = await spent(services)
    return prompt + completion


@guards(
    "features/erasure/ledger/erasures.py",
    '    await connection.execute(SQL.lock_batches, {"tenant": parameters["tenant"]})\n',
    "",
    means="an erasure misses the parts of a batch that is being divided",
)
async def test_erasure_during_division_cancels_parts(services, library, provider, lane):
    await prepared(services, library, 4)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    (batch,) = await planned(services, "id")
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'running'")
    claimed = await services.ledger[Batches].claim(lane.provider)
    async with asyncio.TaskGroup() as group, services.database.begin() as dividing:
        await dividing.execute(LOCK, {"id": batch.id})
        group.create_task(services.ledger[Batches].divide(claimed, [], 2))
        await eventually(lambda: blocked(services, 1))
        group.create_task(services.ledger[Erasures].start("default", "default"))
        await eventually(lambda: blocked(services, 2))

    assert await planned(services, "state, lines, cancelled_at IS NOT NULL") == [
        ("running", 4, True),
        ("planned", 2, True),
    ]


@guards(
    "shared/ledger/work/batches.sql",
    "b.job_ids, b.cancelled_at\n",
    "b.job_ids, NULL\n",
    means="the parts of a cancelled batch are sent",
)
async def test_cancellation_before_division_reaches_parts(services, library, provider, lane):
    await prepared(services, library, 4)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    (batch,) = await planned(services, "id")
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'running'")
    claimed = await services.ledger[Batches].claim(lane.provider)
    await services.ledger[ShownBatches].cancel("default", batch.id, Unanswered.LATER)
    assert await services.ledger[Batches].divide(claimed, [], 2)

    assert await planned(services, "state, lines, cancelled_at IS NOT NULL") == [
        ("running", 4, True),
        ("planned", 2, True),
    ]


@guards(
    "shared/ingest/batches/lane.py",
    " and not batch.settled",
    "",
    means="numbers count the lines that a killed division has left",
)
async def test_killed_division_is_continued(services, library, provider, lane):
    provider.batch_script(rejected_containing=POISON)
    await prepared(services, library, 4)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'running'")
    claimed = await services.ledger[Batches].claim(lane.provider)
    await services.ledger[Batches].divide(claimed, [], 2)  # from now on, the provider's numbers name other lines
    await rows(services, "UPDATE batches SET due_at = now() WHERE state = 'running'")
    await settled(services, lane)

    first, *_ = await planned(services, "state, lines, settled")
    assert first == ("failed", 4, 4)
    assert [bool(chunk.error) for chunk in await chunks(services, "error")].count(True) == 1
    assert provider.batch_stats("number")["lines"] == 3
    assert provider.stats()["calls"] == 0


async def test_cancelled_batch_is_not_divided(services, library, provider, lane):
    provider.batch_script(rejected_containing=POISON, names="none")
    await prepared(services, library, 4)
    await until(services, unpolled(lane), "tenant IS NOT NULL", "running")
    await rows(services, "UPDATE batches SET due_at = now(), cancelled_at = now() WHERE state = 'running'")
    await until(services, replace(lane, terms=replace(TERMS, wait=HOUR)), "tenant IS NOT NULL", "planning", "failed")

    assert await rows(services, "SELECT 1 FROM batches WHERE root_id IS NOT NULL") == []
    assert {chunk.attempts for chunk in await chunks(services)} == {0}
