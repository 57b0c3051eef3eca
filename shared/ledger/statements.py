"""The statements that settle work; `shared.ledger.claims` has the statements that claim it.

Each settlement compares the fencing token in its WHERE clause: a stale settlement changes nothing. A group of
any size is one statement with one plan: its rows are one JSON array, whose names match the columns (`rows`).
"""

from __future__ import annotations

from sqlalchemy import text

from shared.domain.records import ChunkState, DocumentState
from shared.ledger import states

_VERSION = "id uuid, version int"
_LEASE = "id uuid, version int, token bigint"
_COST = "prompt_tokens int, completion_tokens int, calls int"


def _rows(columns: str) -> str:
    """The statement's rows as a table `v` of these columns."""
    return f"jsonb_to_recordset(CAST(:rows AS jsonb)) AS v({columns})"


# Record documents as parsed, and let them go on: to be indexed at once where they brought their questions.
SETTLE_PARSED = text(f"""
    UPDATE documents d
    SET {states.SETTLE_PARSED.sets("v.to_generate")}, title = coalesce(d.title, v.title),
        media_type = coalesce(d.media_type, v.media_type),
        leased_by = NULL, attempts = 0, lost_leases = 0, error = NULL, due_at = now(), updated_at = now()
    FROM {_rows("id uuid, token bigint, to_generate boolean, title text, media_type text")}
    WHERE d.id = v.id AND d.lease_token = v.token AND {states.SETTLE_PARSED.applies("d")}
    RETURNING d.id
""")

# Write the chunks of parsed documents. A chunk that the live version does not have stays hidden until its version is.
INSERT_CHUNKS = text(f"""
    INSERT INTO chunks (id, version, document_id, tenant, lane, ordinal, content, content_key, state, ready_questions,
                        hidden)
    SELECT v.id, d.version, d.id, d.tenant, d.lane, v.ordinal, v.content, v.content_key,
           {states.INSERT_CHUNK.target("v.ready_questions IS NULL")}, v.ready_questions,
           d.live_version IS NOT NULL AND NOT EXISTS (
               SELECT 1 FROM chunks o WHERE o.id = v.id AND o.version = d.live_version)
    FROM {_rows("document_id uuid, id uuid, ordinal int, content jsonb, content_key bytea, ready_questions text[]")}
    JOIN documents d ON d.id = v.document_id
    ON CONFLICT DO NOTHING
""")

# The columns of a chunk whose questions are there.
_GENERATED = f"""
    {states.SETTLE_GENERATED.sets()}, leased_by = NULL, due_at = now(), attempts = 0, lost_leases = 0, error = NULL"""

# Let claimed chunks go on whose questions were paid for before.
SETTLE_PAID_BEFORE = text(f"""
    UPDATE chunks c SET {_GENERATED}
    FROM completions p
    WHERE c.content_key = p.content_key AND c.content_key = ANY(CAST(:keys AS bytea[]))
      AND {states.SETTLE_GENERATED.applies("c")}
      AND (c.leased_by IS NULL OR c.leased_by = :worker)
    RETURNING c.content_key
""")

# Write the questions that were paid for.
INSERT_COMPLETIONS = text(f"""
    INSERT INTO completions (content_key, tenant, model, questions, prompt_tokens, completion_tokens, calls)
    SELECT v.content_key, v.tenant, v.model, v.questions, v.prompt_tokens, v.completion_tokens, v.calls
    FROM {_rows("content_key bytea, tenant text, model text, questions text[], " + _COST)}
    ON CONFLICT DO NOTHING
""")

# Let chunks go on whose questions were paid for now, and add what they cost.
SETTLE_PAID = text(f"""
    UPDATE chunks c
    SET {_GENERATED},
        prompt_tokens = c.prompt_tokens + v.prompt_tokens,
        completion_tokens = c.completion_tokens + v.completion_tokens,
        calls = c.calls + v.calls
    FROM {_rows(_LEASE + ", " + _COST)}
    WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND {states.SETTLE_GENERATED.applies("c")}
""")

