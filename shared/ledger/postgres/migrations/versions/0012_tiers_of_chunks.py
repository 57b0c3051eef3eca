"""The tokens of a chunk's calls by tier, from which its costs and the costs of its document follow."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
min_revision = "0003"


def upgrade() -> None:
    # Null if all calls were of the standard tier and used no prompt cache: see `shared/ledger/model/tier_tokens.py`.
    op.add_column("chunks", sa.Column("tier_tokens", postgresql.ARRAY(sa.Integer())))
