"""The time left of the status and of jobs, from the numbers in the ledger."""

from datetime import timedelta
from uuid import UUID

import pytest

from shared.domain.queues import WORK_QUEUES
from shared.ledger.model.counters import Counters
from shared.ledger.model.lanes import MOST_NUMBERS
from shared.ledger.work.backlog import Backlogs
from tests.integration.test_builds import run, started
from tests.integration.test_jobs import act, open_load, settle, shown, upload
from tests.support.api import calling, work
from tests.support.planted import guards

PACE = 2  # chunks per second
SECTIONS = "\n\n".join(
    f"# Harbour {number}\n\n" + f"The ships of harbour {number} are old. " * 60 for number in range(4)
)


@pytest.fixture
async def client(services, settings, provider):
    async with calling(settings, services) as client:
        yield client


async def finish_steadily(services):
    """Record a worker of each stage, and chunks that finished steadily in the last five minutes."""
    for role in WORK_QUEUES:
        await run(
            services,
            "INSERT INTO workers (id, role, host, pid, in_progress) VALUES (gen_random_uuid(), :role, 'here', 1, 0)",
            role=role,
        )
    await run(
        services,
        f"""
        INSERT INTO tally_changes (tenant, counted, part, state, change, at)
        SELECT 'default', 'chunks', 'of-a-test', state, change, now() - make_interval(secs => second)
        FROM generate_series(0, 299) second, (VALUES ('indexed', {PACE}), ('parsed', -{PACE})) v(state, change)""",
    )
    # The chunks existed before, so that they do not count as open.
    await run(
        services,
        f"INSERT INTO tallies VALUES ('default', 'chunks', 'of-a-test', 'parsed', {300 * PACE})",
    )


async def left(services):
    return (await services.ledger[Backlogs].measure("default", services.embeddings)).left


@guards(
    "shared/ledger/work/backlog.sql",
    "SELECT date_trunc('minute', at, 'UTC'), change {finished_changes}",
    "SELECT date_trunc('minute', at, 'UTC'), 0 * change {finished_changes}",
    means="the pace of the minutes before the last one is ignored until they are added up",
)
@pytest.mark.parametrize("is_folded", [False, True], ids=["unfolded", "folded"])
async def test_pace_is_of_last_minutes(services, is_folded):
    await finish_steadily(services)
    if is_folded:
        await services.ledger[Counters].fold()

    assert (await left(services)).per_second == pytest.approx(PACE, rel=0.05)


@guards(
    "api/progress/status.py",
    "left = self.backlog.left.of_jobs.get(job_id)",
    "left = self.backlog.left.whole",
    means="a job that is processed first needs as long as all work",
)
async def test_last_job_needs_as_long_as_all_work(client, services):
    jobs = [await open_load(client) for _ in range(2)]
    for number in range(4):
        await upload(client, f"{number}.md", SECTIONS.replace("ships", f"boats {number}"), job=jobs[0], lane="bulk")
    await upload(client, "other.md", SECTIONS, job=jobs[1], lane="bulk")
    await upload(client, "alone.md", SECTIONS.replace("ships", "masts"), lane="bulk")
    await work(services, "parse")
    await finish_steadily(services)

    first, last = [await shown(client, job_id) for job_id in jobs]
    status = (await client.get("/v1/status")).json()

    chunks = sum(status["stages"][stage]["due"] for stage in ("generate", "index"))
    assert first.eta_seconds < last.eta_seconds == status["eta_seconds"] == pytest.approx(chunks / PACE, abs=1)
    assert (last.chunks_done, last.chunks_total) == (0, 4)


async def test_announced_documents_are_part_of_work(client, services):
    await work_of_five(client, services)
    job = await open_load(client, documents=40)
    await upload(client, "first.md", job=job)
    await finish_steadily(services)

    announced = await left(services)
    await act(client, job, "close")
    closed = await left(services)

    assert announced.of_jobs[UUID(job)] == announced.whole == pytest.approx(40 * closed.whole, rel=0.01)


async def test_paused_and_cancelled_jobs_have_no_time(client, services):
    await work_of_five(client, services)
    job = await open_load(client)
    await upload(client, "first.md", job=job)
    await finish_steadily(services)
    assert (await left(services)).whole

    await act(client, job, "pause")
    paused = await left(services)
    shown_paused = await shown(client, job)
    await act(client, job, "cancel", 202)
    await settle(services)

    assert (paused.whole, shown_paused.eta_seconds) == (None, None)
    assert (await left(services)).whole is None


@guards(
    "shared/ledger/documents/open_jobs.py",
    "await connection.execute(SQL.forget_counters, of_lanes)",
    "pass",
    means="a job starts with the chunks of an earlier job, whose number it has",
)
async def test_job_forgets_chunks_of_job_with_its_number(client, services):
    earlier = await open_load(client)
    await upload(client, "a.md", job=earlier)
    await work(services, "parse", "index")
    await act(client, earlier, "close")
    await settle(services)
    await services.ledger[Counters].fold(timedelta())
    await run(services, f"UPDATE jobs SET number = {MOST_NUMBERS}")  # so that the next job has the number 1 again

    job = await open_load(client)
    await upload(client, "b.md", job=job)
    await work(services, "parse")

    found = await shown(client, job)
    assert (found.chunks_done, found.chunks_total) == (0, 1)


async def test_build_needs_time_for_missing_documents(client, services):
    await work_of_five(client, services)
    build = await started(services)
    await finish_steadily(services)

    found = await left(services)

    assert found.whole
    assert found.of_jobs == {build.id: found.whole}


async def work_of_five(client, services):
    """Finish five documents of a chunk each, which are evidence of a mean."""
    for number in range(5):
        await upload(client, f"before-{number}.md")
    await work(services, "parse", "index")
