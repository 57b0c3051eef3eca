"""The statements by which work is settled; `shared.ledger.claims` has those by which it is claimed.

Each settlement compares the fencing token in its own WHERE clause, so that a stale one changes nothing. Rows go in as
arrays, one per column, so that a group of any size is one statement with one plan.
"""

from __future__ import annotations

from sqlalchemy import text

SETTLE_PARSED = text("""
    UPDATE documents d
    SET state = v.state, title = coalesce(d.title, v.title), media_type = coalesce(d.media_type, v.media_type),
        leased_by = NULL, attempts = 0, kills = 0, error = NULL, due_at = now(), updated_at = now()
    FROM unnest(CAST(:ids AS uuid[]), CAST(:tokens AS bigint[]), CAST(:states AS text[]), CAST(:titles AS text[]),
                CAST(:media_types AS text[]))
         AS v(id, token, state, title, media_type)
    WHERE d.id = v.id AND d.lease_token = v.token AND d.state = 'parsing'
    RETURNING d.id
""")

INSERT_CHUNKS = text("""
    INSERT INTO chunks (id, generation, document_id, tenant, lane, ordinal, text, heading_path, span_start, span_end,
                        page, section_start, section_end, content_key, state, given_questions,
                        pending)
    SELECT v.id, d.generation, d.id, d.tenant, d.lane, v.ordinal, v.text,
           ARRAY(SELECT jsonb_array_elements_text(v.headings)), v.span_start, v.span_end, v.page, v.section_start,
           v.section_end, v.content_key,
           CASE WHEN v.given IS NULL THEN 'pending' ELSE 'asked' END,
           CASE WHEN v.given IS NULL THEN NULL ELSE ARRAY(SELECT jsonb_array_elements_text(v.given)) END,
           d.live_generation IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM chunks o WHERE o.id = v.id AND o.generation = d.live_generation)
    FROM unnest(CAST(:documents AS uuid[]), CAST(:ids AS uuid[]), CAST(:ordinals AS int[]), CAST(:texts AS text[]),
                CAST(:headings AS jsonb[]), CAST(:starts AS int[]), CAST(:ends AS int[]), CAST(:pages AS int[]),
                CAST(:section_starts AS int[]), CAST(:section_ends AS int[]), CAST(:keys AS bytea[]),
                CAST(:given AS jsonb[]))
         AS v(document_id, id, ordinal, text, headings, span_start, span_end, page, section_start,
              section_end, content_key, given)
    JOIN documents d ON d.id = v.document_id
    ON CONFLICT DO NOTHING
""")

PAID = text("""
    UPDATE chunks c
    SET state = 'asked', leased_by = NULL, due_at = now(), attempts = 0, kills = 0, error = NULL
    FROM completions p
    WHERE c.content_key = p.content_key AND c.content_key = ANY(CAST(:keys AS bytea[])) AND c.state = 'pending'
      AND (c.leased_by IS NULL OR c.leased_by = :worker)
    RETURNING c.content_key
""")

INSERT_COMPLETIONS = text("""
    INSERT INTO completions (content_key, tenant, model, questions, prompt_tokens, completion_tokens, calls)
    SELECT v.key, v.tenant, v.model, ARRAY(SELECT jsonb_array_elements_text(v.questions)), v.prompt, v.completion,
           v.calls
    FROM unnest(CAST(:keys AS bytea[]), CAST(:tenants AS text[]), CAST(:models AS text[]), CAST(:questions AS jsonb[]),
                CAST(:prompts AS int[]), CAST(:completions AS int[]), CAST(:calls AS int[]))
         AS v(key, tenant, model, questions, prompt, completion, calls)
    ON CONFLICT DO NOTHING
""")

