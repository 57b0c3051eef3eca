"""The position of an erasure, which ends in slices whatever its tenant does, and the age of outdated objects.

The previous release runs on this schema. An erasure that it finishes leaves the ids of a document's chunks in logged
queries if this release has started the erasure; they are deleted with the queries. An erasure that it has started
continues.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0027"
down_revision = "0026"
min_revision = "0003"


def upgrade() -> None:
    ids = postgresql.ARRAY(sa.UUID())
    # Ids of an erased document's chunks, which are removed from the logged queries of these builds; empty afterwards.
    op.add_column("erasures", sa.Column("chunk_ids", ids, nullable=False, server_default="{}"))
    op.add_column("erasures", sa.Column("build_ids", ids, nullable=False, server_default="{}"))
    # Drawn when the documents were deleted: calls and objects with smaller tokens may contain erased data. Null before.
    op.add_column("erasures", sa.Column("fence", sa.BigInteger()))
    op.add_column("erasures", sa.Column("fenced_at", sa.TIMESTAMP(timezone=True)))
    # {"in": table, "after": position}; null before the first search.
    op.add_column("erasures", sa.Column("search", postgresql.JSONB()))
    # Null for older rows. A default of a new column would rewrite the table.
    op.add_column("outdated_objects", sa.Column("token", sa.BigInteger()))
    op.alter_column("outdated_objects", "token", server_default=sa.text("nextval('fencing')"))
