"""The statements that settle work; `shared.ledger.work.claims` contains the statements that claim it.

Each settlement compares the fencing token in its WHERE clause, so a stale settlement changes nothing. A group of any
size is one statement with one plan: its rows are one JSON array, whose names match the columns (`rows`).
"""

from __future__ import annotations

from sqlalchemy import text

from shared.domain.states import ChunkState, DocumentState
from shared.ledger.model import states

_VERSION = "id uuid, version int"
_LEASE = "id uuid, version int, token bigint"
_USAGE = "prompt_tokens int, completion_tokens int, calls int"


def _rows(columns: str) -> str:
    """The statement's rows as a table `v` of these columns."""
    return f"jsonb_to_recordset(CAST(:rows AS jsonb)) AS v({columns})"


def _spent(alias: str) -> str:
    """The columns of a chunk's costs. `v` has the sum, so that a settlement can be applied twice."""
    columns = ("prompt_tokens", "completion_tokens", "calls")
    return ", ".join(f"{column} = greatest({alias}.{column}, v.{column})" for column in columns)


# Record documents as parsed.
SETTLE_PARSED = text(f"""
    WITH parsed AS (
        UPDATE documents d
        SET {states.SETTLE_PARSED.sets()}, leased_by = NULL, attempts = 0, lost_leases = 0, error = NULL,
            due_at = now(), updated_at = now()
        FROM {_rows("id uuid, token bigint, title text, media_type text")}
        WHERE d.id = v.id AND d.lease_token = v.token AND {states.SETTLE_PARSED.applies("d")}
        RETURNING d.id, d.version, v.title, v.media_type
    )
    UPDATE document_versions o
    SET title = coalesce(o.title, p.title), media_type = coalesce(o.media_type, p.media_type)
    FROM parsed p WHERE o.document_id = p.id AND o.version = p.version
    RETURNING p.id
""")

# Remember that a collection has texts in these languages.
ADD_LANGUAGES = text("""
    UPDATE collections
    SET languages = ARRAY(SELECT DISTINCT l FROM unnest(languages || CAST(:languages AS text[])) l ORDER BY l)
    WHERE id = :id AND NOT languages @> CAST(:languages AS text[])
""")

# Lock a document whose chunks are being inserted, if the claim holds.
HOLD_PARSING = text(f"""
    SELECT id FROM documents WHERE id = :id AND lease_token = :token AND {states.SETTLE_PARSED.applies()} FOR UPDATE
""")

# Lock the completions of these keys until the transaction ends, because chunks that need them are being inserted.
HOLD_COMPLETIONS = text("""
    SELECT 1 FROM completions WHERE content_key = ANY(CAST(:keys AS bytea[])) ORDER BY content_key FOR KEY SHARE
""")

# Insert the chunks of parsed documents with their contents.
INSERT_CHUNKS = text(f"""
    WITH v AS MATERIALIZED (
        SELECT * FROM
            {_rows("document_id uuid, id uuid, ordinal int, content jsonb, content_key bytea, ready_questions text[]")}
    ), inserted AS (
        INSERT INTO chunks (id, version, document_id, tenant, lane, ordinal, content_key, state, ready_made,
                            embedding_model)
        SELECT v.id, d.version, d.id, d.tenant, d.lane, v.ordinal, v.content_key,
               {states.INSERT_CHUNK.target()}, v.ready_questions IS NOT NULL, l.embedding_model
        FROM v JOIN documents d ON d.id = v.document_id JOIN collections l ON l.id = d.collection_id
        ON CONFLICT DO NOTHING
        RETURNING id, version
    )
    INSERT INTO chunk_contents (chunk_id, version, content, ready_questions, content_key)
    SELECT i.id, i.version, v.content, v.ready_questions, v.content_key FROM inserted i JOIN v ON v.id = i.id
""")

# The columns of a chunk with questions.
_GENERATED = f"""
    {states.SETTLE_GENERATED.sets()}, leased_by = NULL, due_at = now(), attempts = 0, lost_leases = 0, error = NULL"""

