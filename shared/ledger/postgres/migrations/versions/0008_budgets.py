"""Budgets of tenants, collections and jobs, and the amounts that calls in flight have reserved of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
# Older code would claim chunks without a reservation: a new budget holds once every worker runs the new code.
min_revision = "0003"


_JOB = "coalesce(job_id, '00000000-0000-0000-0000-000000000000')"


def upgrade() -> None:
    op.create_table(
        "budgets",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text()),  # its name, so that all builds share it; null: not limited to one
        sa.Column("job_id", sa.Uuid()),  # null: not limited to a job
        sa.Column("period", sa.Text(), nullable=False),  # day, month, total
        sa.Column("unit", sa.Text(), nullable=False),  # tokens, or billionths of the currency of the prices
        sa.Column("set_by", sa.Text(), nullable=False),  # settings, operator, tenant
        sa.Column("most", sa.BigInteger(), nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False),  # in the period that starts at `period_start`
        sa.Column("held", sa.BigInteger(), nullable=False, server_default="0"),  # sum of its rows in `budget_holds`
        # The amount that the next call needs, as far as known: with less room, no chunk is claimed.
        sa.Column("needs", sa.BigInteger(), nullable=False, server_default="1"),
        sa.Column("period_start", sa.Date(), nullable=False),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("id", name="pk_budgets"),
        # Each claim, settlement and release updates a row: the new row fits in the same page.
        postgresql_with={"fillfactor": "50"},
    )
    op.create_index(
        "uq_budgets",
        "budgets",
        ["tenant", sa.text("coalesce(collection, '')"), sa.text(_JOB), "period", "unit", "set_by"],
        unique=True,
    )
    of_parts = sa.text("collection IS NOT NULL OR job_id IS NOT NULL")
    op.create_index("ix_budgets_parts", "budgets", ["tenant"], postgresql_where=of_parts)
    op.create_table(
        "budget_holds",
        sa.Column("token", sa.BigInteger(), nullable=False),  # fencing token of the call's lease
        sa.Column("budget_id", sa.Uuid(), nullable=False),
        sa.Column("chunk_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),  # part of `budgets.held`
        sa.Column("spent", sa.BigInteger(), nullable=False, server_default="0"),  # part of `budgets.spent`
        sa.Column("lost_at", sa.TIMESTAMP(timezone=True)),  # when it was booked without a bill
        sa.PrimaryKeyConstraint("token", "budget_id", name="pk_budget_holds"),
        sa.ForeignKeyConstraint(["budget_id"], ["budgets.id"], name="fk_budget_holds_budget_id", ondelete="CASCADE"),
    )
