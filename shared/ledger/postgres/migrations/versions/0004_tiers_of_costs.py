"""The tier of the replies, the tokens of the prompt cache and the job, of each cost.

The tables are altered in the order in which workers write them, so that no worker waits in a circle with this.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
min_revision = "0003"

_NO_JOB = "00000000-0000-0000-0000-000000000000"  # in a key, which has no nulls

# Record how a statement changes the sums of `spent`. Rows of the previous release are of the standard tier.
_COUNT = """
CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO spent_changes (tenant, collection_id, kind, model, tier, job_id, prompt_tokens, completion_tokens,
                               cached_tokens, written_tokens, calls)
    SELECT tenant, collection_id, kind, model, tier, job_id, sum(sign * prompt_tokens), sum(sign * completion_tokens),
           sum(sign * cached_tokens), sum(sign * written_tokens), sum(sign * calls)
    FROM ({rows}) r
    GROUP BY tenant, collection_id, kind, model, tier, job_id
    HAVING (sum(sign * prompt_tokens), sum(sign * completion_tokens), sum(sign * cached_tokens),
            sum(sign * written_tokens), sum(sign * calls)) <> (0, 0, 0, 0, 0);
    RETURN NULL;
END $$
"""
_NEW = "SELECT *, 1 AS sign FROM new_rows"
_OLD = "SELECT *, -1 AS sign FROM old_rows"


def upgrade() -> None:
    for table, tokens in (
        ("spent", sa.Integer()),
        ("spent_changes", sa.BigInteger()),
        ("spent_by_day", sa.BigInteger()),
    ):
        op.add_column(table, sa.Column("tier", sa.Text(), nullable=False, server_default="standard"))
        op.add_column(table, sa.Column("cached_tokens", tokens, nullable=False, server_default="0"))
        op.add_column(table, sa.Column("written_tokens", tokens, nullable=False, server_default="0"))
    op.add_column("spent", sa.Column("job_id", sa.Uuid()))
    op.add_column("spent_changes", sa.Column("job_id", sa.Uuid()))
    op.add_column("spent_by_day", sa.Column("job_id", sa.Uuid(), nullable=False, server_default=_NO_JOB))
    op.execute(_COUNT.format(name="count_spent_insert", rows=_NEW))
    op.execute(_COUNT.format(name="count_spent_update", rows=f"{_NEW} UNION ALL {_OLD}"))
