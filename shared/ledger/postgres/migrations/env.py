"""Alembic's entry point: runs on the connection that `shared.ledger.postgres.schema.migrate` passes.

Each migration is one transaction. An index on a table with rows needs its own migration, outside a transaction:

    with op.get_context().autocommit_block():
        op.drop_index("ix_chunks_lane", if_exists=True, postgresql_concurrently=True)
        op.create_index("ix_chunks_lane", "chunks", ["lane"], postgresql_concurrently=True)
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
