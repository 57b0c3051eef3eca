"""Migrations: revisions, locks, and several releases at the same time."""

import asyncio
import os
import re
import shutil
from contextlib import asynccontextmanager
from datetime import timedelta
from io import StringIO
from uuid import uuid4

import asyncpg
import pytest
from alembic.config import CommandLine, Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from cli.commands import server
from features.all import FEATURES
from shared.domain.errors import Unavailable
from shared.domain.states import DocumentState
from shared.ledger.__main__ import run as run_schema
from shared.ledger.documents.documents import Documents
from shared.ledger.explain import all_statements
from shared.ledger.postgres import revision, schema
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.migrations.comments import statements_of
from shared.ledger.postgres.revision import SchemaNewer, SchemaOutdated
from shared.ledger.postgres.schema import _MIGRATIONS
from shared.ledger.postgres.statements import Statement
from shared.services import build
from tests.conftest import Library
from tests.support.api import work
from tests.support.planted import guards
from tests.support.tables import columns
from tests.support.waiting import TIMEOUT_SECONDS, eventually

HEAD_REVISION = revision.REVISION
NEXT = f"{int(HEAD_REVISION) + 1:04}"  # the revision of the next release


def test_code_revision_is_newest_migration():
    assert ScriptDirectory(_MIGRATIONS).get_current_head() == revision.REVISION


async def test_older_schema_is_reported(services, monkeypatch):
    assert await revision.require_schema(services.database) is False

    monkeypatch.setattr(revision, "REVISION", "0999")
    with pytest.raises(SchemaOutdated, match=f"at revision {HEAD_REVISION} and this code needs 0999: run `foreask sch"):
        await revision.require_schema(services.database)


async def test_missing_schema_is_reported(services, monkeypatch):
    monkeypatch.setattr(revision, "_REVISION", Statement("SELECT version_num FROM nowhere.alembic_version"))
    with pytest.raises(SchemaOutdated, match="has no schema: run `foreask schema`"):
        await revision.require_schema(services.database)


# --- migrations of a ledger in use ---

# Reads the revision of a ledger.
REVISION = Statement("SELECT version_num FROM alembic_version")

# Writes a row.
INSERT_ROW = Statement(
    "INSERT INTO completions (content_key, tenant, model, questions) VALUES (:key, 'alice', 'm', '{}')"
)

# Returns a row if an index creation waits for a writer.
BUILDING = Statement("""
    SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'
""")

# Returns whether the index is complete.
VALID = Statement("SELECT indisvalid FROM pg_index WHERE indexrelid = CAST('ix_completions_colour' AS regclass)")

HEAD = '"""A migration."""\n\nimport sqlalchemy as sa\nfrom alembic import op\n\n'
COLUMN = 'op.add_column("completions", sa.Column("colour", sa.Text()))'
INDEX = 'op.create_index("ix_completions_colour", "completions", ["colour"])'
TABLE = 'op.create_table("colours", sa.Column("name", sa.Text()))'
CONCURRENT_INDEX = (
    "with op.get_context().autocommit_block():\n"
    '        op.drop_index("ix_completions_colour", if_exists=True, postgresql_concurrently=True)\n'
    '        op.create_index("ix_completions_colour", "completions", ["colour"], postgresql_concurrently=True)'
)
INDEX_OF_NEW_TABLE = 'op.create_table("colours", sa.Column("name", sa.Text()))\n    ' + INDEX.replace(
    "completions", "colours"
)


