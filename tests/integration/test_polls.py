"""Each step of the scheduler runs when it has work, and an idle deployment runs none of them."""

import pytest

from features.all import FEATURES
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.polls import SQL, Poll
from shared.services import build
from tests.integration.test_interleavings import run
from tests.support.api import work
from tests.support.planted import guards
from workers.scheduler import steps_of

ID = "'00000000-0000-0000-0000-000000000001'"
JOB = f"""INSERT INTO jobs (id, tenant, number, collection, collection_id, kind, state)
          VALUES ({ID}, 'default', 1, 'docs', {ID}, 'load', 'running')"""
SOURCE = f"""INSERT INTO sources
             (id, tenant, collection, name, kind, uri, time_zone, max_delete_share, next_at, removed_at)
             VALUES ({ID}, 'default', 'docs', 'a', 'folder', 'file:///a', 'UTC', 1, now(), now())"""
BUDGET = f"""INSERT INTO budgets (id, tenant, period, unit, set_by, most, spent, period_start)
             VALUES ({ID}, 'default', 'day', 'tokens', 'operator', 9, 0, '2026-01-01')"""
BATCH = f"""INSERT INTO batches (id, provider, model, state, due_at, tenant)
            VALUES ({ID}, 'p', 'm', 'planning', now(), 'default')"""
WEBHOOK = f"INSERT INTO webhooks (id, tenant, url, secret, events) VALUES ({ID}, 'default', 'http://a', 's', '{{}}')"
CHANGES = {
    "sweep": [
        f"""INSERT INTO sweeps (collection_id, tenant, index_name, document_id, obsolete_version, below_version, due_at)
            SELECT id, tenant, index_name, {ID}, 1, 2, now() FROM collections"""
    ],
    "describe": ["UPDATE documents SET description_due_at = now()"],
    "purge": ["UPDATE document_versions SET obsolete = true"],
    "delete": ["UPDATE documents SET state = 'deleting', due_at = now()"],
    "drop": ["UPDATE collections SET build_state = 'dropping'"],
    "outdate": ["INSERT INTO outdated_objects (name, tenant) VALUES ('a', 'default')"],
    "reindex": ["UPDATE collections SET reindexed_until = ''"],
    "jobs": [JOB],
    "fill": ["UPDATE collections SET build_state = 'filling'"],
    "yield_batches": [
        BATCH,
        f"""INSERT INTO batch_lines
            (token, batch_id, chunk_id, version, document_id, collection_id, content_key, questions)
            VALUES (1, {ID}, {ID}, 1, {ID}, {ID}, '', 1)""",
    ],
    "book_lost_calls": [
        BUDGET,
        f"INSERT INTO budget_holds (token, budget_id, chunk_id, version, held) VALUES (1, {ID}, {ID}, 1, 5)",
    ],
    "wake_calibrations": ["UPDATE collections SET calibration_due_at = now()"],
    "wake_jobs": [
        JOB,
        f"""INSERT INTO job_claims (id, kind, tenant, collection, embeddings)
            VALUES ({ID}, 'evaluation', 'default', 'docs', '{{}}')""",
    ],
    "wake_batches": [BATCH],
    "repair_indexes": ["UPDATE collections SET damage = 'loss'"],
    "erase": [f"INSERT INTO erasures (id, tenant, scope) VALUES ({ID}, 'default', 'tenant')"],
    "delete_retracted": [
        f"""INSERT INTO accepted_questions (id, tenant, collection_id, document_id, chunk_id, question, state)
            SELECT {ID}, tenant, collection_id, id, {ID}, 'Why?', 'removing' FROM documents"""
    ],
    "start_syncs": [SOURCE],
    "remove_sources": [SOURCE],
    "retry_lookups": [SOURCE, f"INSERT INTO source_hints (source_id, hinted_key) VALUES ({ID}, 'a')"],
    "deliver": [
        WEBHOOK,
        f"INSERT INTO webhook_deliveries (id, webhook_id, tenant, type, data) VALUES ({ID}, {ID}, 'a', 'b', '{{}}')",
    ],
}


@pytest.fixture
async def poll(services, settings):
    async with build("scheduler", settings, FEATURES) as scheduler:
        return Poll({step.name: step.only_if for step in steps_of(scheduler) if step.only_if is not None})


async def due_after(services, poll, changes):
    """Return the steps that are due after some changes, which are rolled back."""
    async with services.database.pool.lend() as connection:
        await connection.begin()
        try:
            await connection.execute(Statement("SET LOCAL session_replication_role = replica"))
            for change in changes:
                await connection.execute_sql(change)
            row = (await connection.execute(poll.statement)).one()
        finally:
            await connection.rollback()
    return {step for step, is_due in row.items() if is_due}


@pytest.fixture
async def settled(services, library, provider):
    """A finished document in an otherwise empty ledger."""
    await library.add("The harbour opens at six.", "harbour.md")
    await work(services)
    await services.cleaner.clean()
    await run(services, "DELETE FROM sweeps")
    await run(services, "DELETE FROM tally_changes")
    await run(services, "DELETE FROM spent_changes")
    await run(services, "UPDATE collections SET calibration_due_at = 'infinity'")


async def test_settled_ledger_has_no_due_step(services, settled, poll):
    assert await poll.due(services.database) == set()


@guards(
    "shared/ledger/work/polls.sql",
    "SELECT EXISTS (SELECT 1 FROM sweeps WHERE due_at <= now())",
    "SELECT EXISTS (SELECT 1 FROM sweeps WHERE due_at > now())",
    means="points of replaced versions are never deleted",
)
@pytest.mark.parametrize("step", CHANGES)
async def test_step_with_work_is_due(services, settled, poll, step):
    assert step in await due_after(services, poll, CHANGES[step])


async def test_open_work_makes_its_steps_due(services, library, poll):
    await library.add("The harbour opens at six.", "harbour.md")
    await work(services, "parse")

    assert {"finish", "fold_tallies"} <= await poll.due(services.database)


def test_every_condition_is_tested(poll):
    others = {"finish", "fold_tallies", "fold_costs"}
    assert set(poll.conditions) == CHANGES.keys() | others
    assert vars(SQL).keys() <= set(poll.conditions)