SETTLE_PAID = text("""
    UPDATE chunks c
    SET state = 'asked', leased_by = NULL, due_at = now(), attempts = 0, kills = 0, error = NULL,
        prompt_tokens = c.prompt_tokens + v.prompt, completion_tokens = c.completion_tokens + v.completion,
        calls = c.calls + v.calls
    FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:tokens AS bigint[]), CAST(:prompts AS int[]),
                CAST(:completions AS int[]), CAST(:calls AS int[]))
         AS v(id, generation, token, prompt, completion, calls)
    WHERE c.id = v.id AND c.generation = v.generation AND c.lease_token = v.token AND c.state = 'pending'
""")

SETTLE_TWINS = text("""
    UPDATE chunks SET state = 'asked', leased_by = NULL, due_at = now(), attempts = 0, kills = 0, error = NULL
    WHERE content_key = ANY(CAST(:keys AS bytea[])) AND state = 'pending'
""")

ASKED_DOCUMENTS = text("""
    WITH asked AS (
        SELECT d.id FROM documents d
        WHERE d.id = ANY(CAST(:ids AS uuid[])) AND d.state = 'asking'
          AND NOT EXISTS (SELECT 1 FROM chunks c
                          WHERE c.document_id = d.id AND c.generation = d.generation AND c.state = 'pending')
        ORDER BY d.id FOR UPDATE
    )
    UPDATE documents d SET state = 'indexing', updated_at = now()
    FROM asked WHERE d.id = asked.id AND d.state = 'asking'
""")

SETTLE_INDEXED = text("""
    UPDATE chunks c
    SET state = CASE WHEN v.error IS NULL THEN 'indexed' ELSE 'dead' END, error = v.error, questions = v.questions,
        questions_kept = v.kept, leased_by = NULL, attempts = 0, kills = 0, settled_at = now()
    FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:tokens AS bigint[]), CAST(:errors AS text[]),
                CAST(:questions AS jsonb[]), CAST(:kept AS int[]))
         AS v(id, generation, token, error, questions, kept)
    WHERE c.id = v.id AND c.generation = v.generation AND c.lease_token = v.token AND c.state = 'asked'
    RETURNING c.id, c.generation
""")

# The last twenty attempts: what waits for an engine may be tried for days.
_HISTORY = """(CASE WHEN jsonb_array_length(t.history) < 20 THEN t.history ELSE t.history - 0 END)
        || jsonb_build_object('at', now(), 'attempt', t.attempts + 1, 'error', v.error)"""

_FAILURES = """
    FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:tokens AS bigint[]), CAST(:errors AS text[]),
                CAST(:dead AS boolean[]), CAST(:after AS interval[]), CAST(:burned AS int[]), CAST(:prompts AS int[]),
                CAST(:completions AS int[]), CAST(:calls AS int[]))
         AS v(id, generation, token, error, dead, after, burned, prompt, completion, calls)
    WHERE t.id = v.id AND t.generation = v.generation AND t.lease_token = v.token
"""

FAIL_DOCUMENTS = text(f"""
    UPDATE documents t
    SET state = CASE WHEN v.dead THEN 'failed' ELSE 'queued' END, error = v.error, attempts = t.attempts + v.burned,
        history = {_HISTORY}, due_at = now() + v.after, leased_by = NULL, updated_at = now()
    {_FAILURES} AND t.state = 'parsing'
""")

# An attempt that was no fault of the work says nothing about it either: a suspect stays one.
_KILLS = "CASE WHEN v.burned = 0 THEN t.kills ELSE 0 END"

# A chunk that cannot be asked goes on to be indexed by its text; it ends dead there, with the reason kept here.
FAIL_PENDING = text(f"""
    UPDATE chunks t
    SET state = CASE WHEN v.dead THEN 'asked' ELSE 'pending' END, error = v.error,
        attempts = CASE WHEN v.dead THEN 0 ELSE t.attempts + v.burned END, history = {_HISTORY},
        due_at = now() + v.after, leased_by = NULL, kills = {_KILLS}, prompt_tokens = t.prompt_tokens + v.prompt,
        completion_tokens = t.completion_tokens + v.completion, calls = t.calls + v.calls
    {_FAILURES} AND t.state = 'pending'
""")