def revisions(folder, *upgrades, oldest=HEAD_REVISION):
    """Return a folder of migrations with more of them after the newest one; `oldest` is the oldest code for these."""
    shutil.copytree(_MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for number, upgrade in enumerate(upgrades, start=int(HEAD_REVISION) + 1):
        named = f'revision = "{number:04}"\ndown_revision = "{number - 1:04}"\nmin_revision = "{oldest}"\n'
        code = f"{HEAD}{named}\n\ndef upgrade() -> None:\n    {upgrade}\n"
        (folder / "versions" / f"{number:04}_more.py").write_text(code)
    return folder


def long_locks(folder):
    """Return the statements of later migrations that lock a table while they read its rows."""
    found = []
    for script in ScriptDirectory(folder).walk_revisions():
        if script.down_revision is not None:
            found += _long_locks(script)
    return found


def _long_locks(script):
    written = StringIO()
    context = MigrationContext.configure(
        dialect_name="postgresql", opts={"as_sql": True, "output_buffer": written, "transactional_ddl": True}
    )
    with Operations.context(context):
        script.module.upgrade()
    statements = [each.strip() for each in written.getvalue().split(";")]
    new = set(re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)", written.getvalue()))
    for each in statements:
        index = re.match(r"CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?.*? ON (\w+)", each)
        if index and not index[1] and index[2] not in new:
            yield each
        added = re.match(r"ALTER TABLE (\w+) ADD CONSTRAINT", each)
        if added and added[1] not in new and not re.search(r"NOT VALID$|USING INDEX", each):
            yield each
    if any("CONCURRENTLY" in each for each in statements):  # other statements of the migration would be applied twice
        yield from (each for each in statements if "CONCURRENTLY" not in each and each not in ("", "BEGIN", "COMMIT"))


def test_migrations_take_no_long_table_locks():
    assert long_locks(_MIGRATIONS) == []


@pytest.mark.parametrize(
    ("upgrade", "found"),
    [
        (COLUMN, None),
        (CONCURRENT_INDEX, None),
        (INDEX_OF_NEW_TABLE, None),
        (INDEX, "CREATE INDEX ix_completions_colour"),
        (f"{COLUMN}\n    {CONCURRENT_INDEX}", "ALTER TABLE completions ADD COLUMN"),
        ('op.create_unique_constraint("uq_completions_tenant", "completions", ["tenant"])', "ADD CONSTRAINT"),
    ],
)
def test_long_locking_migration_is_detected(tmp_path, upgrade, found):
    assert [found is not None and found in each for each in long_locks(revisions(tmp_path / "m", upgrade))] == (
        [True] if found else []
    )


@pytest.fixture(scope="module")
async def migrated(session_services):
    """Yield the name of a database with this code's schema: a copy takes half the time of the migration."""
    async with empty_database(session_services) as database:
        await schema.migrate(database)
        await database.aclose()  # PostgreSQL copies no database that has connections
        yield database._arguments["database"]


@pytest.fixture
async def ledger(services, migrated):
    """Yield a separate ledger with this code's schema."""
    async with empty_database(services, migrated) as database:
        yield database


@asynccontextmanager
async def empty_database(services, template="template1"):
    name, url = f"upgraded_{uuid4().hex}", services.settings.database_url.get_secret_value()
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    database = Database(f"{url.rpartition('/')[0]}/{name}", timeout=None)
    try:
        yield database
    finally:
        await database.aclose()
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()


async def test_migration_bounds_lock_waits_and_indexes_concurrently(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "_MIGRATIONS", revisions(tmp_path / "one", COLUMN))
    monkeypatch.setattr(schema, "_LOCK_TIMEOUT", "100ms")
    async with ledger.begin() as reader:  # holds a lock for long, like a backup
        await reader.execute(Statement("SELECT 1 FROM completions"))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with pytest.raises(Unavailable, match="run it again"):
                await schema.migrate(ledger)
    assert [dict(row) for row in await ledger.rows(REVISION)] == [{"version_num": HEAD_REVISION}]
    await schema.migrate(ledger)

    monkeypatch.setattr(schema, "_MIGRATIONS", revisions(tmp_path / "two", COLUMN, CONCURRENT_INDEX))
    async with ledger.begin() as writer:
        await writer.execute(INSERT_ROW, {"key": b"a"})
        migrating = asyncio.gather(*(schema.migrate(ledger) for _ in range(2)))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await ledger.rows(BUILDING):
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)  # longer than other migrations wait for a lock
        async with asyncio.timeout(TIMEOUT_SECONDS), ledger.begin() as other:
            await other.execute(INSERT_ROW, {"key": b"b"})
    await migrating
    assert [dict(row) for row in await ledger.rows(REVISION)] == [{"version_num": f"{int(HEAD_REVISION) + 2:04}"}]
    assert [dict(row) for row in await ledger.rows(VALID)] == [{"indisvalid": True}]


