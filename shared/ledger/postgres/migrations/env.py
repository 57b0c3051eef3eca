"""Alembic's entry point: `shared.ledger.postgres.schema.migrate` passes a connection.

Without one, as in `alembic -c alembic.ini current`, the ledger of `FOREASK_DATABASE_URL` is opened; `--sql` opens none.

Each migration is one transaction. An index on a table with rows needs its own migration, outside a transaction:

    with op.get_context().autocommit_block():
        op.drop_index("ix_documents_lane", if_exists=True, postgresql_concurrently=True)
        op.create_index("ix_documents_lane", "documents", ["lane"], postgresql_concurrently=True)

Each migration declares `min_revision`, the revision of the oldest code that may run on its schema. While a release
replaces another one, both run on the new schema. A migration therefore only adds objects that the previous release can
ignore: tables, indexes, and columns that are nullable or have a default. An old column is dropped one release after the
last code that uses it; the `min_revision` of that migration is the first code without it. CONTRIBUTING.md has an
example.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from alembic import context
from sqlalchemy import Connection, text

from shared.ledger.postgres.database import Database
from shared.ledger.postgres.schema import connected, migrating_alone
from shared.settings import load, require

# Delete the previous declaration.
FORGET = text("DELETE FROM schema_compat")

# Record the oldest code that may run on the schema.
RECORD = text("INSERT INTO schema_compat (min_revision) VALUES (:min_revision)")


def record_min_revision(ctx: Any, step: Any, heads: Collection[Any], run_args: Mapping[str, Any]) -> None:
    """Store the declaration of a migration in the migration's transaction."""
    del heads, run_args
    ctx.impl.execute(FORGET)
    ctx.impl.execute(RECORD.bindparams(min_revision=step.up_revision.module.min_revision))


def run(connection: Connection | None = None) -> None:
    """Run the command on a connection, or print its statements."""
    context.configure(
        connection=connection,
        dialect_name="postgresql",
        literal_binds=context.is_offline_mode(),
        transaction_per_migration=True,
        on_version_apply=record_min_revision,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_on_ledger() -> None:
    settings = load()
    url = require(settings.database_url, "FOREASK_DATABASE_URL").get_secret_value()
    database = Database(url, timeout=None, pooler=settings.database_pooler)
    try:
        async with migrating_alone(database), connected(database) as connection:
            await connection.run_sync(run)
    finally:
        await database.aclose()


passed: Connection | None = context.config.attributes.get("connection")
if context.is_offline_mode() or passed is not None:
    run(passed)
else:
    asyncio.run(run_on_ledger())
