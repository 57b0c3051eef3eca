"""The migrations make the tables that the code is written against."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from shared.domain.errors import InvalidInput
from shared.ledger import revision
from shared.ledger.schema import _MIGRATIONS
from shared.ledger.tables import metadata

# Everything that PostgreSQL says of a schema: defaults and the predicates of partial indexes too, which Alembic's own
# comparison leaves out.
DEFINITIONS = text("""
    SELECT table_name || '.' || column_name AS name, concat_ws(' ', udt_name, is_nullable, column_default) AS definition
    FROM information_schema.columns WHERE table_schema = :schema AND table_name <> 'alembic_version'
    UNION ALL
    SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = :schema AND tablename <> 'alembic_version'
    UNION ALL
    SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = CAST(:schema AS regnamespace) AND conname NOT LIKE 'alembic_version%'
    UNION ALL
    SELECT relname, array_to_string(reloptions, ' ') FROM pg_class
    WHERE relnamespace = CAST(:schema AS regnamespace) AND relkind = 'r' AND reloptions IS NOT NULL
    UNION ALL
    SELECT sequencename, concat_ws(' ', data_type, start_value, increment_by, cycle) FROM pg_sequences
    WHERE schemaname = :schema
""")


async def definitions(connection, schema):
    """The definition of each column, index, constraint and sequence of a schema, without the schema's name."""
    await connection.execute(text("SET LOCAL search_path TO pg_catalog"))  # every name comes with its schema
    rows = await connection.execute(DEFINITIONS, {"schema": schema})
    return sorted(tuple(value.replace(f"{schema}.", "") for value in row) for row in rows)


async def test_migrations_lead_to_the_declared_tables(services):
    async with services.database.engine.connect() as connection:
        different = await connection.run_sync(lambda sync: compare_metadata(MigrationContext.configure(sync), metadata))

    assert different == []


async def test_migrations_and_tables_agree_in_defaults_and_predicates(services):
    async with services.database.engine.connect() as connection:
        await connection.execute(text("CREATE SCHEMA declared"))
        await connection.execute(text("SET LOCAL search_path TO declared"))
        await connection.run_sync(lambda sync: metadata.create_all(sync, checkfirst=False))
        declared = await definitions(connection, "declared")
        migrated = await definitions(connection, "public")
        await connection.rollback()

    assert migrated == declared
    assert len(migrated) > sum(len(table.columns) + len(table.indexes) for table in metadata.sorted_tables)


def test_the_code_names_the_newest_migration():
    assert ScriptDirectory(_MIGRATIONS).get_current_head() == revision.REVISION


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ("0000", "at revision 0001 and this code knows 0000: run the release that migrated it"),
        ("0002", "at revision 0001 and this code needs 0002: run `foreask schema`"),
    ],
)
async def test_a_schema_of_another_release_is_told(services, monkeypatch, known, said):
    await revision.require_current(services.database)

    monkeypatch.setattr(revision, "REVISION", known)
    with pytest.raises(InvalidInput, match=said):
        await revision.require_current(services.database)


async def test_a_ledger_without_a_schema_is_told(services, monkeypatch):
    monkeypatch.setattr(revision, "_REVISION", text("SELECT version_num FROM nowhere.alembic_version"))
    with pytest.raises(InvalidInput, match="has no schema: run `foreask schema`"):
        await revision.require_current(services.database)