@guards(
    "shared/ledger/postgres/migrations/versions/0001_the_ledger.py",
    "int(error.position)",
    "0",
    means="a mistake in the schema is reported without its line",
)
async def test_mistake_in_schema_is_reported_with_line(services, tmp_path, monkeypatch):
    migrations = revisions(tmp_path / "m")
    correct, (before, after) = (migrations / "schema.sql").read_text(), ("sha256(convert_to(", "sha257(convert_to(")
    assert before in correct  # in the body of a function
    (migrations / "schema.sql").write_text(correct.replace(before, after))
    monkeypatch.setattr(schema, "_MIGRATIONS", migrations)

    async with empty_database(services) as database:
        with pytest.raises(asyncpg.UndefinedFunctionError) as raised:
            await schema.migrate(database)
        assert [
            dict(row)
            for row in await database.rows(Statement("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        ] == []

    line = 1 + correct[: correct.index(before)].count("\n")
    assert raised.value.__notes__ == [f"schema.sql, line {line}"]


# --- the view of a database administrator ---

# The tables and columns without a comment, and the tables without one.
WITHOUT_COMMENT = Statement("""
    SELECT c.relname || coalesce('.' || a.attname, '') AS name
    FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE c.relnamespace = CAST('public' AS regnamespace) AND c.relkind IN ('r', 'p')
      AND col_description(c.oid, a.attnum) IS NULL
    UNION ALL
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = CAST('public' AS regnamespace) AND c.relkind IN ('r', 'p')
      AND obj_description(c.oid, 'pg_class') IS NULL
""")


async def alembic(*arguments):
    """Return the output of Alembic's own command line, which runs without an event loop."""
    program, written = CommandLine("alembic"), StringIO()
    chosen = program.parser.parse_args(arguments)
    configured = Config(_MIGRATIONS / "alembic.ini", stdout=written, output_buffer=written, cmd_opts=chosen)
    await asyncio.to_thread(program.run_cmd, configured, chosen)
    return written.getvalue()


@guards(
    "shared/ledger/postgres/migrations/versions/0001_the_ledger.py",
    ", *comments.statements_of(sql)",
    "",
    means="psql shows no comments of tables and columns",
)
async def test_every_table_and_column_has_comment(ledger):
    assert [row.name for row in await ledger.rows(WITHOUT_COMMENT)] == []
    (chunk,) = await ledger.rows(
        Statement("""
        SELECT col_description(CAST('chunks_open' AS regclass), attnum) AS due_at FROM pg_attribute
        WHERE attrelid = CAST('chunks_open' AS regclass) AND attname = 'due_at'
    """)
    )
    assert chunk.due_at.startswith("time from which the row may be claimed")


def test_column_without_comment_is_refused():
    sql = "-- A table.\nCREATE TABLE things (\n    colour text\n);\n"

    with pytest.raises(KeyError, match="colour"):
        list(statements_of(sql))
    assert list(statements_of(sql.replace("text", "text  -- what's seen"))) == [
        "COMMENT ON TABLE things IS 'A table.';",
        "COMMENT ON COLUMN things.colour IS 'what''s seen';",
    ]


async def test_offline_sql_of_alembic_creates_schema(services, monkeypatch):
    monkeypatch.setenv("FOREASK_DATABASE_URL", "")
    sql = await alembic("upgrade", "head", "--sql")
    async with empty_database(services) as ledger:
        async with ledger.pool.lend() as connection:
            await connection.driver.execute(sql)

        assert await revision.require_schema(ledger) is False
        assert [row.name for row in await ledger.rows(WITHOUT_COMMENT)] == []


async def test_alembic_shows_revision_of_configured_ledger(services, monkeypatch):
    assert await alembic("heads") == f"{HEAD_REVISION} (head)\n"
    assert (await alembic("history")).startswith("<base> -> 0001")
    async with empty_database(services) as empty:
        monkeypatch.setenv("FOREASK_DATABASE_URL", url_of(empty))
        assert await alembic("current") == ""
        await alembic("upgrade", "head")
        assert await alembic("current") == f"{HEAD_REVISION} (head)\n"
        assert await revision.require_schema(empty) is False


# --- two releases at the same time ---

# The oldest code that may run on the schema.
COMPAT = Statement("SELECT min_revision FROM schema_compat")
SOON = timedelta(seconds=0.02)


class ReadCounter:
    """A clock that does not advance and counts its reads; each failed check reads it."""

    def __init__(self):
        self.reads = 0

    def __call__(self):
        self.reads += 1
        return 0.0


def url_of(database):
    parts = {"password": "", **database._arguments}
    return "postgresql://{user}:{password}@{host}:{port}/{database}".format(**parts)


def test_every_migration_declares_oldest_code_for_it():
    scripts = sorted(ScriptDirectory(_MIGRATIONS).walk_revisions(), key=lambda script: script.revision)
    declared = [script.module.min_revision for script in scripts]

    assert declared == sorted(declared)
    assert all(oldest <= script.revision for oldest, script in zip(declared, scripts, strict=True))


async def test_code_ingests_on_schema_of_next_release(services, ledger, provider, tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "_MIGRATIONS", revisions(tmp_path / "m", COLUMN, TABLE))
    settings = services.settings.model_copy(update={"database_url": SecretStr(url_of(ledger))})
    async with build("all", settings, FEATURES) as running:
        library = Library(running)
        before = await library.add("# Leave\n\nThirty days of leave.", "a.md")
        await schema.migrate(ledger)  # while this release runs
        after = await library.add("# Trains\n\nTrains leave at seven.", "b.md")
        await work(running)
        states = [(await running.ledger[Documents].get("default", each.id)).state for each in (before, after)]
        restarted = await revision.require_schema(running.database)

    assert [dict(row) for row in await ledger.rows(REVISION)] != [{"version_num": HEAD_REVISION}]
    assert [dict(row) for row in await ledger.rows(COMPAT)] == [{"min_revision": HEAD_REVISION}]
    assert states == [DocumentState.READY] * 2
    assert restarted is True


@guards(
    "shared/ledger/postgres/schema.py",
    "        yield\n",
    "        yield\n        await lock_connection.execute(_RAISE_TOKENS)\n",
    means="the lock of the migrations does not see the function that a migration creates",
)
async def test_migration_may_create_function_that_raises_tokens(ledger, tmp_path, monkeypatch):
    (definition,) = await ledger.rows(Statement("SELECT pg_get_functiondef('raise_tokens()'::regprocedure) AS sql"))
    async with ledger.begin() as connection:
        await connection.execute(Statement("DROP FUNCTION raise_tokens()"))
    await ledger.pool.aclose()  # each connection looks for the function when it opens
    monkeypatch.setattr(schema, "_MIGRATIONS", revisions(tmp_path / "more", f"op.execute({definition.sql!r})"))

    await schema.migrate(ledger)

    (row,) = await ledger.rows(Statement("SELECT to_regprocedure('raise_tokens()') IS NOT NULL AS found"))
    assert row.found


async def test_added_columns_change_no_result_of_statements(ledger):
    """PostgreSQL refuses a cached plan whose result has changed, so running code must not return `*`."""
    found = all_statements()
    async with ledger.pool.lend() as connection:
        driver = connection.driver

        async def results():
            prepared = {name: await driver.prepare(each.sql) for name, each in found.items()}
            return {name: [column.name for column in each.get_attributes()] for name, each in prepared.items()}

        before = await results()
        for table in await columns(connection):
            await driver.execute(f"ALTER TABLE {table} ADD COLUMN added text")
        after = await results()

    assert len(found) > 300
    assert {name for name in found if before[name] != after[name]} == set()


async def test_code_refuses_schema_that_needs_newer_code(ledger, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(schema, "_MIGRATIONS", revisions(tmp_path / "m", COLUMN, oldest=NEXT))
    await schema.migrate(ledger)

    said = f"at revision {NEXT}, which needs code of revision {NEXT} or newer, and this code has {HEAD_REVISION}: run"
    with pytest.raises(SchemaNewer, match=said):
        await revision.require_schema(ledger)
    with pytest.raises(SchemaNewer):
        await revision.wait_for_schema(ledger, timedelta(hours=1))

    monkeypatch.setenv("FOREASK_DATABASE_URL", url_of(ledger))
    for arguments in ([], ["--wait", "3600"]):
        with pytest.raises(SystemExit) as stopped:
            await asyncio.to_thread(run_schema, arguments)
        assert stopped.value.code == 3
        assert said in capsys.readouterr().err


async def test_older_release_does_not_change_newer_schema(ledger, tmp_path, monkeypatch, capsys):
    """A rollback runs the old release's `foreask schema`; its roles must not lose rights that newer code uses."""
    with monkeypatch.context() as newer:
        newer.setattr(schema, "_MIGRATIONS", revisions(tmp_path / "m", COLUMN))
        await schema.migrate(ledger)
    monkeypatch.setenv("FOREASK_DATABASE_URL", url_of(ledger))

    await asyncio.to_thread(run_schema, [])

    assert "which can run on it: nothing is changed" in capsys.readouterr().out
    assert [dict(row) for row in await ledger.rows(REVISION)] == [{"version_num": NEXT}]


async def test_wait_returns_when_schema_and_role_appear(services):
    async with empty_database(services) as ledger:
        url = make_url(url_of(ledger)).set(username=f"app_{uuid4().hex}", password="x")
        late = Database(url.render_as_string(hide_password=False), pool_size=1)
        clocks = (ReadCounter(), ReadCounter())
        waiting = [
            asyncio.create_task(revision.wait_for_schema(database, timedelta(hours=1), clock, SOON))
            for database, clock in zip((ledger, late), clocks, strict=True)
        ]
        await eventually(lambda: min(clock.reads for clock in clocks) > 10)  # several checks have failed
        assert not any(task.done() for task in waiting)
        await schema.migrate(ledger)
        await waiting[0]
        assert not waiting[1].done()

        role = url.username
        async with ledger.begin() as connection:
            await connection.execute_sql(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
        async with ledger.begin() as connection:
            await connection.execute_sql(f"GRANT SELECT ON alembic_version TO {role}")
        await waiting[1]
        await late.aclose()
        async with ledger.begin() as connection:
            await connection.execute_sql(f"DROP OWNED BY {role}")
            await connection.execute_sql(f"DROP ROLE {role}")


@guards(
    "shared/ledger/postgres/revision.py",
    "except (SchemaOutdated, Unavailable):",
    "except SchemaOutdated:",
    means="a process that waits for the schema fails while the ledger is unavailable",
)
async def test_wait_outlasts_unavailable_ledger_until_its_time():
    unavailable = Database("postgresql://nobody:x@127.0.0.1:1/none", pool_size=1)
    clock = ReadCounter()
    waiting = asyncio.create_task(revision.wait_for_schema(unavailable, timedelta(hours=1), clock, SOON))
    await eventually(lambda: clock.reads > 10 or waiting.done())
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    async with asyncio.timeout(TIMEOUT_SECONDS):
        with pytest.raises(Unavailable):  # a pause does not exceed the time
            await revision.wait_for_schema(unavailable, timedelta(seconds=0.1), poll=timedelta(hours=1))
    await unavailable.aclose()


def test_schema_command_passes_its_time(monkeypatch):
    started = []
    monkeypatch.setattr(os, "execv", lambda _, arguments: started.append(arguments[1:]))

    for wait in (None, 2.5):
        server.schema(wait)

    assert started == [["-m", "shared.ledger"], ["-m", "shared.ledger", "--wait", "2.5"]]


async def test_wait_fails_with_sentence_after_its_time(services, monkeypatch):
    async with empty_database(services) as ledger:
        monkeypatch.setenv("FOREASK_DATABASE_URL", url_of(ledger))
        with pytest.raises(SystemExit, match=r"Waited up to 0\.1 s for the schema: The ledger has no schema: run"):
            await asyncio.to_thread(run_schema, ["--wait", "0.1"])
        assert [
            dict(row) for row in await ledger.rows(Statement("SELECT 1 FROM pg_tables WHERE schemaname = 'public'"))
        ] == []

        monkeypatch.setenv("FOREASK_DATABASE_URL", "postgresql://nobody:x@127.0.0.1:1/none")
        with pytest.raises(
            SystemExit, match=r"Waited up to 0 s for the schema: the ledger \(PostgreSQL\) is not avail"
        ):
            await asyncio.to_thread(run_schema, ["--wait", "0"])
