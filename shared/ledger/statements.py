"""The statements by which work is settled; `shared.ledger.claims` has those by which it is claimed.

Each settlement compares the fencing token in its own WHERE clause, so that a stale one changes nothing. A group of
any size is one statement with one plan: its rows are one JSON array, whose names match the columns (`rows`).
"""

from __future__ import annotations

from sqlalchemy import text

_VERSION = "id uuid, version int"
_LEASE = "id uuid, version int, token bigint"
_COST = "prompt_tokens int, completion_tokens int, calls int"


def _rows(columns: str) -> str:
    """The statement's rows as a table `v` of these columns."""
    return f"jsonb_to_recordset(CAST(:rows AS jsonb)) AS v({columns})"


SETTLE_PARSED = text(f"""
    UPDATE documents d
    SET state = v.state, title = coalesce(d.title, v.title), media_type = coalesce(d.media_type, v.media_type),
        leased_by = NULL, attempts = 0, lost_leases = 0, error = NULL, due_at = now(), updated_at = now()
    FROM {_rows("id uuid, token bigint, state text, title text, media_type text")}
    WHERE d.id = v.id AND d.lease_token = v.token AND d.state = 'parsing'
    RETURNING d.id
""")

INSERT_CHUNKS = text(f"""
    INSERT INTO chunks (id, version, document_id, tenant, lane, ordinal, content, content_key, state, ready_questions,
                        hidden)
    SELECT v.id, d.version, d.id, d.tenant, d.lane, v.ordinal, v.content, v.content_key,
           CASE WHEN v.ready_questions IS NULL THEN 'generating' ELSE 'generated' END, v.ready_questions,
           d.live_version IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM chunks o WHERE o.id = v.id AND o.version = d.live_version)
    FROM {_rows("document_id uuid, id uuid, ordinal int, content jsonb, content_key bytea, ready_questions text[]")}
    JOIN documents d ON d.id = v.document_id
    ON CONFLICT DO NOTHING
""")

PAID = text("""
    UPDATE chunks c
    SET state = 'generated', leased_by = NULL, due_at = now(), attempts = 0, lost_leases = 0, error = NULL
    FROM completions p
    WHERE c.content_key = p.content_key AND c.content_key = ANY(CAST(:keys AS bytea[])) AND c.state = 'generating'
      AND (c.leased_by IS NULL OR c.leased_by = :worker)
    RETURNING c.content_key
""")

INSERT_COMPLETIONS = text(f"""
    INSERT INTO completions (content_key, tenant, model, questions, prompt_tokens, completion_tokens, calls)
    SELECT v.content_key, v.tenant, v.model, v.questions, v.prompt_tokens, v.completion_tokens, v.calls
    FROM {_rows("content_key bytea, tenant text, model text, questions text[], " + _COST)}
    ON CONFLICT DO NOTHING
""")

SETTLE_PAID = text(f"""
    UPDATE chunks c
    SET state = 'generated', leased_by = NULL, due_at = now(), attempts = 0, lost_leases = 0, error = NULL,
        prompt_tokens = c.prompt_tokens + v.prompt_tokens,
        completion_tokens = c.completion_tokens + v.completion_tokens,
        calls = c.calls + v.calls
    FROM {_rows(_LEASE + ", " + _COST)}
    WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND c.state = 'generating'
""")

SETTLE_TWINS = text("""
    UPDATE chunks SET state = 'generated', leased_by = NULL, due_at = now(), attempts = 0, lost_leases = 0, error = NULL
    WHERE content_key = ANY(CAST(:keys AS bytea[])) AND state = 'generating'
""")

GENERATED_DOCUMENTS = text("""
    WITH generated AS (
        SELECT d.id FROM documents d
        WHERE d.id = ANY(CAST(:ids AS uuid[])) AND d.state = 'generating'
          AND NOT EXISTS (SELECT 1 FROM chunks c
                          WHERE c.document_id = d.id AND c.version = d.version AND c.state = 'generating')
        ORDER BY d.id FOR UPDATE
    )
    UPDATE documents d SET state = 'indexing', updated_at = now()
    FROM generated WHERE d.id = generated.id AND d.state = 'generating'
""")

SETTLE_INDEXED = text(f"""
    UPDATE chunks c
    SET state = CASE WHEN v.error IS NULL THEN 'indexed' ELSE 'dead' END, error = v.error, questions = v.questions,
        questions_passed = v.passed, leased_by = NULL, attempts = 0, lost_leases = 0, settled_at = now()
    FROM {_rows(_LEASE + ", error text, questions jsonb, passed int")}
    WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND c.state = 'generated'
    RETURNING c.id, c.version
""")

# The last twenty attempts: what waits for an engine may be tried for days.
_HISTORY = """(CASE WHEN jsonb_array_length(t.history) < 20 THEN t.history ELSE t.history - 0 END)
        || jsonb_build_object('at', now(), 'attempt', t.attempts + 1, 'error', v.error)"""

