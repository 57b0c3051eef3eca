"""Hints of sources, the runs that look them up, and the event of withheld deletions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
min_revision = "0003"


def _time(name: str, *, now: bool = False) -> sa.Column[object]:
    default = sa.func.clock_timestamp() if now else None
    return sa.Column(name, sa.TIMESTAMP(timezone=True), nullable=not now, server_default=default)


def _of_source(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.Uuid(), sa.ForeignKey("sources.id", ondelete="CASCADE"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "source_hints",
        _of_source("source_id"),
        sa.Column("hinted_key", sa.Text(collation="C"), nullable=False),
        _time("hinted_at", now=True),
        _time("looked_at"),  # during a listing, which may save older content: it is looked up again afterwards
        sa.PrimaryKeyConstraint("source_id", "hinted_key", name="pk_source_hints"),
    )
    # One row for each source that has had hints. The run has the id of the source, so that a source has one at most.
    op.create_table(
        "source_looks",
        _of_source("id"),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("waiting", sa.Text()),  # why it reads no more entries now
        _time("ended_at"),
        sa.PrimaryKeyConstraint("id", name="pk_source_looks"),
    )
    op.execute(_TELL_OF_JOBS)


_TELL_OF_JOBS = """
    CREATE OR REPLACE FUNCTION tell_of_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT 1 FROM webhooks) THEN
            INSERT INTO webhook_deliveries (id, webhook_id, tenant, type, collection_id, data)
            SELECT gen_random_uuid(), w.id, e.tenant, e.type, e.collection_id, e.data
            FROM (
                SELECT n.tenant, CASE n.state WHEN 'paused' THEN 'job.paused' ELSE 'job.ended' END AS type,
                       n.collection_id,
                       jsonb_build_object('job_id', n.id, 'kind', n.kind, 'collection', n.collection,
                                          'state', n.state, 'pause_reason', n.pause_reason,
                                          'documents', n.documents) AS data
                FROM new_rows n JOIN old_rows o ON o.id = n.id
                WHERE n.state <> o.state AND (n.state = 'paused' OR n.ended_at IS NOT NULL)
                UNION ALL
                SELECT n.tenant, 'sync.withheld', n.collection_id,
                       jsonb_build_object('job_id', n.id, 'source', s.name, 'collection', n.collection,
                                          'deletions', y.withheld,
                                          'items', (SELECT count(*) FROM source_items i WHERE i.source_id = s.id))
                FROM new_rows n JOIN old_rows o ON o.id = n.id
                JOIN syncs y ON y.id = n.id JOIN sources s ON s.id = y.source_id
                WHERE n.state <> o.state AND n.state = 'paused' AND n.pause_reason = 'approval'
            ) e JOIN webhooks w ON w.tenant = e.tenant
            WHERE w.disabled_at IS NULL AND (w.events = '{}' OR e.type = ANY(w.events));
        END IF;
        RETURN NULL;
    END $$
"""
