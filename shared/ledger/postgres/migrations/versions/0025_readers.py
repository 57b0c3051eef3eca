"""The reader of a document, the number of documents of each reader, and the reindex of outdated documents only.

The previous release runs on this schema. A document that it reads has no reader, or an older document's reader, until
a worker of this release reads it. Its list of tenants for operators fails as soon as a document has a reader. A reindex
of outdated documents that it continues includes all other documents.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
min_revision = "0003"

_ROWS = {
    "insert": ("(SELECT *, 1 AS sign FROM new_rows)", "new_rows"),
    "update": (
        "(SELECT *, 1 AS sign FROM new_rows UNION ALL SELECT *, -1 AS sign FROM old_rows)",
        "new_rows",
        "old_rows",
    ),
    "delete": ("(SELECT *, -1 AS sign FROM old_rows)", "old_rows"),
}


def upgrade() -> None:
    op.add_column("documents", sa.Column("reader", sa.Text()))  # null before the first parse, or of an earlier release
    # Whether a reindex leaves documents out that the current readers have read.
    op.add_column(
        "collections", sa.Column("reindexes_outdated", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    for event, rows in _ROWS.items():
        op.execute(_count_documents(event, rows))


def _count_documents(event: str, rows: tuple[str, ...]) -> str:
    """Return the trigger function that counts documents by collection and job, and finished ones by reader."""
    changes, *tables = rows
    of_jobs = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE job_id IS NOT NULL)" for table in tables)
    return f"""
        CREATE OR REPLACE FUNCTION count_documents_{event}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO tally_changes (tenant, counted, part, state, change)
            SELECT tenant, 'documents', collection_id::text, state, sum(sign) FROM {changes} r
            GROUP BY tenant, collection_id, state HAVING sum(sign) <> 0
            UNION ALL
            SELECT tenant, 'readers', collection_id::text, reader, sum(sign) FROM {changes} r
            WHERE reader IS NOT NULL AND state IN ('ready', 'degraded', 'failed')
            GROUP BY tenant, collection_id, reader HAVING sum(sign) <> 0;
            IF {of_jobs} THEN
                INSERT INTO tally_changes (tenant, counted, part, state, change)
                SELECT tenant, 'jobs', job_id::text, state, sum(sign) FROM {changes} r WHERE job_id IS NOT NULL
                GROUP BY tenant, job_id, state HAVING sum(sign) <> 0;
            END IF;
            RETURN NULL;
        END $$
    """
