"""Alembic's entry point: runs on the connection that `shared.ledger.postgres.schema.migrate` passes.

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

from collections.abc import Collection, Mapping
from typing import Any

from alembic import context
from sqlalchemy import text

# Delete the previous declaration.
FORGET = text("DELETE FROM schema_compat")

# Record the oldest code that may run on the schema.
RECORD = text("INSERT INTO schema_compat (min_revision) VALUES (:min_revision)")


def record_min_revision(ctx: Any, step: Any, heads: Collection[Any], run_args: Mapping[str, Any]) -> None:
    """Store the declaration of a migration in the migration's transaction."""
    del heads, run_args
    ctx.connection.execute(FORGET)
    ctx.connection.execute(RECORD, {"min_revision": step.up_revision.module.min_revision})


context.configure(
    connection=context.config.attributes["connection"],
    transaction_per_migration=True,
    on_version_apply=record_min_revision,
)
with context.begin_transaction():
    context.run_migrations()