# Set the keys of claimed chunks to those of the requests about to be sent, because the prompt or the model may have
# changed since they were parsed. If another chunk of the new key is in progress, the lease ends, so that no content is
# paid twice.
SET_KEYS = text(f"""
    WITH said AS (
        UPDATE chunk_contents t SET content_key = r.content_key
        FROM {_rows("id uuid, version int, token bigint, content_key bytea").replace("AS v(", "AS r(")}
        JOIN chunks c ON c.id = r.id AND c.version = r.version AND c.lease_token = r.token
        WHERE t.chunk_id = r.id AND t.version = r.version
    )
    UPDATE chunks c
    SET content_key = v.content_key, due_at = CASE WHEN v.taken THEN now() ELSE c.due_at END,
        leased_by = CASE WHEN v.taken THEN NULL ELSE c.leased_by END
    FROM (
        SELECT r.id, r.version, r.token, r.content_key, r.again OR EXISTS (
                   SELECT 1 FROM chunks o
                   WHERE o.content_key = r.content_key AND {states.is_in(states.TO_GENERATE, "o")}
                     AND o.leased_by IS NOT NULL) AS taken
        FROM jsonb_to_recordset(CAST(:rows AS jsonb))
             AS r(id uuid, version int, token bigint, content_key bytea, again boolean)
    ) v
    WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token
    RETURNING v.token, v.taken,
              (SELECT p.replies FROM paid_replies p WHERE p.content_key = c.content_key) AS replies
""")

# A chunk needs the paid content, or nothing of its tenant was erased since the claim: a late settlement must not
# restore erased data. OFFSET 0 keeps the planner from reading whole tables.
_NOT_ERASED = """
    (EXISTS (SELECT 1 FROM chunk_contents t WHERE t.content_key = v.content_key OFFSET 0)
     OR NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = v.tenant AND e.last_token > v.token OFFSET 0))"""

# Store replies for the next chunk that needs their content, the same chunk or one of the next version. Late writers
# have fewer or the same replies. Complete questions replace them.
_KEEP_REPLIES = f"""
    INSERT INTO paid_replies AS p (content_key, tenant, replies)
    SELECT DISTINCT ON (v.content_key) v.content_key, v.tenant, v.replies
    FROM {{rows}}
    WHERE jsonb_array_length(v.replies) > 0 AND {_NOT_ERASED}
      AND NOT EXISTS (SELECT 1 FROM completions c WHERE c.content_key = v.content_key)
    ORDER BY v.content_key, jsonb_array_length(v.replies) DESC
    ON CONFLICT (content_key) DO UPDATE SET replies = excluded.replies, written_at = now()
    WHERE jsonb_array_length(excluded.replies) >= jsonb_array_length(p.replies)"""

# Store the replies of a chunk that needs more calls, and add their costs.
_REPLIES = _rows(_LEASE + ", content_key bytea, tenant text, replies jsonb, " + _USAGE)
KEEP_REPLIES = text(f"""
    WITH kept AS ({_KEEP_REPLIES.format(rows=_REPLIES)})
    UPDATE chunks c SET {_spent("c")}
    FROM {_REPLIES}
    WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND c.leased_by IS NOT NULL
      AND {states.SETTLE_GENERATED.applies("c")}
    RETURNING c.id
""")

# Chunks of these keys that a completion has paid for.
_PAID = f"""
    SELECT c.id, c.version FROM chunks c JOIN completions p ON p.content_key = c.content_key
    WHERE c.content_key = ANY(CAST(:keys AS bytea[])) AND {states.SETTLE_GENERATED.applies("c")}"""

# Advance claimed chunks with paid questions, and a limited number of unclaimed chunks with the same content.
SETTLE_PAID_BEFORE = text(f"""
    UPDATE chunks SET {_GENERATED}
    WHERE (id, version) IN (
        {_PAID} AND c.leased_by = :worker
        UNION ALL
        SELECT t.id, t.version FROM ({_PAID} AND c.leased_by IS NULL LIMIT :limit FOR UPDATE OF c SKIP LOCKED) t)
    RETURNING content_key
""")

