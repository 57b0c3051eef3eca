"""Servers of PostgreSQL that the ledger ran on, collections whose points must be repaired, and raised fencing tokens.

The previous release runs on this schema. It notices no failover and no lost points, and its tokens rise above the clock
only when a process of this release connects.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
min_revision = "0003"

# A sequence is read without its lock, so only one session raises it at a time. Tokens of the last ten milliseconds are
# left alone: a claim may draw some between the comparison and the change, and the sequence must never go back.
_RAISE_TOKENS = """
CREATE FUNCTION raise_tokens() RETURNS void LANGUAGE plpgsql AS $$
DECLARE clock bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RAISE EXCEPTION USING ERRCODE = 'read_only_sql_transaction', MESSAGE = 'this server is a standby';
    END IF;
    IF NOT has_sequence_privilege('fencing', 'UPDATE') THEN
        RETURN;  -- a parse worker, which must not be able to lower them
    END IF;
    IF (SELECT last_value FROM fencing) < clock - 10000 THEN
        PERFORM pg_advisory_xact_lock(7065015);
        clock := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
        IF (SELECT last_value FROM fencing) < clock - 10000 THEN
            PERFORM setval('fencing', clock);
        END IF;
    END IF;
END $$
"""


def upgrade() -> None:
    # The newest row is the server on which the scheduler has verified the collections.
    op.execute("""
        CREATE TABLE servers (
            id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT pk_servers PRIMARY KEY,
            system text,  -- its identifier; null if the role may not read it
            timeline text,  -- changes when a standby is promoted and when a backup is restored; null likewise
            first_seen_at timestamptz NOT NULL DEFAULT now()
        )
    """)
    op.add_column("collections", sa.Column("damage", sa.Text()))  # failover, lost_points; null if none is known
    op.add_column("collections", sa.Column("damaged_at", sa.DateTime(timezone=True)))
    op.add_column("collections", sa.Column("repair_due_at", sa.DateTime(timezone=True)))  # null: none is due
    # The damage ends with a repair that starts later: late writers of lost claims have stopped by then.
    op.add_column("collections", sa.Column("repair_after", sa.DateTime(timezone=True)))
    op.add_column("collections", sa.Column("repair_id", sa.Uuid()))  # the verification that repairs it
    op.execute(_RAISE_TOKENS)
