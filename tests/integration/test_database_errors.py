"""Errors of PostgreSQL: their classes, messages and log entries."""

import asyncio
import re
import time
import traceback
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy.engine import make_url
from structlog.testing import capture_logs

from embedded.ports import free_port
from shared.domain.errors import Permanent, Unavailable
from shared.ledger.postgres.database import Database, TransactionConflict, again_after_collision
from shared.ledger.postgres.statements import Statement
from tests.support.planted import guards
from tests.support.proxy import Fault, Link
from tests.support.waiting import eventually


async def test_unexpected_error_contains_no_parameter(services):
    with pytest.raises(asyncpg.PostgresError, match="no_such_table") as caught:
        async with services.database.begin() as connection:
            await connection.execute(
                Statement("INSERT INTO no_such_table VALUES (:text)"), {"text": "a contract's text"}
            )

    assert "contract" not in str(caught.value)


# Statements that fail with a row in the server's message, with a value in it, and with a parameter in the driver's.
ROW_ERROR = "INSERT INTO completions (content_key, tenant, model, questions) VALUES ('x', NULL, 'm', ARRAY[:text])"
VALUE_ERROR = "SELECT CAST(CAST(:text AS text) AS int)"
PARAMETER_ERROR = "SELECT CAST(:text AS int)"


@pytest.mark.parametrize("statement", [ROW_ERROR, VALUE_ERROR, PARAMETER_ERROR])
async def test_error_traceback_contains_no_row_values(services, statement):
    secret = uuid4().hex
    with pytest.raises((asyncpg.PostgresError, Permanent)) as caught:
        async with services.database.begin() as connection:
            await connection.execute(Statement(statement), {"text": secret})

    logged = "".join(traceback.format_exception(caught.value))
    assert secret not in logged
    assert "NotNullViolationError: null value in column" in logged or "a value does not fit" in logged


async def sort_much(services):
    async with services.database.begin() as connection:
        for name, value in (("temp_file_limit", "0"), ("work_mem", "64kB")):
            await connection.execute(Statement(f"SET LOCAL {name} = '{value}'"))
        await connection.execute(
            Statement("SELECT count(*) FROM (SELECT generate_series(1, 200000) n ORDER BY 1 DESC) s")
        )


@guards(
    "shared/ledger/postgres/addresses.py",
    '"postgresql:///?{urlencode(kept)}"',
    '"postgresql:///"',
    means="the mode of TLS in the URL of PostgreSQL is ignored",
)
@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("require", "offers no TLS, which sslmode in FOREASK_DATABASE_URL requires"),  # as the tests' server
        ("verify-full", "offers no TLS, which sslmode in FOREASK_DATABASE_URL requires"),
        ("always", "cannot be reached with FOREASK_DATABASE_URL: `sslmode` parameter must be one of"),
    ],
)
async def test_tls_of_url_is_required(settings, mode, problem):
    url = settings.database_url.get_secret_value()
    database = Database(f"{url}?sslmode=disable")
    await database.ping()
    await database.aclose()

    database = Database(f"{url}?sslmode={mode}")
    with pytest.raises(Unavailable, match=re.escape(problem)):
        await database.ping()
    await database.aclose()


@guards(
    "shared/ledger/postgres/database.py",
    "    OSError,  # also",
    "    # also",
    means="a connection refused by PostgreSQL is treated as a bug",
)
async def test_connections_are_preopened_only_if_ledger_answers(settings):
    url = settings.database_url.get_secret_value()
    unavailable = f"postgresql://nobody:nothing@127.0.0.1:{free_port()}/none"
    for address, most, opened in ((url, 4, 2), (url, 1, 1), (unavailable, 4, 0)):
        database = Database(address, pool_size=most)
        await database.warm(2)
        assert database.pool.idle == opened
        await database.aclose()


async def test_resource_shortage_details_are_logged_but_not_raised(services):
    with capture_logs() as logs, pytest.raises(Unavailable) as caught:
        await sort_much(services)

    assert "temp" not in caught.value.message
    (answered,) = [entry for entry in logs if entry["event"] == "ledger.answered"]
    assert "temp_file_limit" in answered["words"]


async def test_preopened_connection_queries_no_array_types(settings):
    database, sent = Database(settings.database_url.get_secret_value(), pool_size=1), []
    await database.warm(1)
    async with database.pool.lend() as connection:
        connection.driver.add_query_logger(lambda query: sent.append(query.query))
        for kind in ("uuid", "text", "bigint", "float"):
            await connection.execute(Statement(f"SELECT CAST(:given AS {kind}[])"), {"given": []})
    await database.aclose()

    assert not any("typeinfo" in query for query in sent)


async def test_silent_connections_fail_long_before_lease_expires(services, settings, monkeypatch):
    monkeypatch.setattr("shared.ledger.postgres.pool._FRESH_SECONDS", 60.0)  # no test before a connection is lent
    limit = settings.tuning.lease.total_seconds() / 2
    address = make_url(settings.database_url.get_secret_value())
    link = Link(f"{address.host}:{address.port}")
    proxied = address.set(host="127.0.0.1", port=await link.listen())
    database = Database(proxied.render_as_string(hide_password=False))

    async def sleeping():
        running = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"
        return [row["count"] for row in await services.database.rows(Statement(running))] == [1]

    await database.warm(2)
    acknowledged = asyncio.create_task(database.rows(Statement("SELECT pg_sleep(60)")))
    await eventually(sleeping)
    link.change(Fault("deaf"))
    started = time.monotonic()
    results = await asyncio.gather(acknowledged, database.ping(), return_exceptions=True)
    seconds = time.monotonic() - started

    assert [type(result) for result in results] == [Unavailable, Unavailable]
    assert seconds < limit
    await database.ping()  # succeeds over a new connection
    await database.aclose()
    await link.aclose()


@guards(
    "shared/ledger/postgres/database.py",
    "stop=tenacity.stop_all(tenacity.stop_after_attempt(4), tenacity.stop_after_delay(3))",
    "stop=tenacity.stop_after_attempt(4)",
    means="the edit of a document whose chunks end one after another is refused",
)
async def test_many_short_collisions_are_repeated():
    collisions = 8

    @again_after_collision
    async def edit():
        nonlocal collisions
        collisions -= 1
        if collisions:
            raise TransactionConflict("a chunk has ended", component="ledger")
        return "done"

    assert await edit() == "done"