# Store paid questions, and delete their single replies.
_COMPLETION = "token bigint, content_key bytea, tenant text, model text, questions text[]"
INSERT_COMPLETIONS = text(f"""
    WITH whole AS (
        DELETE FROM paid_replies p USING {_rows(_COMPLETION)} WHERE p.content_key = v.content_key
    )
    INSERT INTO completions (content_key, tenant, model, questions)
    SELECT v.content_key, v.tenant, v.model, v.questions FROM {_rows(_COMPLETION)}
    WHERE {_NOT_ERASED}
    ON CONFLICT DO NOTHING
""")

# Advance chunks whose questions were paid now, and add their costs.
SETTLE_PAID = text(f"""
    UPDATE chunks c
    SET {_GENERATED},
        {_spent("c")}
    FROM {_rows(_LEASE + ", " + _USAGE)}
    WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND {states.SETTLE_GENERATED.applies("c")}
""")

# Advance a limited number of other chunks with the same content, claimed or not; the others advance when they are
# claimed. Chunks locked by another transaction are skipped.
SETTLE_TWINS = text(f"""
    UPDATE chunks SET {_GENERATED}
    WHERE (id, version) IN (
        SELECT id, version FROM chunks
        WHERE content_key = ANY(CAST(:keys AS bytea[])) AND {states.SETTLE_GENERATED.applies()}
        LIMIT :limit FOR UPDATE SKIP LOCKED)
""")

# Record chunks whose texts Qdrant has confirmed; they wait for their questions.
SETTLE_TEXT = text(f"""
    UPDATE chunks c
    SET {states.SETTLE_TEXT.sets()}, points_token = v.token, leased_by = NULL, due_at = now(), attempts = 0,
        lost_leases = 0
    FROM {_rows(_LEASE)}
    WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND {states.SETTLE_TEXT.applies("c")}
    RETURNING c.id, c.version
""")

# Record chunks whose points Qdrant has confirmed, with the results of the question filter; a chunk that could not be
# generated is dead, with its reason.
SETTLE_INDEXED = text(f"""
    WITH settled AS (
        UPDATE chunks c
        SET {states.SETTLE_INDEXED.sets("v.error IS NULL")}, error = v.error, questions_passed = v.passed,
            points_token = v.token, leased_by = NULL, attempts = 0, lost_leases = 0, settled_at = now()
        FROM {_rows(_LEASE + ", error text, questions text[], reasons text[], similarities real[], passed int")}
        WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND {states.SETTLE_INDEXED.applies("c")}
        RETURNING c.id, c.version, CASE WHEN v.questions IS NULL THEN c.content_key END AS content_key, v.questions,
                  v.reasons, v.similarities
    ), judged AS (
        INSERT INTO chunk_questions (chunk_id, version, content_key, questions, reasons, similarities)
        SELECT id, version, content_key, questions, reasons, similarities FROM settled
        ON CONFLICT (chunk_id, version) DO UPDATE
        SET content_key = excluded.content_key, questions = excluded.questions, reasons = excluded.reasons,
            similarities = excluded.similarities
    )
    SELECT id, version FROM settled
""")

# The last twenty failed attempts: a row that waits for an engine may be tried for days.
_HISTORY = """(CASE WHEN jsonb_array_length(t.history) < 20 THEN t.history ELSE t.history - 0 END)
        || jsonb_build_object('at', now(), 'attempt', t.attempts + 1, 'error', v.error)"""

# The due time of the next attempt.
_DUE = "now() + make_interval(secs => v.after_seconds)"

# The failed attempts whose claims hold, and which are not recorded yet.
_FAILURES = f"""
    FROM {_rows(_LEASE + ", error text, dead boolean, after_seconds float, burned int, " + _USAGE)}
    WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
"""

# An attempt that failed for external reasons proves nothing about the row: a suspect stays a suspect.
_LOST_LEASES = "CASE WHEN v.burned = 0 THEN t.lost_leases ELSE 0 END"

