"""A failover that lost commits, and points that Qdrant lost, are noticed, shown and repaired without a call."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from structlog.testing import capture_logs

from features.verification.comparison import Verification
from features.verification.damage_monitor import DamageMonitor
from features.verification.domain import DifferingPoint
from features.verification.ledger import Verifications
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.repairs import Repairs
from shared.ledger.postgres import servers
from shared.ledger.postgres.election import Election
from shared.ledger.postgres.servers import Server
from shared.ledger.postgres.statements import Statement
from tests.conftest import Library
from tests.support.api import ready, running, searchable, work
from tests.support.planted import guards
from tests.support.qdrant import qdrant_client
from tests.support.waiting import eventually

HARBOURS = tuple((f"# Harbour {n}\n\nHarbour {n} opens at {n}.", f"{n}.md") for n in range(4))
QUESTION = {"question": "When does harbour 2 open?"}


async def run(services, statement, **parameters):
    async with services.database.begin() as connection:
        return await connection.execute(Statement(statement), parameters)


def monitor_of(services):
    return DamageMonitor(
        database=services.database,
        election=Election(services.database),
        repairs=services.ledger[Repairs],
        verifications=services.ledger[Verifications],
        audit=services.ledger[Audit],
        index=services.index,
        late_writes_end_after=timedelta(),
        wake_verifiers=partial(services.wakeups.wake, "runs"),
    )


@pytest.fixture
async def monitor(services):
    """Yield a monitor whose repairs need not wait for late writers."""
    await run(services, "DELETE FROM servers")
    yield monitor_of(services)
    await run(services, "DELETE FROM servers")


async def differences(services):
    collection = await Library(services).collection()
    verification = Verification(services.ledger[Audit], services.index, collection, repair=False)
    return [item async for item in verification.run() if isinstance(item, DifferingPoint)]


async def repaired(services, monitor):
    """Repair until no collection is damaged."""

    async def is_repaired():
        await monitor.repair()
        await work(services, "index")
        return await services.ledger[Repairs].count() == 0

    async with running(services):
        await eventually(is_repaired)


async def damage(client):
    """Return the damage that the status reports, and the reply to a query, when health and query agree with it."""
    status = (await client.get("/v1/status")).json()["damaged"]
    replies = []

    async def agree():
        health = await client.get("/health/ready")  # it may be a second old, and the query's collection a few
        assert (health.status_code, health.json()["status"]) == (200, "ready")
        replies.append((await client.post("/v1/retrieve", json=QUESTION)).json())
        return len(health.json()["warnings"]) == len(status) == (replies[-1]["metadata"]["notice"] is not None)

    await eventually(agree)
    return [each["cause"] for each in status], replies[-1]


async def lose_document(services, external_id):
    """Forget a finished document as a failover does that lost its commits; its points stay."""
    await run(services, "DELETE FROM documents WHERE external_id = :id", id=external_id)


@guards(
    "shared/ledger/jobs/repairs.py",
    "if changed or lost_commits:",
    "if lost_commits:",
    means="another timeline of PostgreSQL is not noticed",
)
async def test_changed_timeline_repairs_every_collection(services, provider, once, client, monitor):
    await once(ready, *HARBOURS)
    await monitor.notice_failover()
    assert (await damage(client))[0] == []
    await lose_document(services, "2.md")
    paid = provider.stats()["calls"]

    await run(services, "UPDATE servers SET timeline = '00000000'")
    with capture_logs() as logs:
        await monitor.notice_failover()
        await monitor.notice_failover()
    causes, query = await damage(client)

    assert [entry["event"] for entry in logs] == ["failover.noticed"]
    assert causes == ["failover"]
    assert "PostgreSQL failed over" in query["metadata"]["notice"]
    assert "2.md" not in [chunk["external_id"] for chunk in query["chunks"]]  # the ledger has lost it
    assert await differences(services)  # its points are left
    await repaired(services, monitor)
    causes, query = await damage(client)
    assert (causes, query["metadata"]["notice"]) == ([], None)
    assert "2.md" not in [chunk["external_id"] for chunk in query["chunks"]]
    assert await differences(services) == []
    assert provider.stats()["calls"] == paid


async def test_failover_is_repaired_again_after_late_writers(services, provider, once, monitor):
    await once(ready, *HARBOURS)
    monitor = replace(monitor, late_writes_end_after=timedelta(hours=1))
    monitor.election.lost_commits = True
    await monitor.notice_failover()
    assert not monitor.election.lost_commits

    async def is_postponed():
        await monitor.repair()
        (row,) = await run(services, "SELECT repair_id, repair_due_at > now() AS later FROM collections")
        return row.repair_id is None and row.later

    async with running(services):
        await eventually(is_postponed)
    assert await services.ledger[Repairs].count() == 1
    await run(services, "UPDATE collections SET repair_due_at = now(), repair_after = now()")
    await repaired(services, monitor)


@pytest.mark.parametrize("refused", ["timeline", "system", "both"])
async def test_refused_functions_are_left_out(services, monitor, monkeypatch, refused):
    names = {"timeline": ["_TIMELINE"], "system": ["_SYSTEM"], "both": ["_TIMELINE", "_SYSTEM"]}[refused]
    known = await servers.current_server(services.database)
    for name in ("_BOTH", *names):
        monkeypatch.setattr(servers, name, Statement("SELECT pg_read_file('no/right') FROM no_function()"))
    found = await servers.current_server(services.database)

    assert known.is_known
    system = None if refused in ("system", "both") else known.system
    assert found == Server(system, None if refused in ("timeline", "both") else known.timeline)
    assert not found.differs(known)
    with capture_logs() as logs:
        await monitor.notice_failover()
        await monitor.notice_failover()
    assert [entry["event"] for entry in logs] == ["server.unknown"] * (refused == "both")


async def test_ordinary_role_reads_server_identity(services, settings):
    async with services.database.begin() as connection:
        await connection.execute(Statement("SET LOCAL ROLE pg_monitor"))  # any role without rights of its own
        await connection.execute(servers._SYSTEM)
        await connection.execute(servers._TIMELINE)


@guards(
    "shared/ledger/postgres/election.py",
    "row.earlier < self._until:",
    "False:",
    means="a scheduler does not notice that its own commits were lost",
)
async def test_lease_that_moved_back_shows_lost_commits(services):
    election = Election(services.database)
    await run(services, "UPDATE deployment SET scheduler = NULL, scheduler_until = NULL")
    try:
        assert await election.take()
        assert await election.take()
        assert not election.lost_commits

        await run(services, "UPDATE deployment SET scheduler_until = scheduler_until - interval '2 seconds'")
        assert await election.take()
        assert election.lost_commits
    finally:
        await run(services, "UPDATE deployment SET scheduler = NULL, scheduler_until = NULL")


async def drawn(services):
    async with services.database.begin() as connection:
        return (await connection.execute(Statement("SELECT nextval('fencing')"))).scalar_one()


@guards(
    "shared/ledger/postgres/database.py",
    "await driver.execute(_RAISE_TOKENS)",
    "pass",
    means="tokens of lost commits are drawn again over a new connection",
    case="connection",
)
@guards(
    "shared/ledger/postgres/election.py",
    "AS until, raise_tokens()",
    "AS until",
    means="tokens of lost commits are drawn again after an election",
    case="election",
)
@pytest.mark.parametrize("raised_by", ["connection", "election"])
async def test_tokens_of_lost_commits_never_return(services, settings, raised_by):
    lost = await drawn(services)
    await run(services, "SELECT setval('fencing', :token)", token=lost - 1_000_000_000)  # as an old standby
    if raised_by == "connection":
        services.database.pool.close_idle()
    else:
        await run(services, "UPDATE deployment SET scheduler = NULL, scheduler_until = NULL")
        election = Election(services.database)
        await election.take()
        await election.resign()

    assert await drawn(services) > lost


@guards(
    "features/verification/damage_monitor.py",
    "has_lost = await self._has_lost_points(build)",
    "has_lost = False",
    means="an index that lost its points is not noticed",
)
@pytest.mark.parametrize("loss", ["dropped", "emptied", "newest"])
async def test_lost_points_are_noticed_and_repaired(services, provider, once, client, loss):
    monitor = monitor_of(services)
    await once(ready, *HARBOURS)
    location = (await Library(services).collection()).location
    paid, qdrant = provider.stats()["calls"], qdrant_client(services)
    await monitor.check()
    if loss == "dropped":
        await qdrant.delete_collection(location.index_name)
    elif loss == "emptied":
        await services.index.delete_build(location)
    else:
        (row,) = await run(services, "SELECT id FROM documents WHERE external_id = '3.md'")
        await services.index.delete_document(location, row.id)

    with capture_logs() as logs:
        await monitor.check()
        assert await services.ledger[Repairs].count() == 0  # a restarted Qdrant may not have loaded it yet
        await monitor.check()
        await monitor.check()
    causes, query = await damage(client)

    assert [entry["event"] for entry in logs] == ["points.lost"]
    assert causes == ["lost_points"]
    assert "Results are incomplete" in query["metadata"]["notice"]
    await repaired(services, monitor)
    assert (await damage(client))[0] == []
    assert await differences(services) == []
    assert provider.stats()["calls"] == paid


@guards(
    "features/verification/damage_monitor.py",
    "self._sampled_until[build.id] = following[-1].external_id",
    "pass",
    means="the loss of an old document is never noticed",
)
async def test_lost_old_document_is_noticed_in_time(services, provider, once, monitor, monkeypatch):
    monkeypatch.setattr("features.verification.damage_monitor._SAMPLED_DOCUMENTS", 1)
    await once(ready, *HARBOURS)
    _, *older = (await run(services, "SELECT id, external_id FROM documents ORDER BY updated_at DESC")).all()
    lost = next(row.id for row in older if row.external_id != "0.md")  # neither the newest nor the first one
    await services.index.delete_document((await Library(services).collection()).location, lost)

    for _ in range(len(HARBOURS) + 2):
        await monitor.check()
    assert await services.ledger[Repairs].count() == 1


async def test_work_in_progress_raises_no_alarm(services, provider, once, monitor):
    await once(searchable, *HARBOURS)
    library = Library(services)

    async def check():
        for _ in range(3):
            await monitor.check()

    await check()
    edits = [await library.add(f"# Pier\n\nPier {n} is long.", f"{n}.md") for n in (1, 2)]
    await library.add("# Pier\n\nPier 9 is new.", "9.md")
    await check()
    await work(services, "parse")
    await check()
    await work(services)
    await check()
    await services.ledger[Documents].delete("default", edits[0].id)
    await check()
    await services.cleaner.clean()
    await check()
    assert await services.ledger[Repairs].count() == 0


@guards(
    "features/verification/damage_monitor.py",
    "_CHECK_AFTER if ended.is_complete else _CHECK_INCOMPLETE_AFTER",
    "timedelta()",
    means="a difference that cannot be repaired starts one repair after the other",
)
async def test_unrepairable_loss_is_repaired_once(services, provider, once, monitor):
    await once(ready, *HARBOURS)
    location = (await Library(services).collection()).location
    await run(services, "DELETE FROM completions")
    await services.index.delete_build(location)
    await monitor.check()
    await monitor.check()
    assert await services.ledger[Repairs].count() == 1
    await repaired(services, monitor)

    await monitor.check()
    await monitor.check()
    assert await services.ledger[Repairs].count() == 0