FAIL_ASKED = text(f"""
    UPDATE chunks t
    SET state = CASE WHEN v.dead THEN 'dead' ELSE 'asked' END,
        error = CASE WHEN v.dead THEN v.error ELSE t.error END, attempts = t.attempts + v.burned,
        history = {_HISTORY}, due_at = now() + v.after, leased_by = NULL, kills = {_KILLS},
        settled_at = CASE WHEN v.dead THEN now() END
    {_FAILURES} AND t.state = 'asked'
    RETURNING t.document_id
""")

# In any order: what Qdrant refuses stays, and must not stand in front of all others.
FINISHABLE = text("""
    SELECT d.id, d.tenant, l.index_name, d.generation, d.live_generation
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.state IN ('asking', 'indexing')
      AND (CAST(:ids AS uuid[]) IS NULL OR d.id = ANY(CAST(:ids AS uuid[])))
      AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.generation = d.generation
                                               AND c.state IN ('pending', 'asked'))
    ORDER BY random() LIMIT :limit
""")

FINISH = text("""
    WITH ended AS (
        SELECT d.id, v.generation,
               EXISTS (SELECT 1 FROM chunks c
                       WHERE c.document_id = d.id AND c.generation = d.generation AND c.state = 'dead') AS degraded
        FROM documents d
        JOIN unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[])) AS v(id, generation)
          ON d.id = v.id AND d.generation = v.generation
        WHERE d.state IN ('asking', 'indexing')
          AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.generation = d.generation
                                                   AND c.state IN ('pending', 'asked'))
        ORDER BY d.id FOR UPDATE OF d
    )
    UPDATE documents d
    SET state = CASE WHEN ended.degraded THEN 'degraded' ELSE 'ready' END, live_generation = d.generation,
        updated_at = now()
    FROM ended WHERE d.id = ended.id
    RETURNING d.id
""")

FORGET = text("""
    DELETE FROM chunks c
    USING unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[])) AS v(id, generation)
    WHERE c.document_id = v.id AND c.generation < v.generation
""")

INSERT_SWEEPS = text("""
    INSERT INTO sweeps (index_name, tenant, document_id, below_generation, due_at)
    SELECT v.index_name, v.tenant, v.id, v.generation, now() + :after
    FROM unnest(CAST(:index_names AS text[]), CAST(:tenants AS text[]), CAST(:ids AS uuid[]),
                CAST(:generations AS int[])) AS v(index_name, tenant, id, generation)
""")

DELETED = text("""
    SELECT d.id, d.tenant, l.index_name, d.generation, d.live_generation
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.state = 'deleting' AND d.due_at <= now() ORDER BY random() LIMIT :limit
""")

FORGET_DELETED = text(
    "DELETE FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND state = 'deleting' RETURNING upload"
)

DUE_SWEEPS = text("""
    SELECT id, index_name, tenant, document_id, below_generation FROM sweeps
    WHERE due_at <= now() ORDER BY random() LIMIT :limit
""")

_LEASES = """
    FROM unnest(CAST(:ids AS uuid[]), CAST(:generations AS int[]), CAST(:tokens AS bigint[]))
         AS v(id, generation, token)
    WHERE t.id = v.id AND t.generation = v.generation AND t.lease_token = v.token AND t.leased_by IS NOT NULL
"""
_TABLES = ("documents", "chunks")
EXTEND = {name: text(f"UPDATE {name} t SET due_at = now() + :lease {_LEASES}") for name in _TABLES}
GIVE_BACK = {
    "documents": text(f"UPDATE documents t SET due_at = now(), leased_by = NULL, state = 'queued' {_LEASES}"),
    "chunks": text(f"UPDATE chunks t SET due_at = now(), leased_by = NULL {_LEASES}"),
}
