"""Alembic's entry: runs on the connection that `shared.ledger.postgres.schema.migrate` hands over.

Each migration is a transaction. An index on a table that has rows is built in a migration of its own, without one:

    with op.get_context().autocommit_block():
        op.drop_index("ix_chunks_lane", if_exists=True, postgresql_concurrently=True)
        op.create_index("ix_chunks_lane", "chunks", ["lane"], postgresql_concurrently=True)
"""

from alembic import context

from shared.ledger.postgres.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, transaction_per_migration=True
)
with context.begin_transaction():
    context.run_migrations()