# Record failed attempts to parse.
FAIL_DOCUMENTS = text(f"""
    UPDATE documents t
    SET {states.FAIL_PARSING.sets("v.dead")}, error = v.error, attempts = t.attempts + v.burned,
        history = {_HISTORY}, due_at = {_DUE}, leased_by = NULL, lost_leases = {_LOST_LEASES}, updated_at = now()
    {_FAILURES} AND {states.FAIL_PARSING.applies("t")}
    RETURNING t.id, t.tenant, t.collection_id, t.state
""")

# The replies of failed attempts.
_FAILED_REPLIES = _rows("token bigint, content_key bytea, tenant text, dead boolean, replies jsonb")

# Record failed attempts to generate. A chunk without questions is still indexed by its text and ends dead there, with
# the reason that is recorded here. Its replies are deleted, so that a retry makes new calls. Those of other attempts
# are kept, even if the claim has expired.
FAIL_GENERATING = text(f"""
    WITH kept AS ({_KEEP_REPLIES.format(rows=f"(SELECT * FROM {_FAILED_REPLIES} WHERE NOT v.dead) v")}),
    useless AS (
        DELETE FROM paid_replies p USING {_FAILED_REPLIES} WHERE v.dead AND p.content_key = v.content_key
    )
    UPDATE chunks t
    SET {states.FAIL_GENERATING.sets("v.dead")}, error = v.error,
        attempts = CASE WHEN v.dead THEN 0 ELSE t.attempts + v.burned END, history = {_HISTORY},
        due_at = {_DUE}, leased_by = NULL, lost_leases = {_LOST_LEASES},
        {_spent("t")}
    {_FAILURES} AND {states.FAIL_GENERATING.applies("t")}
""")

# Record failed attempts to index.
FAIL_INDEXING = text(f"""
    UPDATE chunks t
    SET {states.END_INDEXING.sets_where("v.dead", "t")},
        error = CASE WHEN v.dead THEN v.error ELSE t.error END, attempts = t.attempts + v.burned,
        history = {_HISTORY}, due_at = {_DUE}, leased_by = NULL, lost_leases = {_LOST_LEASES},
        settled_at = CASE WHEN v.dead THEN now() END,
        questions_passed = CASE WHEN v.dead THEN 0 ELSE t.questions_passed END
    {_FAILURES} AND {states.END_INDEXING.applies("t")}
    RETURNING t.document_id
""")

# No chunk of a document's newest version is open.
_NO_OPEN_CHUNK = f"""
    NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version
                                         AND {states.is_in(states.OPEN_CHUNKS, "c")})"""

# A chunk of a document's newest version is dead.
_HAS_DEAD_CHUNK = f"""
    EXISTS (SELECT 1 FROM chunks c
            WHERE c.document_id = d.id AND c.version = d.version AND c.state = '{ChunkState.DEAD}')"""

# Qdrant has confirmed every sweep of a document once.
_NO_FIRST_SWEEP = "NOT EXISTS (SELECT 1 FROM sweeps s WHERE s.document_id = d.id AND s.again)"

# Every text of a document's newest version is stored, or cannot be.
_ALL_TEXTS_STORED = f"""
    NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version
                                         AND {states.is_in(states.TO_INDEX_TEXT, "c")})"""

# A document's newest version is about to be live; Qdrant is updated next.
_BECOMES_LIVE = f"""
    {states.SHOW.applies("d")} AND d.live_version IS DISTINCT FROM d.version AND {_ALL_TEXTS_STORED}"""

# Queries see a document's newest version.
_IS_SHOWN = f"{states.SHOW.applies('d')} AND d.live_version = d.version AND {_NO_FIRST_SWEEP}"

# A document's chunks have all ended.
_HAS_ENDED = f"{states.FINISH.applies('d')} AND {_NO_OPEN_CHUNK} AND {_NO_FIRST_SWEEP}"

_MAY_GO_ON = f"({_BECOMES_LIVE} OR {_IS_SHOWN} OR {_HAS_ENDED})"

