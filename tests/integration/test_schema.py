"""The migrations make the tables that the code is written against."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from shared.ledger.tables import metadata


async def test_migrations_lead_to_the_declared_tables(services):
    async with services.database.engine.connect() as connection:
        different = await connection.run_sync(lambda sync: compare_metadata(MigrationContext.configure(sync), metadata))

    assert different == []