# Let every other chunk of the same content go on, whoever holds it.
SETTLE_TWINS = text(f"""
    UPDATE chunks SET {_GENERATED}
    WHERE content_key = ANY(CAST(:keys AS bytea[])) AND {states.SETTLE_GENERATED.applies()}
""")

# Record that no chunk of documents waits for its questions.
BEGIN_INDEXING = text(f"""
    WITH generated AS (
        SELECT d.id FROM documents d
        WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {states.BEGIN_INDEXING.applies("d")}
          AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version
                                                   AND {states.is_in(states.TO_GENERATE, "c")})
        ORDER BY d.id FOR UPDATE
    )
    UPDATE documents d SET {states.BEGIN_INDEXING.sets()}, updated_at = now()
    FROM generated WHERE d.id = generated.id AND {states.BEGIN_INDEXING.applies("d")}
""")

# Record chunks whose points Qdrant has confirmed; a chunk that could not be generated ends dead, with its reason.
SETTLE_INDEXED = text(f"""
    UPDATE chunks c
    SET {states.SETTLE_INDEXED.sets("v.error IS NULL")}, error = v.error, questions = v.questions,
        questions_passed = v.passed, leased_by = NULL, attempts = 0, lost_leases = 0, settled_at = now()
    FROM {_rows(_LEASE + ", error text, questions jsonb, passed int")}
    WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND {states.SETTLE_INDEXED.applies("c")}
    RETURNING c.id, c.version
""")

# The last twenty failed attempts: a row that waits for an engine may be tried for days.
_HISTORY = """(CASE WHEN jsonb_array_length(t.history) < 20 THEN t.history ELSE t.history - 0 END)
        || jsonb_build_object('at', now(), 'attempt', t.attempts + 1, 'error', v.error)"""

# When the next attempt may begin.
_DUE = "now() + make_interval(secs => v.after_seconds)"

# The failed attempts whose claims still hold.
_FAILURES = f"""
    FROM {_rows(_LEASE + ", error text, dead boolean, after_seconds float, burned int, " + _COST)}
    WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token
"""

# Record failed attempts to parse.
FAIL_DOCUMENTS = text(f"""
    UPDATE documents t
    SET {states.FAIL_PARSING.sets("v.dead")}, error = v.error, attempts = t.attempts + v.burned,
        history = {_HISTORY}, due_at = {_DUE}, leased_by = NULL, updated_at = now()
    {_FAILURES} AND {states.FAIL_PARSING.applies("t")}
""")

# An attempt that was no fault of the row says nothing about the row: a suspect stays a suspect.
_LOST_LEASES = "CASE WHEN v.burned = 0 THEN t.lost_leases ELSE 0 END"

# Record failed attempts to generate. A chunk without questions goes on to be indexed by its text: it ends dead there,
# with the reason that is written here.
FAIL_GENERATING = text(f"""
    UPDATE chunks t
    SET {states.FAIL_GENERATING.sets("v.dead")}, error = v.error,
        attempts = CASE WHEN v.dead THEN 0 ELSE t.attempts + v.burned END, history = {_HISTORY},
        due_at = {_DUE}, leased_by = NULL, lost_leases = {_LOST_LEASES},
        prompt_tokens = t.prompt_tokens + v.prompt_tokens,
        completion_tokens = t.completion_tokens + v.completion_tokens, calls = t.calls + v.calls
    {_FAILURES} AND {states.FAIL_GENERATING.applies("t")}
""")

# Record failed attempts to index.
FAIL_INDEXING = text(f"""
    UPDATE chunks t
    SET {states.FAIL_INDEXING.sets("v.dead")},
        error = CASE WHEN v.dead THEN v.error ELSE t.error END, attempts = t.attempts + v.burned,
        history = {_HISTORY}, due_at = {_DUE}, leased_by = NULL, lost_leases = {_LOST_LEASES},
        settled_at = CASE WHEN v.dead THEN now() END,
        questions_passed = CASE WHEN v.dead THEN 0 ELSE t.questions_passed END
    {_FAILURES} AND {states.FAIL_INDEXING.applies("t")}
    RETURNING t.document_id
""")

