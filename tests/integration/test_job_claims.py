"""Jobs are claimed fairly, by one worker at a time, and continue with another worker when theirs stops or dies."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from features.evaluation.ledger.evaluations import EvaluationProgress, EvaluationRequest, Evaluations
from shared.broker.wakeups import Wakeups, celery_app
from shared.domain.errors import Conflict
from shared.domain.jobs import JobKind
from shared.ledger.jobs.job_claims import MOST_QUEUED, JobClaims
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.statements import Statement
from tests.conftest import Library
from tests.support.api import calling, running, work
from tests.support.planted import guards
from tests.support.waiting import eventually
from workers.loop import WorkerLoop
from workers.scheduler import wake_jobs
from workers.tasks import register

KINDS = [JobKind.EVALUATION]
QUESTION = {"question": "Where do herons nest?", "external_ids": ["herons"]}
REQUEST = EvaluationRequest([QUESTION], ["text"], "text")
PROGRESS = EvaluationProgress(None, 1)
RESULTS = {"per_query": {"text": {"Where do herons nest?": 1.0}}, "rows": [{"strategy": "text"}]}
SET = "/v1/collections/default/labelled-sets/birds"
RUNS = "/v1/collections/default/evaluations"

NEWER = """
    WITH job AS (
        INSERT INTO jobs (id, tenant, collection, collection_id, kind, state)
        VALUES (:id, 'alice', 'default', :id, 'newer', 'running') RETURNING id, kind, tenant, collection)
    INSERT INTO job_claims (id, kind, tenant, collection, embeddings) SELECT *, '{}' FROM job
