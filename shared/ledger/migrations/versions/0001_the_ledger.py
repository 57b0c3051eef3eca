"""The ledger: collections, documents, chunks, completions, logged queries, accepted questions and sweeps."""

from alembic import op

from shared.ledger.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
