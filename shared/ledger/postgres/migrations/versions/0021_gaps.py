"""Gaps: groups of unanswered questions, with the state of each group, whose changes are recorded.

A query stores the group of its question, so that both are deleted together. The table contains only groups that have
been assigned or resolved. The previous release does not delete its rows with a collection or a tenant. This release
deletes rows without queries within the hour.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0021"
down_revision = "0020"
min_revision = "0003"

# The question of a gap is not recorded: it belongs to users, and must not outlive the query log. Neither is the id of
# the document, which an erasure would have to delete.
_RECORD = """
    CREATE OR REPLACE FUNCTION record_gap_change() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        author CONSTANT jsonb := CAST(current_setting('foreask.actor') AS jsonb);
        old_row jsonb := CASE WHEN TG_OP = 'UPDATE' THEN to_jsonb(OLD) ELSE CAST('{}' AS jsonb) END;
        changed jsonb;
    BEGIN
        SELECT coalesce(jsonb_object_agg(field, jsonb_build_array(
                   audited_value(field, o.value), audited_value(field, n.value))), CAST('{}' AS jsonb))
        INTO changed
        FROM audited_fields(old_row, CAST(TG_ARGV AS text[])) o
             FULL JOIN audited_fields(to_jsonb(NEW), CAST(TG_ARGV AS text[])) n USING (field)
        WHERE nullif(o.value, CAST('null' AS jsonb)) IS DISTINCT FROM nullif(n.value, CAST('null' AS jsonb));
        IF changed = CAST('{}' AS jsonb) THEN RETURN NULL; END IF;
        INSERT INTO audit_log (id, tenant, made_at, actor, actor_name, actor_key_id, action, object, object_name,
                               changes)
        VALUES (gen_random_uuid(), NEW.tenant, clock_timestamp(), author ->> 'kind', author ->> 'name',
                CAST(author ->> 'key_id' AS uuid), 'change', 'gap',
                NEW.collection || ', gap ' || left(CAST(NEW.id AS text), 8), changed);
        RETURN NULL;
    END $$
"""


def upgrade() -> None:
    op.create_table(
        "gaps",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),  # its name
        sa.Column("assigned_to", sa.Text()),
        sa.Column("resolved_by", sa.Uuid()),  # public id of the document
        sa.Column("resolved_at", sa.TIMESTAMP(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_gaps"),
    )
    op.create_index("ix_gaps_tenant", "gaps", ["tenant", "collection"])
    op.execute(_RECORD)
    op.execute(
        "CREATE TRIGGER record_change AFTER INSERT OR UPDATE ON gaps FOR EACH ROW"
        " WHEN (coalesce(current_setting('foreask.actor', true), '') <> '')"
        " EXECUTE FUNCTION record_gap_change('assigned_to', 'resolved_at')"
    )
    # The group of an unanswered question, and its vector of 16-bit floats with the name of its embedding.
    op.add_column("queries", sa.Column("gap_id", postgresql.UUID()))
    op.add_column("queries", sa.Column("question_vector", sa.LargeBinary()))
    op.add_column("queries", sa.Column("question_embedding", sa.Text()))