# Find open documents that can advance because their workers died, longest due first. All checked documents are due
# again after a quarter of their age or a minute: a document waits for hours while a model is slow, and the settlement
# of its last chunk names it.
LOOK_AT_OPEN = text(f"""
    WITH due AS (
        SELECT id FROM documents WHERE {states.is_in(states.OPEN_DOCUMENTS)} AND due_at <= now()
        ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
    ), looked AS (
        UPDATE documents d
        SET due_at = now() + least(greatest((now() - d.updated_at) / 4 - interval '1 second', '0'), '1 minute')
        FROM due WHERE d.id = due.id
        RETURNING d.id, {_MAY_GO_ON} AS may_go_on
    )
    SELECT id FROM looked WHERE may_go_on
""")

# Mark documents whose chunks have changed, for listeners. Once per 5 s suffices: a mark is read for 25 s, and a
# transaction takes at most 20 s. Documents locked by another transaction are skipped.
TOUCH = text(f"""
    UPDATE documents SET updated_at = now()
    WHERE id IN (
        SELECT id FROM documents
        WHERE id = ANY(CAST(:ids AS uuid[])) AND {states.is_in(states.OPEN_DOCUMENTS)}
          AND updated_at <= now() - interval '5 seconds'
        FOR NO KEY UPDATE SKIP LOCKED)
""")

# Lock documents among these that may go on, in one order.
LOCK_ENDED = text(f"""
    SELECT d.id FROM documents d
    WHERE d.id IN (SELECT d.id FROM documents d WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {_MAY_GO_ON})
    ORDER BY d.id FOR UPDATE
""")

# Make the newest version of locked documents live if all its texts are stored.
MAKE_LIVE = text(f"""
    UPDATE documents d SET live_version = d.version, due_at = now(), updated_at = now()
    WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {_BECOMES_LIVE}
    RETURNING d.id, d.version
""")

# A document belongs to a build that follows the live one, or to a live one with followers.
_FOLLOWS = f"""
    EXISTS (SELECT 1 FROM collections l WHERE l.id = d.collection_id AND {states.build_is_in(states.FOLLOWERS, "l")})
    AS follows,
    EXISTS (SELECT 1 FROM collections l WHERE l.id = d.collection_id AND l.followed AND {states.is_live("l")})
    AS leads"""

# Record locked documents as searchable once Qdrant shows their live version: until then queries see the one before.
SHOW = text(f"""
    UPDATE documents d SET {states.SHOW.sets()}, due_at = now(), updated_at = now()
    WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {_IS_SHOWN}
    RETURNING d.id, {_FOLLOWS}
""")

# Find the documents whose live version contains chunks that were written hidden: their sweep may have preceded these
# points.
HIDDEN_OF_LIVE = text(f"""
    SELECT DISTINCT d.id, d.version
    FROM {_rows("document_id uuid, version int")} JOIN documents d ON d.id = v.document_id
    WHERE d.live_version = v.version AND {states.exists("d")}
""")

# Finish locked documents that show their newest version in Qdrant too.
FINISH = text(f"""
    UPDATE documents d
    SET {states.FINISH.sets(_HAS_DEAD_CHUNK)}, updated_at = now()
    WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {_HAS_ENDED}
    RETURNING d.id, d.tenant, d.collection_id, d.state, {_FOLLOWS}
""")

# Sweep chunks that a late writer has written or may still write. A version without the chunk is used by no worker.
INSERT_LATE_SWEEPS = text(f"""
    INSERT INTO sweeps (collection_id, tenant, index_name, document_id, below_version, chunk_id, due_at)
    SELECT v.collection_id, v.tenant, v.index_name, v.document_id, v.version + (c.id IS NULL)::int, c.id,
           CASE WHEN v.later THEN now() + :after ELSE now() END
    FROM {_rows(_LEASE + ", document_id uuid, collection_id uuid, tenant text, index_name text, later boolean")}
    LEFT JOIN chunks c ON c.id = v.id AND c.version = v.version
    WHERE v.later OR c.lease_token IS DISTINCT FROM v.token
""")

