"""The ledger: documents, their versions, chunks, completions, costs, keys, queries, questions, sweeps, webhooks."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR

revision = "0001"
down_revision = None

TIME = sa.DateTime(timezone=True)
NOW = sa.text("now()")


def upgrade() -> None:
    op.execute(sa.schema.CreateSequence(sa.Sequence("fencing")))
    _deployment()
    _workers()
    _collections()
    _documents()
    _document_versions()
    _chunks()
    _chunk_contents()
    _completions()
    _paid_replies()
    _spent()
    _estimates()
    _abandoned_calls()
    _api_keys()
    _queries()
    _accepted_questions()
    _sweeps()
    _erasures()
    _tallies()
    _evaluations()
    _webhooks()


def _lane() -> sa.Column[Any]:
    return sa.Column("lane", sa.SmallInteger(), server_default="0", nullable=False)


def _lease_columns() -> list[sa.Column[Any]]:
    """The columns of rows that workers claim."""
    return [
        sa.Column("due_at", TIME, server_default=NOW, nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lost_leases", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lease_token", sa.BigInteger()),
        sa.Column("leased_by", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("history", JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
    ]


def _deployment() -> None:
    op.create_table(
        "deployment",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("scheduler", sa.Text()),
        sa.Column("scheduler_until", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_deployment"),
    )
    op.execute("INSERT INTO deployment DEFAULT VALUES")


def _workers() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("in_work", sa.Integer(), nullable=False),
        sa.Column("started_at", TIME, server_default=NOW, nullable=False),
        sa.Column("seen_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )


def _collections() -> None:
    op.create_table(
        "collections",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("build", sa.Integer(), server_default="1", nullable=False),
        sa.Column("build_state", sa.Text(), server_default="live", nullable=False),
        sa.Column("followed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("filled_until", sa.Text()),
        sa.Column("live_until", TIME),
        sa.Column("gate", JSONB()),
        sa.Column("emptied_at", TIME),
        sa.Column("options", JSONB(), nullable=False),
        sa.Column("embedding_model", sa.Text(), nullable=False),
        sa.Column("index_name", sa.Text(), nullable=False),
        sa.Column("calibration", JSONB()),
        sa.Column("calibration_due_at", TIME, server_default=NOW, nullable=False),
        sa.Column("calibrating_until", TIME),
        sa.Column("reindexed_until", sa.Text()),
        sa.Column("languages", sa.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_collections"),
    )
    op.create_index("uq_collections_build", "collections", ["tenant", "name", "build"], unique=True)
    op.create_index(
        "uq_collections_live",
        "collections",
        ["tenant", "name"],
        unique=True,
        postgresql_where=sa.text("build_state = 'live'"),
    )


def _documents() -> None:
    op.create_table(
        "documents",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), server_default="1", nullable=False),
        sa.Column("live_version", sa.Integer()),
        sa.Column("discarded_version", sa.Integer()),
        _lane(),
        sa.Column("state", sa.Text(), nullable=False),
        *_lease_columns(),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.Column("updated_at", TIME, server_default=NOW, nullable=False),
        sa.Column("description_changes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("description_due_at", TIME),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name="fk_documents_collection_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_documents"),
    )
    _documents_indexes()


def _documents_indexes() -> None:
    op.create_index(
        "ix_documents_description_due",
        "documents",
        ["description_due_at"],
        postgresql_where=sa.text("description_due_at IS NOT NULL"),
    )
    op.create_index("ix_documents_deleting", "documents", ["due_at"], postgresql_where=sa.text("state = 'deleting'"))
    op.create_index(
        "ix_documents_due",
        "documents",
        ["tenant", "lane", "due_at"],
        postgresql_where=sa.text("state IN ('queued', 'parsing')"),
    )
    op.create_index(
        "ix_documents_failed",
        "documents",
        ["tenant", "updated_at", "public_id"],
        postgresql_where=sa.text("state = 'failed'"),
    )
    op.create_index("ix_documents_leased", "documents", ["tenant"], postgresql_where=sa.text("leased_by IS NOT NULL"))
    op.create_index("ix_documents_changed", "documents", ["tenant", "updated_at"])
    op.create_index("ix_documents_list", "documents", ["collection_id", "state", "created_at", "public_id"])
    op.create_index(
        "ix_documents_open",
        "documents",
        ["due_at"],
        postgresql_where=sa.text("state IN ('indexing', 'searchable')"),
    )
    op.create_index(
        "ix_documents_suspects",
        "documents",
        ["state", "due_at"],
        postgresql_where=sa.text("lost_leases > 0 AND state IN ('queued', 'parsing')"),
    )
    op.create_index(
        "uq_documents_external_id",
        "documents",
        ["collection_id", "external_id"],
        unique=True,
        postgresql_where=sa.text("state <> 'deleting'"),
    )
    op.create_index(
        "uq_documents_public_id",
        "documents",
        ["public_id", "collection_id"],
        unique=True,
        postgresql_where=sa.text("state <> 'deleting'"),
    )


def _document_versions() -> None:
    op.create_table(
        "document_versions",
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("obsolete", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("filename", sa.Text()),
        sa.Column("title", sa.Text()),
        sa.Column("media_type", sa.Text()),
        sa.Column("metadata", JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column("ready_questions", JSONB()),
        sa.Column("upload", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.LargeBinary(), nullable=False),
        sa.Column("traceparent", sa.Text()),
        sa.Column("words", TSVECTOR()),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name="fk_document_versions_document_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("document_id", "version", name="pk_document_versions"),
    )
    op.create_index(
        "ix_document_versions_obsolete", "document_versions", ["document_id"], postgresql_where=sa.text("obsolete")
    )
    op.create_index("ix_document_versions_stored_in", "document_versions", [sa.text("split_part(upload, '#', 1)")])
    op.create_index("ix_document_versions_words", "document_versions", ["words"], postgresql_using="gin")
    _note_words()


def _note_words() -> None:
    """Have versions say by which words their documents are found in lists.

    A word is what stands between blanks and signs. Chinese and Japanese have no blanks: each character is a word. What
    the database takes for a letter depends on its locale, so the signs are named here. A word of a tsvector has at most
    2,046 bytes.
    """
    signs = (
        r"[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]+"
    )
    characters = r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
    op.execute(rf"""
        CREATE FUNCTION words_of(said text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
            SELECT array_remove(string_to_array(
                regexp_replace(regexp_replace(regexp_replace(lower(left(said, 2000)),
                    '{signs}', ' ', 'g'), '{characters}', ' \1 ', 'g'), '([^ ]{{100}})', '\1 ', 'g'),
                ' '), '')
        $$""")
    op.execute("""
        CREATE FUNCTION note_words() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            SELECT array_to_tsvector(
                ('/' || d.tenant) || words_of(concat_ws(' ', d.external_id, NEW.title, NEW.filename)))
            INTO NEW.words FROM documents d WHERE d.id = NEW.document_id;
            RETURN NEW;
        END $$""")
    op.execute(
        "CREATE TRIGGER note_words BEFORE INSERT OR UPDATE OF title, filename ON document_versions"
        " FOR EACH ROW EXECUTE FUNCTION note_words()"
    )


def _chunks() -> None:
    op.create_table(
        "chunks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("content_key", sa.LargeBinary(), nullable=False),
        sa.Column("embedding_model", sa.Text(), nullable=False),
        sa.Column("ready_made", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        _lane(),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("may_have_points", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("points_token", sa.BigInteger()),
        sa.Column("questions_passed", sa.Integer(), server_default="0", nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("completion_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("calls", sa.Integer(), server_default="0", nullable=False),
        *_lease_columns(),
        sa.Column("settled_at", TIME),
        sa.ForeignKeyConstraint(["document_id"], ["documents.id"], name="fk_chunks_document_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", "version", name="pk_chunks"),
        postgresql_with={"fillfactor": 50, "autovacuum_vacuum_scale_factor": 0.02},
    )
    _chunks_indexes()


def _chunks_indexes() -> None:
    op.create_index(
        "ix_chunks_dead",
        "chunks",
        ["tenant", "settled_at", "id", "version"],
        postgresql_where=sa.text("state = 'dead'"),
    )
    op.create_index("ix_chunks_document", "chunks", ["document_id", "version", "ordinal"])
    op.create_index(
        "ix_chunks_generating_key", "chunks", ["content_key"], postgresql_where=sa.text("state = 'generating'")
    )
    op.create_index(
        "ix_chunks_in_indexing",
        "chunks",
        ["tenant"],
        postgresql_where=sa.text("state IN ('parsed', 'generated') AND leased_by IS NOT NULL"),
    )
    op.create_index(
        "ix_chunks_suspects",
        "chunks",
        ["state", "due_at"],
        postgresql_where=sa.text("lost_leases > 0 AND state IN ('parsed', 'generating', 'generated')"),
    )
    op.create_index(
        "ix_chunks_to_generate",
        "chunks",
        ["tenant", "lane", "due_at"],
        postgresql_where=sa.text("state = 'generating'"),
    )
    op.create_index(
        "ix_chunks_to_index_questions",
        "chunks",
        ["tenant", "lane", "embedding_model", "due_at"],
        postgresql_where=sa.text("state = 'generated'"),
    )
    op.create_index(
        "ix_chunks_to_index_text",
        "chunks",
        ["tenant", "lane", "embedding_model", "due_at"],
        postgresql_where=sa.text("state = 'parsed'"),
    )
    op.create_index(
        "uq_chunks_leased_key",
        "chunks",
        ["content_key"],
        unique=True,
        postgresql_where=sa.text("state = 'generating' AND leased_by IS NOT NULL"),
    )


def _chunk_contents() -> None:
    op.create_table(
        "chunk_contents",
        sa.Column("chunk_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("content", JSONB(), nullable=False),
        sa.Column("ready_questions", sa.ARRAY(sa.Text())),
        sa.Column("content_key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("chunk_id", "version", name="pk_chunk_contents"),
    )
    op.create_index("ix_chunk_contents_content_key", "chunk_contents", ["content_key"])
    op.create_table(
        "chunk_questions",
        sa.Column("chunk_id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("content_key", sa.LargeBinary()),
        sa.Column("questions", sa.ARRAY(sa.Text())),
        sa.Column("reasons", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("similarities", sa.ARRAY(sa.REAL())),
        sa.PrimaryKeyConstraint("chunk_id", "version", name="pk_chunk_questions"),
    )


def _completions() -> None:
    op.create_table(
        "completions",
        sa.Column("content_key", sa.LargeBinary(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("questions", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("unused_since", TIME),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("content_key", name="pk_completions"),
    )
    op.create_index("ix_completions_tenant", "completions", ["tenant", "content_key"])


def _paid_replies() -> None:
    op.create_table(
        "paid_replies",
        sa.Column("content_key", sa.LargeBinary(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("replies", JSONB(), nullable=False),
        sa.Column("written_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("content_key", name="pk_paid_replies"),
    )


def _spent() -> None:
    op.create_table(
        "spent",
        sa.Column("token", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("document_id", sa.Uuid()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("token", name="pk_spent"),
    )
    op.create_table(
        "spent_changes",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), server_default=sa.text("(now() AT TIME ZONE 'UTC')::date"), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "spent_by_day",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "collection_id", "kind", "model", "day", name="pk_spent_by_day"),
    )
    op.create_index("ix_spent_by_day_day", "spent_by_day", ["day"])
    write = """
    INSERT INTO spent_changes (tenant, collection_id, kind, model, prompt_tokens, completion_tokens, calls)
    SELECT tenant, collection_id, kind, model, sum(sign * prompt_tokens), sum(sign * completion_tokens),
           sum(sign * calls)
    FROM ({rows}) r GROUP BY tenant, collection_id, kind, model
    HAVING (sum(sign * prompt_tokens), sum(sign * completion_tokens), sum(sign * calls)) <> (0, 0, 0)"""
    _count("spent", write, "insert", "update")


def _estimates() -> None:
    op.create_table(
        "estimates",
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("estimate", JSONB(), nullable=False),
        sa.Column("spent", JSONB(), nullable=False),
        sa.Column("at", TIME, server_default=NOW, nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name="fk_estimates_collection_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("collection_id", name="pk_estimates"),
    )


def _abandoned_calls() -> None:
    op.create_table(
        "abandoned_calls",
        sa.Column("lease_token", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("content_key", sa.LargeBinary(), nullable=False),
        sa.Column("due_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("lease_token", name="pk_abandoned_calls"),
    )
    op.create_index("ix_abandoned_calls_content_key", "abandoned_calls", ["content_key"])


def _api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("filter", JSONB()),
        sa.Column("expires_at", TIME),
        sa.Column("revoked_at", TIME),
        sa.Column("last_used_at", TIME),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
    )
    op.create_index("uq_api_keys_sha256", "api_keys", ["sha256"], unique=True)
    op.create_index(
        "uq_api_keys_name", "api_keys", ["tenant", "name"], unique=True, postgresql_where=sa.text("revoked_at IS NULL")
    )
    op.create_index("ix_api_keys_list", "api_keys", ["tenant", "created_at", "id"])


def _queries() -> None:
    op.create_table(
        "queries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("chunk_ids", sa.ARRAY(sa.Uuid()), nullable=False),
        sa.Column("best_score", sa.REAL()),
        sa.Column("found", sa.Boolean(), server_default="true", nullable=False),
        sa.Column("helpful", sa.Boolean()),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_queries"),
    )
    op.create_index("ix_queries_created_at", "queries", ["created_at"])
    op.create_index("ix_queries_collection_id", "queries", ["collection_id", "created_at"])


def _accepted_questions() -> None:
    op.create_table(
        "accepted_questions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("chunk_id", sa.Uuid(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("query_id", sa.Uuid()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("due_at", TIME, server_default=NOW, nullable=False),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name="fk_accepted_questions_document_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_accepted_questions"),
    )
    op.create_index("ix_accepted_questions_chunk_id", "accepted_questions", ["chunk_id"])
    op.create_index("ix_accepted_questions_document_id", "accepted_questions", ["document_id"])
    op.create_index("ix_accepted_questions_list", "accepted_questions", ["collection_id", "created_at", "id"])
    op.create_index(
        "ix_accepted_questions_removing",
        "accepted_questions",
        ["due_at"],
        postgresql_where=sa.text("state = 'removing'"),
    )


def _sweeps() -> None:
    op.create_table(
        "sweeps",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("index_name", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("below_version", sa.Integer(), nullable=False),
        sa.Column("chunk_id", sa.Uuid()),
        sa.Column("again", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("due_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sweeps"),
    )
    op.create_index("ix_sweeps_document_id", "sweeps", ["document_id"])
    op.create_index("ix_sweeps_due_at", "sweeps", ["due_at"])


def _erasures() -> None:
    op.create_table(
        "outdated_objects",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("due_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_outdated_objects"),
    )
    op.create_table(
        "erasures",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text()),
        sa.Column("document_id", sa.Uuid()),
        sa.Column("collection_ids", sa.ARRAY(sa.Uuid()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("document_ids", sa.ARRAY(sa.Uuid()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("deleted", JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.Column("started_at", TIME, server_default=NOW, nullable=False),
        sa.Column("finished_at", TIME),
        sa.Column("last_token", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="pk_erasures"),
    )
    op.create_index("ix_erasures_open", "erasures", ["tenant"], postgresql_where=sa.text("finished_at IS NULL"))


def _tallies() -> None:
    op.create_table(
        "tallies",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("counted", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "counted", "part", "state", name="pk_tallies"),
    )
    op.create_table(
        "tally_changes",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("counted", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("change", sa.Integer(), nullable=False),
        sa.Column("at", TIME, server_default=NOW, nullable=False),
    )
    op.create_index("ix_tally_changes_at", "tally_changes", ["at"])
    op.create_table(
        "ended_by_minute",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("minute", TIME, nullable=False),
        sa.Column("chunks", sa.Integer(), nullable=False),
        sa.Column("dead_chunks", sa.Integer(), nullable=False),
        sa.Column("documents", sa.Integer(), nullable=False),
        sa.Column("failed_documents", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "minute", name="pk_ended_by_minute"),
    )
    _count_states("documents", "collection_id")
    _count_states("chunks", "embedding_model")


def _count_states(table: str, part: str) -> None:
    write = f"""
    INSERT INTO tally_changes (tenant, counted, part, state, change)
    SELECT tenant, TG_TABLE_NAME, {part}::text, state, sum(sign) FROM ({{rows}}) r
    GROUP BY tenant, {part}, state HAVING sum(sign) <> 0"""
    _count(table, write, "insert", "update", "delete")


def _count(table: str, write: str, *operations: str) -> None:
    """Have triggers write down how a statement changes what is counted of a table.

    A trigger is called once a statement: a settlement of many rows writes few changes.

    Args:
        table: the table.
        write: the statement that writes the changes. `{rows}` stands for the new rows, whose `sign` is 1, and the old
            ones, whose `sign` is -1.
        operations: what is counted, of `insert`, `update` and `delete`.
    """
    rows = {"insert": "SELECT *, 1 AS sign FROM new_rows", "delete": "SELECT *, -1 AS sign FROM old_rows"}
    rows["update"] = " UNION ALL ".join(rows.values())
    names = {"insert": "NEW TABLE AS new_rows", "delete": "OLD TABLE AS old_rows"}
    names["update"] = " ".join(names.values())
    for operation in operations:
        op.execute(f"""
            CREATE FUNCTION count_{table}_{operation}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                {write.format(rows=rows[operation])};
                RETURN NULL;
            END $$""")
        op.execute(
            f"CREATE TRIGGER count_{operation} AFTER {operation} ON {table} REFERENCING {names[operation]}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION count_{table}_{operation}()"
        )


def _evaluations() -> None:
    op.create_table(
        "labelled_sets",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("questions", JSONB(), nullable=False),
        sa.Column("changed_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "collection", "name", name="pk_labelled_sets"),
    )
    op.create_table(
        "evaluations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("labelled_set", sa.Text()),
        sa.Column("questions", sa.Integer(), nullable=False),
        sa.Column("phase", sa.Text(), server_default="running", nullable=False),
        sa.Column("strategy", sa.Text()),
        sa.Column("done", sa.Integer(), server_default="0", nullable=False),
        sa.Column("total", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("results", sa.JSON()),
        sa.Column("rows", sa.JSON()),
        sa.Column("seen_at", TIME, server_default=NOW, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evaluations"),
    )
    op.create_index("ix_evaluations_collection", "evaluations", ["tenant", "collection", "created_at"])


def _webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("events", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("failing_since", TIME),
        sa.Column("disabled_at", TIME),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
    )
    op.create_index("ix_webhooks_tenant", "webhooks", ["tenant"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("webhook_id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid()),
        sa.Column("document_id", sa.Uuid()),
        sa.Column("data", JSONB(), nullable=False),
        sa.Column("due_at", TIME, server_default=NOW),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("response", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("delivered_at", TIME),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_deliveries"),
    )
    due = sa.text("due_at IS NOT NULL")
    op.create_index("ix_webhook_deliveries_due", "webhook_deliveries", ["webhook_id", "due_at"], postgresql_where=due)
    op.create_index("ix_webhook_deliveries_list", "webhook_deliveries", ["webhook_id", "created_at", "id"])
    _tell(
        "documents",
        """
        SELECT n.tenant, 'document.' || CASE n.state WHEN 'deleting' THEN 'deleted' ELSE n.state END AS type,
               n.collection_id, n.public_id AS document_id,
               jsonb_build_object('document_id', n.public_id, 'external_id', n.external_id, 'collection', l.name,
                                  'version', n.version, 'error', CASE n.state WHEN 'failed' THEN n.error END) AS data
        FROM new_rows n JOIN old_rows o ON o.id = n.id JOIN collections l ON l.id = n.collection_id
        WHERE n.state <> o.state AND n.state IN ('ready', 'degraded', 'failed', 'deleting') AND l.build_state = 'live'
        """,
    )
    _tell(
        "collections",
        """
        SELECT n.tenant, 'build.filled' AS type, n.id AS collection_id, CAST(NULL AS uuid) AS document_id,
               jsonb_build_object('collection', n.name, 'build', n.build) AS data
        FROM new_rows n JOIN old_rows o ON o.id = n.id
        WHERE o.build_state = 'filling' AND n.build_state = 'following'
        """,
    )
    _tell(
        "erasures",  # whose record stays: it names what is gone, and the message does not
        """
        SELECT n.tenant, 'erasure.finished' AS type, CAST(NULL AS uuid) AS collection_id,
               CAST(NULL AS uuid) AS document_id, jsonb_build_object('erasure_id', n.id) AS data
        FROM new_rows n JOIN old_rows o ON o.id = n.id
        WHERE o.finished_at IS NULL AND n.finished_at IS NOT NULL
        """,
    )


def _tell(table: str, events: str) -> None:
    """Have a trigger write a delivery of each event for each webhook that is told of it.

    Args:
        table: the table whose changes are events.
        events: selects tenant, type, collection_id, document_id and data of the events in `old_rows` and `new_rows`.
    """
    op.execute(f"""
        CREATE FUNCTION tell_of_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (SELECT 1 FROM webhooks) THEN
                INSERT INTO webhook_deliveries (id, webhook_id, tenant, type, collection_id, document_id, data)
                SELECT gen_random_uuid(), w.id, e.tenant, e.type, e.collection_id, e.document_id, e.data
                FROM ({events}) e JOIN webhooks w ON w.tenant = e.tenant
                WHERE w.disabled_at IS NULL AND (w.events = '{{}}' OR e.type = ANY(w.events));
            END IF;
            RETURN NULL;
        END $$""")
    op.execute(
        f"CREATE TRIGGER tell AFTER UPDATE ON {table} REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows"
        f" FOR EACH STATEMENT EXECUTE FUNCTION tell_of_{table}()"
    )
