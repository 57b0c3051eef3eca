"""A pooler in transaction mode: no transaction depends on session state from an earlier one."""

import asyncio
import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy.engine import make_url
from structlog.testing import capture_logs

from features.all import FEATURES
from features.verification.comparison import Verification
from features.verification.domain import DifferingPoint
from shared.domain.errors import Unavailable
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import AdvisoryLock, Database, begin_alone
from shared.ledger.postgres.roles import make_app_role
from shared.ledger.postgres.schema import migrate
from shared.ledger.postgres.statements import Statement
from shared.services import build, parts
from tests.conftest import Library
from tests.support.api import work
from tests.support.planted import guards
from tests.support.waiting import eventually

LEDGER = Path(__file__).resolve().parents[2] / "shared" / "ledger"
# Parameters that poolers pass to the server or compare with the connection's parameters.
PASSED_ON = {"client_encoding", "application_name", "DateStyle", "TimeZone", "standard_conforming_strings"}
SESSION_STATE = re.compile(
    r"pg_(try_)?advisory_(?!xact)\w+|\b(LISTEN|UNLISTEN|NOTIFY|PREPARE|DEALLOCATE|DISCARD|TEMP|TEMPORARY)\s+\w|"
    r"\bSET\s+(SESSION|plan_cache|statement_|lock_|search_)|set_config\([^)]*,\s*false\)|WITH HOLD"
)


def forget_sessions(database):
    """Discard the session state after each transaction, like a pooler that changes connections."""

    kept = database.pool._return

    async def discard(connection, *, is_usable):
        if is_usable:
            await connection.driver.execute("DISCARD ALL")
        await kept(connection, is_usable=is_usable)

    database.pool._return = discard


@pytest.fixture
async def pooled(services, settings):
    """Yield services that use a pooler in transaction mode."""
    async with build("all", settings.model_copy(update={"database_pooler": "transaction"}), FEATURES) as pooled:
        pooled.ledger[Collections]._index_names = services.ledger[Collections]._index_names
        forget_sessions(pooled.database)
        yield pooled


async def value(database, sql):
    async with database.begin() as connection:
        return (await connection.execute(Statement(sql))).scalar_one()


@pytest.mark.usefixtures("provider")
async def test_document_lifecycle_works_through_pooler(pooled):
    library = Library(pooled)
    collection = await library.collection()
    documents = [await library.add(f"# Harbours\n\nHarbour {n} opens at seven.", f"{n}.md") for n in range(3)]
    await work(pooled)
    await library.add("Harbour 0 opens at nine.", "0.md")
    await work(pooled)

    shown = [await pooled.ledger[Documents].get("default", document.id) for document in documents]
    assert [(document.state, document.version) for document in shown] == [("ready", 2), ("ready", 1), ("ready", 1)]
    verification = Verification(pooled.ledger[Audit], pooled.index, collection, repair=False)
    assert [item async for item in verification.run() if isinstance(item, DifferingPoint)] == []
    await pooled.ledger[Documents].delete("default", documents[1].id)
    await pooled.cleaner.clean()
    assert await pooled.index.count_chunks(collection.location) == 2


async def test_pooled_sessions_set_no_unsupported_parameters(pooled):
    names = "SELECT coalesce(array_agg(name), '{}') FROM pg_settings WHERE source = 'client'"

    assert set(await value(pooled.database, names)) <= PASSED_ON
    assert await value(pooled.database, "SELECT count(*) FROM pg_prepared_statements WHERE name <> ''") == 0


def test_no_statement_depends_on_session_state():
    texts = {path.name: path.read_text().replace("TEMPORARY ON DATABASE", "") for path in LEDGER.rglob("*.py")}
    texts["connections.py"] = texts["connections.py"].partition("async def _set_mode")[0]  # not used with a pooler
    del texts["plans.py"]
    found = {name: SESSION_STATE.search(text) for name, text in texts.items()}  # a privilege, not a temporary table

    assert {name: match.group() for name, match in found.items() if match} == {}


