"""A gate is a job that a worker does: another worker finishes it, requests join it, and it can be cancelled."""

import asyncio

import pytest

from features.builds.gate import Gate
from features.builds.ledger.gates import GateRequest, Gates
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.jobs import JobKind
from shared.ledger.builds.builds import Builds
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.postgres.statements import Statement
from tests.conftest import Library
from tests.support.api import calling, events_of, running, serving, work
from tests.support.waiting import eventually

GATE = "/v1/collections/default/builds/2/gate"
EVENTS = {"accept": "text/event-stream"}
ALL = GateRequest(None, 0)


async def filled(services):
    """Fill a build with the document of the live one, and return it."""
    await Library(services).add("The keeper wrote of alpha1.", "1.md", questions=["Who wrote 1?"])
    await work(services)
    builds, model = services.ledger[Builds], services.settings.embedding_model
    build = await builds.start("default", "default", options=CollectionOptions(), embedding_model=model)
    while await builds.fill():
        pass
    await work(services)
    return await builds.get("default", "default", build.number)


@pytest.fixture
async def build(once):
    """A build that is filled and equal to the live one."""
    return await once(filled)


async def start(services, build, request=ALL):
    return await services.ledger[Gates].start(build, services.settings.embedding_model, request)


async def lose_leases(services):
    async with services.database.begin() as connection:
        await connection.execute(Statement("UPDATE job_claims SET leased_until = now() - interval '1 second'"))


async def gate_of(services, build):
    return (await services.ledger[Builds].get("default", "default", build.number)).gate


async def test_lost_gate_is_finished_once_by_another_worker(services, settings, build):
    await start(services, build)
    late = await services.ledger[JobClaims].claim([JobKind.GATE])
    await lose_leases(services)
    async with calling(settings, services) as client, running(services):
        await eventually(lambda: _state_is(client, "done"))
        shown = (await client.get(GATE)).json()
    report = await gate_of(services, build)
    assert shown["report"]["open"] is report["open"] is True
    assert shown["report"]["documents"]["documents"] == 1

    await services.ledger[Gates].finish(late, report | {"open": False})
    assert (await gate_of(services, build))["open"] is True
    assert (await services.ledger[Gates].newest(build)).result["open"] is True


async def _state_is(client, state):
    return (await client.get(GATE)).json()["state"] == state


async def test_same_request_joins_running_gate(services, settings, build):
    labelled = [{"question": "Who wrote 1?", "external_ids": ["1.md"]}]
    async with serving(settings, services) as client:
        assert (await client.get(GATE)).status_code == 404
        async with client.stream("POST", GATE, json={}, headers=EVENTS) as response:
            name, first = await anext(events_of(response))
        assert (name, first["state"]) == ("progress", "queued")
        other = await client.post(GATE, json={"questions": labelled})
        missing = await client.post(GATE, json={"questions": [labelled[0] | {"external_ids": ["none.md"]}]})
        async with running(services):
            reply = await client.post(GATE, json={})
    assert (other.status_code, missing.status_code) == (409, 422)
    assert other.json()["detail"].startswith("A gate of build 2 with other questions is running")
    assert reply.json() == await gate_of(services, build)
    async with services.database.begin() as connection:
        assert (await connection.execute(Statement("SELECT count(*) FROM jobs"))).scalar_one() == 1


async def test_cancelled_gate_stops_without_report(services, settings, build, monkeypatch):
    async def never(*_):
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(Gate, "run", never)
    monkeypatch.setattr("shared.maintenance.jobs.runner._EXTEND_SECONDS", 0.02)
    async with serving(settings, services) as client, running(services) as runner:
        following = asyncio.create_task(client.post(GATE, json={}))
        await eventually(lambda: runner.claimed == 1)
        assert (await client.delete(GATE)).status_code == 204
        ended = await following
        await eventually(lambda: runner.claimed == 0)
        assert (await client.get(GATE)).json()["state"] == "cancelled"
        assert (await client.delete(GATE)).status_code == 404
    assert (ended.status_code, ended.json()["detail"]) == (409, "The job was cancelled.")
    assert await gate_of(services, build) is None


async def test_gate_waits_for_worker_with_both_embeddings(services, build):
    await services.ledger[Gates].start(build, "another", ALL)
    assert await services.ledger[JobClaims].claim([JobKind.GATE]) is None
    runs = services.ledger[JobClaims]
    both = JobClaims(services.database, worker="both", lease=runs._lease, embeddings=["another", build.embedding_model])
    assert await both.claim([JobKind.GATE]) is not None


async def test_gate_of_dropped_build_fails(services, build):
    run = await start(services, build)
    await services.ledger[Builds].drop("default", "default", build.number)
    async with running(services):
        await eventually(lambda: _ended(services, run))
    ended = await services.ledger[Gates].get(run.id)
    assert (ended.state, ended.error.partition(":")[0]) == ("failed", "Build 2 is dropping")


async def _ended(services, run):
    return (await services.ledger[Gates].get(run.id)).ended_at is not None
