"""Jobs: loads and reindexes, the job of a document, the documents of a job by state, and the events of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
min_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        # Number within the tenant that no other open job has: part of the lane of its documents and chunks.
        sa.Column("number", sa.SmallInteger(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),  # its name
        sa.Column("collection_id", sa.Uuid(), nullable=False),  # build that was live when the job started
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("pause_reason", sa.Text()),  # null unless paused
        sa.Column("idempotency_key", sa.Text()),  # two open jobs of a kind never have the same
        sa.Column("expected", sa.Integer()),  # number of documents that its start announced; null if unknown
        sa.Column("closed_at", sa.TIMESTAMP(timezone=True)),  # since when it gets no more documents
        sa.Column("documents", postgresql.JSONB()),  # numbers by state at its end; null while it is open
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.text("now()")),
        sa.Column("ended_at", sa.TIMESTAMP(timezone=True)),  # null while it is open
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_list", "jobs", ["tenant", "created_at", "id"])
    open_jobs = sa.text("ended_at IS NULL")
    op.create_index("uq_jobs_number", "jobs", ["tenant", "number"], unique=True, postgresql_where=open_jobs)
    op.create_index(
        "uq_jobs_key", "jobs", ["tenant", "kind", "idempotency_key"], unique=True, postgresql_where=open_jobs
    )
    op.add_column("documents", sa.Column("job_id", sa.Uuid()))  # null without a job
    for event, rows in _ROWS.items():
        op.execute(_count_documents(event, rows))
    op.execute(_TELL_OF_JOBS)
    op.execute(
        "CREATE TRIGGER tell AFTER UPDATE ON jobs REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows"
        " FOR EACH STATEMENT EXECUTE FUNCTION tell_of_jobs()"
    )


_ROWS = {
    "insert": ("(SELECT *, 1 AS sign FROM new_rows)", "new_rows"),
    "update": (
        "(SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows)",
        "new_rows",
        "old_rows",
    ),
    "delete": ("(SELECT *, -1 AS sign FROM old_rows)", "old_rows"),
}


def _count_documents(event: str, rows: tuple[str, ...]) -> str:
    """Return the trigger function that counts documents by collection, and the documents of jobs by job."""
    changes, *tables = rows
    of_jobs = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE job_id IS NOT NULL)" for table in tables)
    return f"""
        CREATE OR REPLACE FUNCTION count_documents_{event}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO tally_changes (tenant, counted, part, state, change)
            SELECT tenant, 'documents', collection_id::text, state, sum(sign) FROM {changes} r
            GROUP BY tenant, collection_id, state HAVING sum(sign) <> 0;
            IF {of_jobs} THEN
                INSERT INTO tally_changes (tenant, counted, part, state, change)
                SELECT tenant, 'jobs', job_id::text, state, sum(sign) FROM {changes} r WHERE job_id IS NOT NULL
                GROUP BY tenant, job_id, state HAVING sum(sign) <> 0;
            END IF;
            RETURN NULL;
        END $$
    """


_TELL_OF_JOBS = """
    CREATE FUNCTION tell_of_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
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
            ) e JOIN webhooks w ON w.tenant = e.tenant
            WHERE w.disabled_at IS NULL AND (w.events = '{}' OR e.type = ANY(w.events));
        END IF;
        RETURN NULL;
    END $$
"""