"""


async def execute(services, statement, **parameters):
    async with services.database.begin() as connection:
        return await connection.execute(Statement(statement), parameters)


async def queue(services, tenant="default", name="default"):
    """Queue an evaluation, and return its id."""
    model = services.settings.embedding_model
    collection = await services.ledger[Collections].ensure(tenant, name, embedding_model=model)
    return (await services.ledger[Evaluations].start(collection, None, REQUEST)).id


async def lose_leases(services):
    """End all leases, as if their workers had died."""
    await execute(services, "UPDATE job_claims SET leased_until = now() - interval '1 second' WHERE token IS NOT NULL")


async def shown(services, run):
    return await services.ledger[Evaluations].get(run)


async def fill(services):
    await Library(services).add("Herons nest in the reeds of the lake.", "herons", questions=[QUESTION["question"]])
    await work(services)


@pytest.fixture(autouse=True)
async def filled(once):
    """Give each test a document that answers `QUESTION`, without runs."""
    await once(fill)


# --- claims ---


async def test_job_is_claimed_by_one_of_two_workers(services):
    run = await queue(services)
    claims = await asyncio.gather(*(services.ledger[JobClaims].claim(KINDS) for _ in range(2)))
    assert sorted(claim is None for claim in claims) == [False, True]
    assert (await shown(services, run)).state == "running"


async def test_tenant_with_many_jobs_does_not_delay_another(services):
    many = [await queue(services, "alice") for _ in range(4)]
    one = await queue(services, "bob")
    claimed = [await services.ledger[JobClaims].claim(KINDS) for _ in range(4)]
    assert [claim and claim.id for claim in claimed] == [many[0], one, many[1], None]
    assert not await services.ledger[JobClaims].due()

    await services.ledger[Evaluations].finish(claimed[0], PROGRESS, RESULTS)
    assert await services.ledger[JobClaims].due()
    assert (await services.ledger[JobClaims].claim(KINDS)).id == many[2]


async def test_claims_of_all_tenants_are_limited(services):
    for tenant in ("alice", "bob", "carol"):
        for _ in range(2):
            await queue(services, tenant)
    claimed = [await services.ledger[JobClaims].claim(KINDS) for _ in range(5)]
    assert [claim and claim.tenant for claim in claimed] == ["alice", "bob", "carol", "alice", None]


async def live_workers(services, role, number):
    for _ in range(number):
        row = {"id": uuid4(), "role": role}
        await execute(
            services, "INSERT INTO workers (id, role, host, pid, in_progress) VALUES (:id, :role, '', 1, 0)", **row
        )


@guards(
    "shared/ledger/jobs/job_claims.sql",
    "v.role = CASE",
    "v.role <> CASE",
    means="more workers do not do more runs at a time",
)
async def test_claims_of_all_tenants_follow_live_workers(services):
    for tenant in ("alice", "bob", "carol", "dave"):
        for _ in range(2):
            await queue(services, tenant)
    await live_workers(services, "index", 6)
    await live_workers(services, "parse", 20)
    claimed = [await services.ledger[JobClaims].claim(KINDS) for _ in range(7)]
    assert [claim is None for claim in claimed] == [False] * 6 + [True]

    await execute(services, "UPDATE workers SET seen_at = now() - interval '1 minute'")
    await services.ledger[JobClaims].release(claimed[0])
    assert await services.ledger[JobClaims].claim(KINDS) is None


async def test_claims_of_tenant_are_half_of_live_workers(services):
    for _ in range(5):
        await queue(services, "alice")
    await live_workers(services, "index", 8)
    claimed = [await services.ledger[JobClaims].claim(KINDS) for _ in range(5)]
    assert [claim is None for claim in claimed] == [False] * 4 + [True]


# --- turns ---


async def claims_of(services, tenants):
    """Queue a run of each of these tenants, and claim them all in order."""
    for tenant in tenants:
        await queue(services, tenant)
    return [await services.ledger[JobClaims].claim(KINDS) for _ in tenants]


@guards(
    "shared/ledger/jobs/job_claims.sql",
    "ORDER BY coalesce(h.jobs, 0), coalesce(r.leased_until, r.created_at), r.id",
    "ORDER BY coalesce(h.jobs, 0), r.created_at, r.id",
    means="a run that gave way is claimed again before the run that waits",
)
async def test_job_gives_way_to_waiting_tenant(services):
    held = await claims_of(services, ["alice", "bob", "carol", "dave"])
    waiting = await queue(services, "eve")
    assert not await services.ledger[JobClaims].due()

    assert await services.ledger[JobClaims].yield_claim(held[0])
    assert not await services.ledger[JobClaims].extend(held[0])
    assert (await shown(services, held[0].id)).state == "queued"
    assert not await services.ledger[JobClaims].yield_claim(held[1])  # one free slot is enough
    assert (await services.ledger[JobClaims].claim(KINDS)).id == waiting
    assert await services.ledger[JobClaims].yield_claim(held[1])
    assert (await services.ledger[JobClaims].claim(KINDS)).id == held[0].id


async def test_job_gives_way_to_other_job_of_tenant(services):
    held = await claims_of(services, ["alice", "alice"])
    assert not await services.ledger[JobClaims].yield_claim(held[0])
    third = await queue(services, "alice")

    assert await services.ledger[JobClaims].yield_claim(held[0])
    assert (await services.ledger[JobClaims].claim(KINDS)).id == third


@guards(
    "shared/ledger/jobs/job_claims.sql",
    "coalesce(h.jobs, 0) < (",
    "coalesce(h.jobs, 0) <= (",
    means="runs of two tenants give way to each other again and again without need",
)
async def test_job_stays_unless_another_would_follow(services):
    alice, bob, *_ = await claims_of(services, ["alice", "bob", "carol", "alice"])
    await queue(services, "carol")
    assert not await services.ledger[JobClaims].yield_claim(bob)  # bob would have no run, and carol two
    await execute(services, "UPDATE job_claims SET embeddings = '{another}' WHERE token IS NULL")
    assert not await services.ledger[JobClaims].yield_claim(alice)
    await execute(services, "UPDATE job_claims SET embeddings = '{}' WHERE token IS NULL")
    assert await services.ledger[JobClaims].yield_claim(alice)
    assert not await services.ledger[JobClaims].yield_claim(alice)


async def test_process_leaves_jobs_to_other_workers(services, provider):
    for tenant in ("alice", "bob", "carol", "dave", "eve", "frank"):
        await queue(services, tenant)
    await live_workers(services, "index", 6)
    provider.script(embedding_latency_seconds=30)
    async with running(services) as runner:
        await eventually(lambda: runner.claimed == 4)
        assert await services.ledger[JobClaims].due()
        async with running(services) as other:
            await eventually(lambda: other.claimed == 2)


async def test_queue_of_tenant_is_limited(services):
    for _ in range(MOST_QUEUED):
        await queue(services, "alice")
    with pytest.raises(Conflict, match="This tenant has 20 queued evaluations"):
        await queue(services, "alice", "other")
    await queue(services, "bob")
    await services.ledger[JobClaims].claim(KINDS)
    await queue(services, "alice")


async def test_worker_without_the_embedding_claims_nothing(services):
    await queue(services)
    other = JobClaims(services.database, worker="other", lease=timedelta(seconds=30), embeddings=["another"])
    assert await other.claim(KINDS) is None
    assert await services.ledger[JobClaims].claim(KINDS) is not None


@guards(
    "shared/ledger/jobs/job_claims.sql",
    "{claimable} AND r.kind = ANY(CAST(:kinds AS text[]))",
    "{claimable} AND CAST(:kinds AS text[]) <> '{}'",
    means="a scheduler fails at a run of a newer release's kind",
)
async def test_job_of_newer_release_is_left_alone(services):
    await execute(services, NEWER, id=uuid4())

    assert await services.ledger[JobClaims].due() == set()
    assert await services.ledger[JobClaims].claim(list(JobKind)) is None

    run = await queue(services)
    assert await services.ledger[JobClaims].due() == {JobKind.EVALUATION}
    assert (await services.ledger[JobClaims].claim(list(JobKind))).id == run
    left = await execute(services, "SELECT kind, lost_leases FROM job_claims WHERE token IS NULL")
    assert left.all() == [("newer", 0)]
    assert await services.ledger[Jobs].page("alice") == []


async def test_late_worker_cannot_overwrite_result(services):
    run, ledger = await queue(services), services.ledger
    late = await ledger[JobClaims].claim(KINDS)
    await lose_leases(services)
    claim = await ledger[JobClaims].claim(KINDS)
    assert (claim.id, claim.lost_leases) == (run, 1)
    assert claim.token > late.token

    assert not await ledger[JobClaims].extend(late)
    await ledger[Evaluations].save_progress(late, replace(PROGRESS, strategy="late", done=1, total=1))
    await ledger[Evaluations].finish(late, PROGRESS, RESULTS)
    await ledger[JobClaims].fail(late, "late")
    await ledger[JobClaims].release(late)
    found = await shown(services, run)
    assert (found.state, found.progress.strategy, found.error) == ("running", None, None)

    assert await ledger[JobClaims].extend(claim)
    await ledger[Evaluations].finish(claim, PROGRESS, RESULTS)
    await ledger[Evaluations].finish(late, PROGRESS, RESULTS | {"rows": []})
    found = await shown(services, run)
    assert (found.state, found.result, found.progress.done) == ("done", RESULTS, 1)
    assert (await execute(services, "SELECT request FROM jobs")).scalar_one() is None


@guards(
    "shared/ledger/jobs/jobs_of_kind.sql",
    "SET progress = CAST(:progress AS json) FROM",
    "SET progress = CAST(:progress AS json), request = CAST(CAST(request AS text) AS json) FROM",
    means="each saved progress of an evaluation copies its questions",
)
async def test_progress_does_not_copy_the_request(services):
    collection = await services.ledger[Collections].ensure(
        "default", "default", embedding_model=services.settings.embedding_model
    )
    questions = [QUESTION | {"question": str(uuid4())} for _ in range(1_000)]
    await services.ledger[Evaluations].start(collection, None, replace(REQUEST, questions=questions))
    claim = await services.ledger[JobClaims].claim(KINDS)
    size = "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE relname = 'jobs'"
    before = (await execute(services, size)).scalar_one()

    for done in range(10):
        await services.ledger[Evaluations].save_progress(claim, replace(PROGRESS, done=done))

    assert before > 10_000
    assert (await execute(services, size)).scalar_one() == before


# --- workers ---


async def test_job_fails_after_three_lost_workers(services):
    run = await queue(services)
    for lost in range(3):
        assert (await services.ledger[JobClaims].claim(KINDS)).lost_leases == lost
        await lose_leases(services)
    async with running(services):
        await eventually(lambda: _is(services, run, "failed"))
    assert (await shown(services, run)).error == "Its worker ended 3 times during the run."
    assert (await execute(services, "SELECT count(*) FROM job_claims")).scalar_one() == 0


async def test_stopping_worker_releases_job_for_another(services, provider):
    run = await queue(services)
    provider.script(embedding_latency_seconds=30)
    async with running(services):
        await eventually(lambda: _is(services, run, "running"))
    row = (await execute(services, "SELECT token, leased_until, lost_leases FROM job_claims")).one()
    assert tuple(row) == (None, None, 0)
    assert (await shown(services, run)).state == "queued"

    provider.script(embedding_latency_seconds=0)
    async with running(services):
        await eventually(lambda: _is(services, run, "done"))


@guards(
    "shared/maintenance/jobs/runner.py",
    "        if self._stopping:",
    "        if False:",
    means="a run that is claimed while its worker stops is not released",
)
async def test_job_claimed_during_stop_is_released(services):
    run = await queue(services)
    runner = services.make_runner()
    async with services.database.begin() as connection:
        await connection.execute(Statement("LOCK TABLE job_claims IN SHARE MODE"))
        taking = asyncio.create_task(runner.take())
        await eventually(lambda: _is_blocked(services))
        runner.stop()
        closing = asyncio.create_task(runner.aclose())

    await asyncio.gather(taking, closing)

    row = (await execute(services, "SELECT token, leased_until, lost_leases FROM job_claims")).one()
    assert tuple(row) == (None, None, 0)
    assert (await shown(services, run)).state == "queued"


async def test_deleted_job_stops_its_worker(services, provider, monkeypatch):
    monkeypatch.setattr("shared.maintenance.jobs.runner._EXTEND_SECONDS", 0.02)
    run = await queue(services)
    provider.script(embedding_latency_seconds=30)
    async with running(services) as runner:
        await eventually(lambda: runner.claimed == 1)
        await services.ledger[Evaluations].delete(run, await Library(services).collection())
        assert (await execute(services, "SELECT count(*) FROM job_claims")).scalar_one() == 0
        await eventually(lambda: runner.claimed == 0)


async def test_two_runners_do_every_job_once(services, provider):
    runs = [await queue(services) for _ in range(6)]
    provider.reset()
    async with running(services), running(services):
        for run in runs:
            await eventually(lambda run=run: _is(services, run, "done"))
    assert provider.stats()["embedded_inputs"] == len(runs)


async def test_woken_worker_finishes_job(services, settings):
    run = await queue(services)
    loop = await asyncio.to_thread(WorkerLoop, "index", settings)
    app = celery_app(settings.redis_url.get_secret_value())
    register(app, loop)
    try:
        await asyncio.to_thread(app.tasks["foreask.runs"], "of another release", batch=[])
        await eventually(lambda: _is(services, run, "done"))
    finally:
        await asyncio.to_thread(loop.close)
        app.close()


async def test_scheduler_wakes_workers_for_queued_job(services, settings):
    for woken in (0, 1):
        wakeups = Wakeups(settings.redis_url.get_secret_value())
        await wake_jobs(replace(services, wakeups=wakeups))
        await wakeups.aclose()
        async with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
            assert await redis.llen("foreask.runs") == woken
        await queue(services)


async def _is(services, run, state):
    return (await shown(services, run)).state == state


async def _is_blocked(services):
    """Return whether a transaction waits for a lock."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return (await execute(services, waiting)).all()