# Find documents whose points must be deleted and whose versions are deleted, longest due first. Documents of a dropped
# build are deleted with it.
DELETABLE = text(f"""
    SELECT d.id, d.tenant, d.collection_id, l.index_name, d.version, d.live_version
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.state = '{DocumentState.DELETING}' AND d.due_at <= now() AND NOT {states.is_dropping("l")}
      AND NOT EXISTS (SELECT 1 FROM document_versions v WHERE v.document_id = d.id)
    ORDER BY d.due_at LIMIT :limit
""")

# Postpone documents whose points Qdrant did not delete.
PUT_OFF_DELETION = text(f"""
    UPDATE documents SET due_at = now() WHERE id = ANY(CAST(:ids AS uuid[])) AND state = '{DocumentState.DELETING}'
""")

# Delete the rows of documents whose points are deleted.
DELETE_DOCUMENTS = text(f"""
    DELETE FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND state = '{DocumentState.DELETING}'
""")

# Find due sweeps, all or some, longest due first.
DUE_SWEEPS = text(f"""
    SELECT s.id, s.collection_id, s.index_name, s.tenant, s.document_id, s.below_version, d.live_version,
           d.id IS NULL AS deleted, s.chunk_id, c.points_token, s.again
    FROM sweeps s
    LEFT JOIN documents d ON d.id = s.document_id AND {states.exists("d")}
    LEFT JOIN chunks c ON c.id = s.chunk_id AND c.version = s.below_version
    WHERE s.due_at <= now() AND (CAST(:ids AS bigint[]) IS NULL OR s.id = ANY(CAST(:ids AS bigint[])))
    ORDER BY s.due_at LIMIT :limit
""")

# Postpone sweeps that Qdrant rejected.
PUT_OFF_SWEEPS = text("UPDATE sweeps SET due_at = now() WHERE id = ANY(CAST(:ids AS bigint[])) AND due_at <= now()")

# Delete sweeps that are done for good.
DELETE_SWEEPS = text("DELETE FROM sweeps WHERE id = ANY(CAST(:ids AS bigint[]))")

# Let sweeps that were done once wait until all older leases have expired.
REPEAT_SWEEPS = text("""
    UPDATE sweeps SET again = false, due_at = now() + :after WHERE id = ANY(CAST(:ids AS bigint[])) AND again
""")

# The leases that still hold.
_LEASES = f"""
    FROM {_rows(_LEASE)}
    WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
"""
_TABLES = ("documents", "chunks")

# Extend leases; the returned tokens are those of valid leases.
EXTEND = {
    name: text(f"UPDATE {name} t SET due_at = now() + :lease {_LEASES} RETURNING t.lease_token") for name in _TABLES
}

# Delete replies whose content was not needed since.
FORGET_REPLIES = text("""
    DELETE FROM paid_replies WHERE content_key = ANY(ARRAY(
        SELECT content_key FROM paid_replies WHERE written_at <= now() - CAST(:age AS interval) LIMIT :limit))
    RETURNING 1
""")

# Let other workers wait for the replies to calls of discarded chunks.
EXTEND_CALLS = text(
    "UPDATE abandoned_calls SET due_at = now() + :lease WHERE lease_token = ANY(CAST(:tokens AS bigint[]))"
)

# End that wait: the reply arrived, or none will.
END_CALLS = text("DELETE FROM abandoned_calls WHERE lease_token = ANY(CAST(:tokens AS bigint[]))")

# End leases without an attempt.
GIVE_BACK = {
    "documents": text(
        f"UPDATE documents t SET {states.RELEASE_DOCUMENT.sets()}, due_at = now(), leased_by = NULL {_LEASES}"
    ),
    "chunks": text(f"UPDATE chunks t SET due_at = now(), leased_by = NULL {_LEASES}"),
}

# End leases as if their worker had died: the next claim counts them as lost.
EXPIRE = {name: text(f"UPDATE {name} t SET due_at = now() {_LEASES}") for name in _TABLES}
