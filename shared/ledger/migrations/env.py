"""Alembic's entry: runs on the connection that `shared.ledger.schema.migrate` hands over."""

from alembic import context

from shared.ledger.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