@pytest.mark.parametrize("pooler", ["none", "transaction"])
async def test_every_transaction_is_bounded(settings, pooler):
    url = settings.database_url.get_secret_value()
    database = Database(url, timeout=timedelta(seconds=0.25), pooler=pooler)
    if pooler == "transaction":
        forget_sessions(database)
    try:
        for _ in range(2):  # the second iteration uses an existing connection
            assert await value(database, "SHOW transaction_timeout") == "250ms"
            assert await value(database, "SHOW idle_in_transaction_session_timeout") == "15s"
        with pytest.raises(Unavailable):
            await value(database, "SELECT 1 FROM pg_sleep(2)")
    finally:
        await database.aclose()


@pytest.fixture
async def other(settings):
    """Yield the URL of an empty database."""
    address = make_url(settings.database_url.get_secret_value())
    name = f"other_{uuid4().hex}"
    connection = await asyncpg.connect(settings.database_url.get_secret_value())
    await connection.execute(f"CREATE DATABASE {name}")
    yield address.set(database=name).render_as_string(hide_password=False)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


async def test_concurrent_migrations_release_locks_per_transaction(other):
    database = Database(other, timeout=None, pooler="transaction")
    forget_sessions(database)
    try:
        await asyncio.gather(*(migrate(database) for _ in range(3)))

        assert await value(database, "SELECT count(*) FROM alembic_version") == 1
        assert await value(database, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
    finally:
        await database.aclose()


@guards(
    "shared/ledger/postgres/database.py",
    "if await _try_lock(connection, which):",
    "if await lock(connection, which) is None:",
    means="a process that waits for migrations has a transaction",
)
@pytest.mark.parametrize("waiting", [migrate, partial(make_app_role, password="secret")])
async def test_process_that_waits_for_migrations_has_no_transaction(other, waiting):
    """An index that is built `CONCURRENTLY` may wait for each of its transactions, so none may last."""
    database, holder = Database(other, timeout=None), Database(other, timeout=None)
    transactions_now = """
        SELECT coalesce(array_agg((pid, xact_start)::text), '{}') FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
    """
    await migrate(holder)
    try:
        async with begin_alone(holder, AdvisoryLock.MIGRATION) as connection:
            held = (
                await connection.execute(
                    Statement("SELECT (pid, xact_start)::text FROM pg_stat_activity WHERE pid = pg_backend_pid()")
                )
            ).scalar_one()

            async def transactions():
                return set(await value(holder, transactions_now)) - {held}

            waiter = asyncio.create_task(waiting(database))
            await eventually(transactions)
            for _ in range(5):
                seen = await transactions()
                await eventually(lambda seen=seen: has_ended(transactions, seen))
            assert not waiter.done()
        await waiter
    finally:
        await database.aclose()
        await holder.aclose()


async def has_ended(transactions, seen):
    return not seen & await transactions()


async def test_exhausted_postgresql_connections_are_reported(settings):
    role, url = f"few_{uuid4().hex}", settings.database_url.get_secret_value()
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x' CONNECTION LIMIT 1")
    address = make_url(url).set(username=role, password="x").render_as_string(hide_password=False)
    few = Database(address)
    try:
        async with few.begin():
            with capture_logs() as logs, pytest.raises(Unavailable, match="has no connection left: raise its max_conn"):
                await few.ping()
    finally:
        await few.aclose()
        await connection.execute(f"DROP ROLE {role}")
        await connection.close()

    assert [entry["kind"] for entry in logs if entry["event"] == "ledger.answered"] == ["TooManyConnectionsError"]


@pytest.mark.parametrize(
    ("role", "set_to", "expected"),
    [
        ("api", None, 10),
        ("scheduler", None, 10),
        ("parse", None, 4),
        ("generate", None, 4),
        ("index", None, 4),
        ("generate", 2, 2),
        ("api", 30, 30),
    ],
)
async def test_connection_pool_size_depends_on_role(settings, monkeypatch, role, set_to, expected):
    sizes = []

    class Counted(Database):
        def __init__(self, url, **options):
            super().__init__(url, **options)
            sizes.append(self.pool.size)

    monkeypatch.setattr(parts, "Database", Counted)
    async with build(role, settings.model_copy(update={"database_pool_size": set_to}), FEATURES):
        assert sizes == [expected]