# No chunk of a document's newest version is open.
_NO_OPEN_CHUNK = f"""
    NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version
                                         AND {states.is_in(states.OPEN_CHUNKS, "c")})"""

# Find documents whose chunks have all ended. The order is random: a document that Qdrant refuses must not stand in
# front of all others for ever.
FINISHABLE = text(f"""
    SELECT d.id, d.tenant, l.index_name, d.version, d.live_version
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE {states.FINISH.applies("d")}
      AND (CAST(:ids AS uuid[]) IS NULL OR d.id = ANY(CAST(:ids AS uuid[])))
      AND {_NO_OPEN_CHUNK}
    ORDER BY random() LIMIT :limit
""")

# Make versions live whose chunks have all ended; a document that has changed meanwhile stays as it is.
FINISH = text(f"""
    WITH ended AS (
        SELECT d.id, v.version,
               EXISTS (SELECT 1 FROM chunks c
                       WHERE c.document_id = d.id AND c.version = d.version
                         AND c.state = '{ChunkState.DEAD}') AS degraded
        FROM documents d
        JOIN {_rows(_VERSION)}
          ON d.id = v.id AND d.version = v.version
        WHERE {states.FINISH.applies("d")} AND {_NO_OPEN_CHUNK}
        ORDER BY d.id FOR UPDATE OF d
    )
    UPDATE documents d
    SET {states.FINISH.sets("ended.degraded")}, live_version = d.version, updated_at = now()
    FROM ended WHERE d.id = ended.id
    RETURNING d.id
""")

# Delete the chunks of older versions.
DELETE_OLDER_CHUNKS = text(f"""
    DELETE FROM chunks c
    USING {_rows(_VERSION)}
    WHERE c.document_id = v.id AND c.version < v.version
""")

# Have the points below a version deleted once more, when no lease on older versions can hold.
INSERT_SWEEPS = text(f"""
    INSERT INTO sweeps (index_name, tenant, document_id, below_version, due_at)
    SELECT v.index_name, v.tenant, v.id, v.version, now() + :after
    FROM {_rows(_VERSION + ", tenant text, index_name text")}
""")

# Find documents whose points are to be deleted, in random order as above.
DELETABLE = text(f"""
    SELECT d.id, d.tenant, l.index_name, d.version, d.live_version
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.state = '{DocumentState.DELETING}' AND d.due_at <= now() ORDER BY random() LIMIT :limit
""")

# Delete the rows of documents whose points are deleted.
DELETE_DOCUMENTS = text(f"""
    DELETE FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND state = '{DocumentState.DELETING}' RETURNING upload
""")

# Find the versions below which queries see no point of documents.
STALE_BELOW = text(f"""
    SELECT id, coalesce(live_version, version) AS below FROM documents
    WHERE id = ANY(CAST(:ids AS uuid[])) AND {states.exists()}
""")

# Find sweeps whose time has come, in random order as above.
DUE_SWEEPS = text("""
    SELECT id, index_name, tenant, document_id, below_version FROM sweeps
    WHERE due_at <= now() ORDER BY random() LIMIT :limit
""")

# Delete sweeps that are done.
DELETE_SWEEPS = text("DELETE FROM sweeps WHERE id = ANY(CAST(:ids AS bigint[]))")

# The leases that still hold.
_LEASES = f"""
    FROM {_rows(_LEASE)}
    WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
"""
_TABLES = ("documents", "chunks")

# Hold rows for another lease; the tokens say which leases still held.
EXTEND = {
    name: text(f"UPDATE {name} t SET due_at = now() + :lease {_LEASES} RETURNING t.lease_token") for name in _TABLES
}

# End leases without an attempt.
GIVE_BACK = {
    "documents": text(
        f"UPDATE documents t SET {states.RELEASE_DOCUMENT.sets()}, due_at = now(), leased_by = NULL {_LEASES}"
    ),
    "chunks": text(f"UPDATE chunks t SET due_at = now(), leased_by = NULL {_LEASES}"),
}
