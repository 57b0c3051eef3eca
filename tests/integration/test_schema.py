"""Migrations: revisions, locks and concurrent runs."""

import asyncio
import re
import shutil
from io import StringIO
from uuid import uuid4

import asyncpg
import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import text

from shared.domain.errors import InvalidInput, Unavailable
from shared.ledger.postgres import revision, schema
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.schema import _MIGRATIONS


def test_code_revision_is_newest_migration():
    assert ScriptDirectory(_MIGRATIONS).get_current_head() == revision.REVISION


@pytest.mark.parametrize(
    ("revision_in_code", "message"),
    [
        ("0000", "at revision 0001 and this code supports 0000: run the release that migrated it"),
        ("0002", "at revision 0001 and this code needs 0002: run `foreask schema`"),
    ],
)
async def test_schema_of_other_release_is_reported(services, monkeypatch, revision_in_code, message):
    await revision.require_current(services.database)

    monkeypatch.setattr(revision, "REVISION", revision_in_code)
    with pytest.raises(InvalidInput, match=message):
        await revision.require_current(services.database)


async def test_missing_schema_is_reported(services, monkeypatch):
    monkeypatch.setattr(revision, "_REVISION", text("SELECT version_num FROM nowhere.alembic_version"))
    with pytest.raises(InvalidInput, match="has no schema: run `foreask schema`"):
        await revision.require_current(services.database)


# --- migrations of a ledger in use ---

# Reads the revision of a ledger.
REVISION = text("SELECT version_num FROM alembic_version")

# Writes a row.
INSERT_ROW = text("INSERT INTO completions (content_key, tenant, model, questions) VALUES (:key, 'alice', 'm', '{}')")

# Returns a row if an index creation waits for a writer.
BUILDING = text("""
    SELECT 1 FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND wait_event_type = 'Lock'
""")

# Returns whether the index is complete.
VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = CAST('ix_completions_colour' AS regclass)")

HEAD = '"""A migration."""\n\nimport sqlalchemy as sa\nfrom alembic import op\n\n'
COLUMN = 'op.add_column("completions", sa.Column("colour", sa.Text()))'
INDEX = 'op.create_index("ix_completions_colour", "completions", ["colour"])'
CONCURRENT_INDEX = (
    "with op.get_context().autocommit_block():\n"
    '        op.drop_index("ix_completions_colour", if_exists=True, postgresql_concurrently=True)\n'
    '        op.create_index("ix_completions_colour", "completions", ["colour"], postgresql_concurrently=True)'
)
INDEX_OF_NEW_TABLE = 'op.create_table("colours", sa.Column("name", sa.Text()))\n    ' + INDEX.replace(
    "completions", "colours"
)


def revisions(folder, *upgrades):
    """Return a folder of migrations with more migrations after the first one."""
    shutil.copytree(_MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for number, upgrade in enumerate(upgrades, start=2):
        named = f'revision = "{number:04}"\ndown_revision = "{number - 1:04}"\n'
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
    new = set(re.findall(r"CREATE TABLE (\w+)", written.getvalue()))
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


@pytest.fixture
async def ledger(services):
    """Yield a separate ledger at the first revision."""
    name, url = f"upgraded_{uuid4().hex}", services.settings.database_url.get_secret_value()
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE DATABASE {name}")
    database = Database(f"{url.rpartition('/')[0]}/{name}", timeout=None)
    await schema.migrate(database.engine)
    yield database
    await database.aclose()
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


async def test_migration_bounds_lock_waits_and_indexes_concurrently(ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "_MIGRATIONS", revisions(tmp_path / "one", COLUMN))
    monkeypatch.setattr(schema, "_LOCK_TIMEOUT", "100ms")
    async with ledger.begin() as reader:  # like a backup
        await reader.execute(text("SELECT 1 FROM completions"))
        async with asyncio.timeout(30):
            with pytest.raises(Unavailable, match="run it again"):
                await schema.migrate(ledger.engine)
    assert await ledger.rows(REVISION) == [{"version_num": "0001"}]
    await schema.migrate(ledger.engine)

    monkeypatch.setattr(schema, "_MIGRATIONS", revisions(tmp_path / "two", COLUMN, CONCURRENT_INDEX))
    async with ledger.begin() as writer:
        await writer.execute(INSERT_ROW, {"key": b"a"})
        migrating = asyncio.gather(*(schema.migrate(ledger.engine) for _ in range(2)))
        async with asyncio.timeout(30):
            while not await ledger.rows(BUILDING):
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)  # longer than other migrations wait for a lock
        async with asyncio.timeout(30), ledger.begin() as other:
            await other.execute(INSERT_ROW, {"key": b"b"})
    await migrating
    assert await ledger.rows(REVISION) == [{"version_num": "0003"}]
    assert await ledger.rows(VALID) == [{"indisvalid": True}]
