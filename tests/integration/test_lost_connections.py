"""A connection that the network closed, reset or silenced costs no caller an error, and no statement runs twice."""

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from sqlalchemy.engine import make_url
from structlog.testing import capture_logs

from shared.broker.tenant_use import TenantUse
from shared.broker.wakeups import Wakeups
from shared.domain.errors import Unavailable
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from shared.providers.provider import Provider
from shared.vectors.index import Index
from tests.conftest import Library
from tests.support.api import calling, ready
from tests.support.planted import guards
from tests.support.proxy import Fault, Link
from tests.support.waiting import eventually

HARBOUR = ("# Harbour\n\nThe harbour opens at six.", "harbour.md")
NEXT = Statement(
    "UPDATE deployment SET wanted = jsonb_build_object('n', coalesce((wanted ->> 'n')::int, 0) + 1) RETURNING 1"
)
SERVING = Statement("SELECT pg_backend_pid() AS pid")
COUNTED = Statement("SELECT coalesce((wanted ->> 'n')::int, 0) AS n FROM deployment")


@asynccontextmanager
async def proxied(settings, **options):
    """Yield a link to PostgreSQL and a pool of connections over it."""
    address = make_url(settings.database_url.get_secret_value())
    link = Link(f"{address.host}:{address.port}")
    url = address.set(host="127.0.0.1", port=await link.listen())
    database = Database(url.render_as_string(hide_password=False), **options)
    try:
        yield link, database
    finally:
        await database.aclose()
        await link.aclose()


async def changed(database):
    async with database.begin() as connection:
        await connection.execute(NEXT)


async def executed(database):
    (row,) = await database.rows(COUNTED)
    return row["n"]


@guards(
    "shared/ledger/postgres/pool.py",
    'driver.execute("SELECT")',
    'driver.execute(";")',
    means="the test of an idle connection always fails, so that each pause costs a new connection",
)
async def test_tested_idle_connection_is_lent_again(settings, monkeypatch):
    monkeypatch.setattr("shared.ledger.postgres.pool._FRESH_SECONDS", 0.0)
    database = Database(settings.database_url.get_secret_value(), pool_size=1)
    pids = {row["pid"] for _ in range(3) for row in await database.rows(SERVING)}
    await database.aclose()

    assert len(pids) == 1


@guards(
    "shared/ledger/postgres/pool.py",
    "if connection.is_closed or now - connection.opened_at > _OLDEST_SECONDS:",
    "if False:",
    "if now - connection.idle_since < _FRESH_SECONDS:",
    "if True:",
    means="the pool lends a connection that the network closed while it was idle",
)
@pytest.mark.parametrize("pooler", ["none", "transaction"])
async def test_connections_closed_while_idle_fail_nothing(services, settings, pooler, monkeypatch):
    monkeypatch.setattr("shared.ledger.postgres.pool._FRESH_SECONDS", 0.1)
    async with proxied(settings, pooler=pooler) as (link, database):
        await database.warm(3)
        link.change(Fault(idle_seconds=0.2))
        for round_ in range(1, 4):
            await eventually(lambda closed=round_ * 2: link.idle_closed >= closed)
            await asyncio.gather(changed(database), changed(database))


@guards(
    "shared/ledger/postgres/pool.py",
    'await asyncio.wait_for(connection.driver.execute("SELECT"), _TEST_SECONDS)',
    "pass",
    means="an idle connection is lent although its other end is silent",
)
async def test_silent_idle_connection_is_replaced(services, settings, monkeypatch):
    monkeypatch.setattr("shared.ledger.postgres.pool._FRESH_SECONDS", 0.0)
    monkeypatch.setattr("shared.ledger.postgres.pool._TEST_SECONDS", 0.5)
    async with proxied(settings, pool_size=1) as (link, database):
        before = await executed(database)
        link.change(Fault("stale"))
        started = time.monotonic()
        async with database.begin() as connection:
            await connection.execute(NEXT)

        assert time.monotonic() - started < 15
        assert await executed(database) == before + 1


@guards(
    "shared/ledger/postgres/database.py",
    "if not (_is_lost(error) and _only_reads(statement)):",
    "if True:",
    means="a query whose reply was reset fails instead of being sent again",
)
async def test_reset_within_reply_repeats_only_reads(services, settings):
    async with proxied(settings, pool_size=1) as (link, database):
        before = await executed(database)
        link.change(Fault(torn=1))
        assert await executed(database) == before

        link.change(Fault(swallow="UPDATE", times=1))
        with pytest.raises(Unavailable):
            await database.rows(NEXT)
        link.change(Fault())
        assert await executed(database) <= before + 1


@asynccontextmanager
async def linked(address):
    """Yield a link to an HTTP server, and its URL."""
    link = Link(address)
    try:
        yield link, f"http://127.0.0.1:{await link.listen()}"
    finally:
        await link.aclose()


LOSSES = {"closed": Fault(idle_seconds=0.2), "forgotten": Fault(idle_seconds=0.2, forgets=True)}


@guards(
    "shared/vectors/transport/requests.py",
    "may_repeat=True",
    "may_repeat=False",
    means="a request to Qdrant fails because its reply was reset",
    case="forgotten",
)
@pytest.mark.parametrize("loss", LOSSES)
async def test_lost_idle_connection_to_qdrant_costs_nothing(services, settings, once, loss):
    await once(ready, HARBOUR)
    location = (await Library(services).collection()).location
    async with linked(settings.qdrant_url.removeprefix("http://").rstrip("/")) as (link, url):
        index = Index(url, api_key=settings.qdrant_api_key)
        stored = await asyncio.gather(*(index.count_points(location) for _ in range(4)))
        link.change(LOSSES[loss])
        await eventually(lambda: link.idle_closed >= 4)

        assert await asyncio.gather(*(index.count_points(location) for _ in range(4))) == stored
        link.change(Fault(torn=1))
        assert await index.count_points(location) == stored[0]
        await index.aclose()