# --- the API ---


async def test_restart_of_api_loses_no_job(services, settings):
    async with calling(settings, services) as api:
        started = await api.post(RUNS, json={"questions": [QUESTION], "strategies": ["text"]})
        assert (started.status_code, started.json()["state"]) == (202, "queued")
    async with calling(settings, services) as api, running(services):
        run = started.json()["id"]
        await eventually(lambda: _is(services, run, "done"))
        assert (await api.get(f"{RUNS}/{run}")).json()["results"]["rows"][0]["strategy"] == "text"


async def test_changed_set_does_not_change_queued_job(services, client):
    await client.put(SET, json={"questions": [QUESTION]})
    started = (await client.post(RUNS, json={"labelled_set": "birds", "strategies": ["text"]})).json()
    await client.put(SET, json={"questions": [QUESTION | {"question": "What lives in the lake?"}]})
    async with running(services):
        await eventually(lambda: _is(services, started["id"], "done"))
    done = (await client.get(f"{RUNS}/{started['id']}")).json()
    assert list(done["results"]["per_query"]["text"]) == [QUESTION["question"]]


async def test_excess_queued_jobs_are_refused(services, client):
    for _ in range(MOST_QUEUED):
        await queue(services)

    reply = await client.post(RUNS, json={"questions": [QUESTION], "strategies": ["text"]})

    assert reply.status_code == 409
    assert reply.json()["detail"].startswith("This tenant has 20 queued evaluations")


async def test_unknown_job_is_not_found(client):
    assert (await client.delete(f"{RUNS}/{uuid4()}")).status_code == 404