_DUE = "now() + make_interval(secs => v.after_seconds)"
_FAILURES = f"""
    FROM {_rows(_LEASE + ", error text, dead boolean, after_seconds float, burned int, " + _COST)}
    WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token
"""

FAIL_DOCUMENTS = text(f"""
    UPDATE documents t
    SET state = CASE WHEN v.dead THEN 'failed' ELSE 'queued' END, error = v.error, attempts = t.attempts + v.burned,
        history = {_HISTORY}, due_at = {_DUE}, leased_by = NULL, updated_at = now()
    {_FAILURES} AND t.state = 'parsing'
""")

# An attempt that was no fault of the work says nothing about it either: a suspect stays one.
_LOST_LEASES = "CASE WHEN v.burned = 0 THEN t.lost_leases ELSE 0 END"

# A chunk that cannot be generated goes on to be indexed by its text; it ends dead there, with the reason kept here.
FAIL_GENERATING = text(f"""
    UPDATE chunks t
    SET state = CASE WHEN v.dead THEN 'generated' ELSE 'generating' END, error = v.error,
        attempts = CASE WHEN v.dead THEN 0 ELSE t.attempts + v.burned END, history = {_HISTORY},
        due_at = {_DUE}, leased_by = NULL, lost_leases = {_LOST_LEASES},
        prompt_tokens = t.prompt_tokens + v.prompt_tokens,
        completion_tokens = t.completion_tokens + v.completion_tokens, calls = t.calls + v.calls
    {_FAILURES} AND t.state = 'generating'
""")

FAIL_INDEXING = text(f"""
    UPDATE chunks t
    SET state = CASE WHEN v.dead THEN 'dead' ELSE 'generated' END,
        error = CASE WHEN v.dead THEN v.error ELSE t.error END, attempts = t.attempts + v.burned,
        history = {_HISTORY}, due_at = {_DUE}, leased_by = NULL, lost_leases = {_LOST_LEASES},
        settled_at = CASE WHEN v.dead THEN now() END
    {_FAILURES} AND t.state = 'generated'
    RETURNING t.document_id
""")

# In any order: what Qdrant refuses stays, and must not stand in front of all others.
FINISHABLE = text("""
    SELECT d.id, d.tenant, l.index_name, d.version, d.live_version
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.state IN ('generating', 'indexing')
      AND (CAST(:ids AS uuid[]) IS NULL OR d.id = ANY(CAST(:ids AS uuid[])))
      AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version
                                               AND c.state IN ('generating', 'generated'))
    ORDER BY random() LIMIT :limit
""")

FINISH = text(f"""
    WITH ended AS (
        SELECT d.id, v.version,
               EXISTS (SELECT 1 FROM chunks c
                       WHERE c.document_id = d.id AND c.version = d.version AND c.state = 'dead') AS degraded
        FROM documents d
        JOIN {_rows(_VERSION)}
          ON d.id = v.id AND d.version = v.version
        WHERE d.state IN ('generating', 'indexing')
          AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version
                                                   AND c.state IN ('generating', 'generated'))
        ORDER BY d.id FOR UPDATE OF d
    )
    UPDATE documents d
    SET state = CASE WHEN ended.degraded THEN 'degraded' ELSE 'ready' END, live_version = d.version,
        updated_at = now()
    FROM ended WHERE d.id = ended.id
    RETURNING d.id
""")

FORGET = text(f"""
    DELETE FROM chunks c
    USING {_rows(_VERSION)}
    WHERE c.document_id = v.id AND c.version < v.version
""")

INSERT_SWEEPS = text(f"""
    INSERT INTO sweeps (index_name, tenant, document_id, below_version, due_at)
    SELECT v.index_name, v.tenant, v.id, v.version, now() + :after
    FROM {_rows(_VERSION + ", tenant text, index_name text")}
""")

DELETED = text("""
    SELECT d.id, d.tenant, l.index_name, d.version, d.live_version
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.state = 'deleting' AND d.due_at <= now() ORDER BY random() LIMIT :limit
""")

FORGET_DELETED = text(
    "DELETE FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND state = 'deleting' RETURNING upload"
)

DUE_SWEEPS = text("""
    SELECT id, index_name, tenant, document_id, below_version FROM sweeps
    WHERE due_at <= now() ORDER BY random() LIMIT :limit
""")

_LEASES = f"""
    FROM {_rows(_LEASE)}
    WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
"""
_TABLES = ("documents", "chunks")
EXTEND = {name: text(f"UPDATE {name} t SET due_at = now() + :lease {_LEASES}") for name in _TABLES}
GIVE_BACK = {
    "documents": text(f"UPDATE documents t SET due_at = now(), leased_by = NULL, state = 'queued' {_LEASES}"),
    "chunks": text(f"UPDATE chunks t SET due_at = now(), leased_by = NULL {_LEASES}"),
}