@guards(
    "shared/process/network/http/plain.py",
    "self._options.may_repeat or not connection.may_have_sent",
    "self._options.may_repeat",
    means="a call of a model fails because the network has forgotten the connection",
    case="forgotten",
)
@pytest.mark.parametrize("loss", LOSSES)
async def test_lost_idle_connection_to_model_costs_nothing(provider, loss):
    async with linked(f"127.0.0.1:{provider.port}") as (link, url):
        model = Provider(component="embedding", base_url=f"{url}/v1", api_key=None, timeout=timedelta(seconds=10))
        body = {"model": "scripted-embedding", "input": ["harbour"]}
        await asyncio.gather(*(model.post("/embeddings", body) for _ in range(4)))
        link.change(LOSSES[loss])
        await eventually(lambda: link.idle_closed >= 4)

        await asyncio.gather(*(model.post("/embeddings", body) for _ in range(4)))
        assert provider.stats()["embedded_inputs"] == 8
        await model.aclose()


@guards(
    "shared/process/network/http/plain.py",
    "self._options.may_repeat or not connection.may_have_sent",
    "True",
    means="a call of a model whose reply is reset is paid twice",
)
async def test_reset_reply_of_model_is_not_repeated(provider):
    async with linked(f"127.0.0.1:{provider.port}") as (link, url):
        model = Provider(component="llm", base_url=f"{url}/v1", api_key=None, timeout=timedelta(seconds=10))
        link.change(Fault(torn=1))
        with pytest.raises(Unavailable):  # it is billed: the stage decides, and counts it
            await model.post("/embeddings", {"model": "scripted-embedding", "input": ["harbour"]})
        assert provider.stats()["embedded_inputs"] == 1
        await model.aclose()


@pytest.mark.parametrize("loss", LOSSES)
async def test_lost_idle_connection_to_valkey_costs_nothing(services, settings, loss):
    address = urlsplit(settings.redis_url.get_secret_value())
    async with linked(f"{address.hostname}:{address.port}") as (link, url):
        port = urlsplit(url).port
        proxied = address._replace(netloc=address.netloc.replace(f":{address.port}", f":{port}")).geturl()
        use, wakeups = TenantUse(proxied), Wakeups(proxied)
        with capture_logs() as logs:
            assert await use.take_request("alice", 10, 10) is not None
            await wakeups.ready()
            wakeups.wake("parse")
            link.change(LOSSES[loss])
            await eventually(lambda: link.idle_closed >= 2)

            assert await use.take_request("alice", 10, 10) is not None
            await wakeups.ready()
            wakeups.wake("parse")
            await wakeups.aclose()
        await use.aclose()
    assert [entry for entry in logs if entry["event"] in ("wakeup.failed", "tenant_use.uncounted")] == []


@guards(
    "shared/vectors/transport/requests.py",
    "self._timeout_seconds if within is None else",
    "self._timeout_seconds or",
    means="a query waits a minute for a Qdrant that stays silent",
)
async def test_silent_qdrant_refuses_query_soon(services, settings, once, monkeypatch):
    monkeypatch.setattr("shared.vectors.reads.SEARCH_SECONDS", 1.0)
    await once(ready, HARBOUR)
    link = Link(settings.qdrant_url.removeprefix("http://").rstrip("/"))
    silent = settings.model_copy(update={"qdrant_url": f"http://127.0.0.1:{await link.listen()}"})
    async with calling(silent) as client:
        question = {"question": "When does the harbour open?"}  # the first query counts the collection's points, too
        link.change(Fault("hole"))
        started = time.monotonic()
        reply = await client.post("/v1/retrieve", json=question)
        link.change(Fault())
    await link.aclose()

    assert reply.status_code == 503
    assert int(reply.headers["retry-after"]) >= 1
    assert time.monotonic() - started < 20


@guards(
    "shared/process/network/http/plain.py",
    "if self._is_closed or not may_repeat:",
    "if not may_repeat:",
    means="a request that is running at the end of the process opens another connection",
)
async def test_running_request_of_closed_client_is_not_repeated():
    writers, connected = list[asyncio.StreamWriter](), asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        connected.set()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        index = Index(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        search = asyncio.create_task(index.search("any", []))
        await connected.wait()
        await index.aclose()
        with pytest.raises(Unavailable, match="it closed the connection"):  # it is not sent again
            await search

        for writer in writers:
            writer.close()
            await writer.wait_closed()


@guards(
    "shared/ledger/postgres/pool.py",
    "connection, is_usable = await self._take(), False",
    "connection, is_usable = await self._take(), True",
    means="the pool keeps a connection that still executes a cancelled statement",
)
async def test_connection_of_cancelled_statement_is_closed(services, settings):
    database = Database(settings.database_url.get_secret_value(), pool_size=1)
    asleep = Statement("SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'")
    sleeping = asyncio.create_task(database.rows(Statement("SELECT pg_sleep(60)")))
    await eventually(lambda: services.database.rows(asleep))

    sleeping.cancel()
    await asyncio.gather(sleeping, return_exceptions=True)

    assert (database.pool.lent, database.pool.idle) == (0, 0)
    await database.ping()
    assert database.pool.idle == 1
    await database.aclose()
