-- The statements that settle work. Each settlement compares the fencing token in its WHERE clause, so a stale
-- settlement changes nothing. A group of any size is one statement with one plan: its rows are one JSON array, whose
-- names match the columns (`rows`).

-- name: settle_parsed
-- Record documents as parsed.
-- plan: generic
WITH parsed AS (
    UPDATE documents d
    SET {SETTLE_PARSED.sets}, reader = v.reader, leased_by = NULL, attempts = 0, lost_leases = 0, error = NULL,
        due_at = now(), updated_at = now()
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS v(id uuid, token bigint, title text, media_type text, reader text, text_coverage real, missing jsonb)
    WHERE d.id = v.id AND d.lease_token = v.token AND {SETTLE_PARSED.applies:d}
    RETURNING d.id, d.version, v.title, v.media_type, v.text_coverage, v.missing
)
UPDATE document_versions o
SET title = coalesce(o.title, p.title), media_type = coalesce(o.media_type, p.media_type),
    text_coverage = p.text_coverage, missing = p.missing
FROM parsed p WHERE o.document_id = p.id AND o.version = p.version
RETURNING p.id

-- name: add_languages
-- Add languages to the languages of a collection.
-- plan: generic
UPDATE collections
SET languages = ARRAY(SELECT DISTINCT l FROM unnest(languages || CAST(:languages AS text[])) l ORDER BY l)
WHERE id = :id AND NOT languages @> CAST(:languages AS text[])

-- name: lock_parsing
-- Lock a document whose chunks are being inserted, if the claim holds, and extend the claim: other extensions skip
-- locked rows, and the row of a large document is locked nearly all the time.
-- plan: generic
UPDATE documents SET due_at = now() + :lease
WHERE id = :id AND lease_token = :token AND {SETTLE_PARSED.applies}
RETURNING id

-- name: share_completions
-- Lock the completions of these keys until the transaction ends, because chunks that need them are being inserted.
-- plan: generic
SELECT 1 FROM completions WHERE content_key = ANY(CAST(:keys AS bytea[])) ORDER BY content_key FOR KEY SHARE

-- name: insert_chunks
-- Insert the chunks of parsed documents with their contents. Pictures do not wait for batches, whose lines are texts.
-- plan: generic
WITH v AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS v(document_id uuid, id uuid, ordinal int, content jsonb, content_key bytea, ready_questions text[],
             picture bytea)
), inserted AS (
    INSERT INTO chunks (id, version, document_id, tenant, lane, ordinal, content_key, state, ready_made,
                        embedding_model)
    SELECT v.id, d.version, d.id, d.tenant,
           CASE WHEN v.picture IS NULL OR {is_live_lane:d} THEN d.lane ELSE {bulk_lane:d} END, v.ordinal, v.content_key,
           {INSERT_CHUNK.target}, v.ready_questions IS NOT NULL, l.embedding_model
    FROM v JOIN documents d ON d.id = v.document_id JOIN collections l ON l.id = d.collection_id
    ON CONFLICT DO NOTHING
    RETURNING id, version
)
INSERT INTO chunk_contents (chunk_id, version, content, ready_questions, content_key, picture)
SELECT i.id, i.version, v.content, v.ready_questions, v.content_key, v.picture FROM inserted i JOIN v ON v.id = i.id

-- part: generated
-- The columns of a chunk with questions.
{SETTLE_GENERATED.sets}, leased_by = NULL, due_at = now(), attempts = 0, lost_leases = 0, error = NULL

-- name: set_keys
-- Set the keys of claimed chunks to the keys of the requests about to be sent, because the prompt or the model may have
-- changed since they were parsed. If a call for the new key is in progress, even for a version that was discarded
-- meanwhile, the lease ends, so that no content is paid twice.
-- plan: generic
WITH contents AS (
    UPDATE chunk_contents t SET content_key = r.content_key
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(id uuid, version int, token bigint, content_key bytea)
    JOIN chunks c ON c.id = r.id AND c.version = r.version AND c.lease_token = r.token
    WHERE t.chunk_id = r.id AND t.version = r.version
)
UPDATE chunks c
SET content_key = v.content_key, due_at = CASE WHEN v.taken THEN now() ELSE c.due_at END,
    leased_by = CASE WHEN v.taken THEN NULL ELSE c.leased_by END
FROM (
    SELECT r.id, r.version, r.token, r.content_key, r.again OR EXISTS (
               SELECT 1 FROM chunks o
               WHERE o.content_key = r.content_key AND {TO_GENERATE:o}
                 AND o.leased_by IS NOT NULL) OR {is_called:w r.content_key} AS taken
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
         AS r(id uuid, version int, token bigint, content_key bytea, again boolean)
    JOIN chunks w ON w.id = r.id AND w.version = r.version AND w.lease_token = r.token
) v
WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token
RETURNING v.token, v.taken,
          (SELECT p.replies FROM paid_replies p WHERE p.content_key = c.content_key) AS replies

-- part: is_not_erased
-- A chunk needs the paid content, or nothing of its tenant was erased since the claim: a late settlement must not
-- restore erased data. OFFSET 0 keeps the planner from reading whole tables.
(EXISTS (SELECT 1 FROM chunk_contents t WHERE t.content_key = v.content_key OFFSET 0)
 OR NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = v.tenant AND e.last_token > v.token OFFSET 0))

-- part: is_needed
-- The next chunk that needs the content, the same chunk or one of the next version, needs the replies. Complete
-- questions replace them.
jsonb_array_length(v.replies) > 0 AND {is_not_erased}
  AND NOT EXISTS (SELECT 1 FROM completions c WHERE c.content_key = v.content_key)

-- part: replace_fewer_replies
-- Late writers bring fewer or the same replies.
ORDER BY v.content_key, jsonb_array_length(v.replies) DESC
ON CONFLICT (content_key) DO UPDATE SET replies = excluded.replies, written_at = now()
WHERE jsonb_array_length(excluded.replies) >= jsonb_array_length(p.replies)

-- part: spent
-- The costs of a chunk `t`. `v` has the sum, so that a settlement can be applied twice.
prompt_tokens = greatest(t.prompt_tokens, v.prompt_tokens),
completion_tokens = greatest(t.completion_tokens, v.completion_tokens),
calls = greatest(t.calls, v.calls),
tier_tokens = CASE WHEN v.calls > t.calls THEN v.tier_tokens ELSE t.tier_tokens END

-- name: keep_replies
-- Store the replies of a chunk that needs more calls, and add their costs.
-- plan: generic
WITH kept AS (
    INSERT INTO paid_replies AS p (content_key, tenant, replies)
    SELECT DISTINCT ON (v.content_key) v.content_key, v.tenant, v.replies
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS v(id uuid, version int, token bigint, content_key bytea, tenant text, replies jsonb,
             prompt_tokens int, completion_tokens int, calls int, tier_tokens int[])
    WHERE {is_needed} {replace_fewer_replies}
)
UPDATE chunks t SET {spent}
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(id uuid, version int, token bigint, content_key bytea, tenant text, replies jsonb,
         prompt_tokens int, completion_tokens int, calls int, tier_tokens int[])
WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
  AND {SETTLE_GENERATED.applies:t}
RETURNING t.id

-- part: paid_chunks
-- Chunks of these keys that a completion has paid for.
SELECT c.id, c.version FROM chunks c JOIN completions p ON p.content_key = c.content_key
WHERE c.content_key = ANY(CAST(:keys AS bytea[])) AND {SETTLE_GENERATED.applies:c}

-- name: settle_paid_before
-- Advance claimed chunks with paid questions, and a limited number of unclaimed chunks with the same content.
-- plan: generic
UPDATE chunks SET {generated}
WHERE (id, version) IN (
    {paid_chunks} AND c.leased_by = :worker
    UNION ALL
    SELECT t.id, t.version FROM ({paid_chunks} AND c.leased_by IS NULL LIMIT :limit FOR UPDATE OF c SKIP LOCKED) t)
RETURNING content_key

-- part: completion_rows
-- Complete questions by their content keys.
jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(token bigint, content_key bytea, tenant text, model text, questions text[], text text)

-- name: insert_completions
-- Store paid questions, and delete their single replies.
-- plan: generic
WITH complete AS (
    DELETE FROM paid_replies p USING {completion_rows} WHERE p.content_key = v.content_key
)
INSERT INTO completions (content_key, tenant, model, questions, text)
SELECT v.content_key, v.tenant, v.model, v.questions, v.text FROM {completion_rows}
WHERE {is_not_erased}
ON CONFLICT DO NOTHING

-- name: settle_paid
-- Advance chunks whose questions were paid now, and add their costs.
-- plan: generic
UPDATE chunks t
SET {generated},
    {spent}
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(id uuid, version int, token bigint, prompt_tokens int, completion_tokens int, calls int, tier_tokens int[])
WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND {SETTLE_GENERATED.applies:t}

-- name: settle_same_content
-- Advance a limited number of other chunks with the same content, claimed or not; the others advance when they are
-- claimed. Chunks locked by another transaction are skipped.
-- plan: generic
UPDATE chunks SET {generated}
WHERE (id, version) IN (
    SELECT id, version FROM chunks
    WHERE content_key = ANY(CAST(:keys AS bytea[])) AND {SETTLE_GENERATED.applies}
    LIMIT :limit FOR UPDATE SKIP LOCKED)

-- name: settle_text
-- Record chunks whose texts Qdrant has confirmed; they wait for their questions.
-- plan: generic
UPDATE chunks c
SET {SETTLE_TEXT.sets}, points_token = v.token, leased_by = NULL, due_at = now(), attempts = 0,
    lost_leases = 0
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint)
WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND {SETTLE_TEXT.applies:c}
RETURNING c.id, c.version

-- name: settle_indexed
-- Record chunks whose points Qdrant has confirmed, with the results of the question filter; a chunk that could not be
-- generated is dead, with its reason. The description of a picture becomes its text, and the picture is not needed any
-- more.
-- plan: generic
WITH settled AS (
    UPDATE chunks c
    SET {SETTLE_INDEXED.sets:v.error IS NULL}, error = v.error, questions_passed = v.passed,
        points_token = v.token, leased_by = NULL, attempts = 0, lost_leases = 0, settled_at = now()
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
         AS v(id uuid, version int, token bigint, error text, questions text[], reasons text[], similarities real[],
              passed int)
    WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND {SETTLE_INDEXED.applies:c}
    RETURNING c.id, c.version, CASE WHEN v.questions IS NULL THEN c.content_key END AS content_key, v.questions,
              v.reasons, v.similarities
), described AS (
    UPDATE chunk_contents t SET content = {described}, picture = NULL
    FROM settled s, completions p
    WHERE t.chunk_id = s.id AND t.version = s.version AND t.picture IS NOT NULL
      AND p.content_key = t.content_key AND p.text IS NOT NULL
), questions AS (
    INSERT INTO chunk_questions (chunk_id, version, content_key, questions, reasons, similarities)
    SELECT id, version, content_key, questions, reasons, similarities FROM settled
    ON CONFLICT (chunk_id, version) DO UPDATE
    SET content_key = excluded.content_key, questions = excluded.questions, reasons = excluded.reasons,
        similarities = excluded.similarities
)
SELECT id, version FROM settled

-- part: history
-- The last twenty failed attempts: a row that waits for an engine may be tried for days.
(CASE WHEN jsonb_array_length(t.history) < 20 THEN t.history ELSE t.history - 0 END)
        || jsonb_build_object('at', now(), 'attempt', t.attempts + 1, 'error', v.error)

-- part: next_attempt
now() + make_interval(secs => v.after_seconds)

-- part: valid_failures
-- The failed attempts whose claims hold, and which are not recorded yet.
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(id uuid, version int, token bigint, error text, dead boolean, after_seconds float, burned int,
         prompt_tokens int, completion_tokens int, calls int, tier_tokens int[])
WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL

-- part: lost_leases
-- An attempt that failed for external reasons proves nothing about the row: a suspect stays a suspect.
CASE WHEN v.burned = 0 THEN t.lost_leases ELSE 0 END

-- name: fail_documents
-- plan: generic
UPDATE documents t
SET {FAIL_PARSING.sets:v.dead}, reader = CASE WHEN v.dead THEN :reader ELSE t.reader END,
    error = v.error, attempts = t.attempts + v.burned,
    history = {history}, due_at = {next_attempt}, leased_by = NULL, lost_leases = {lost_leases}, updated_at = now()
{valid_failures} AND {FAIL_PARSING.applies:t}
RETURNING t.id, t.tenant, t.collection_id, t.state

-- part: failed_replies
-- The replies of failed attempts.
jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(token bigint, content_key bytea, tenant text, dead boolean, replies jsonb)

-- name: fail_generating
-- Record failed attempts to generate. A chunk without questions is still indexed by its text and ends dead there, with
-- the reason that is recorded here. Its replies are deleted, so that a retry makes new calls. The replies of other
-- attempts are kept, even if the claim has expired.
-- plan: generic
WITH kept AS (
    INSERT INTO paid_replies AS p (content_key, tenant, replies)
    SELECT DISTINCT ON (v.content_key) v.content_key, v.tenant, v.replies
    FROM (SELECT * FROM {failed_replies} WHERE NOT v.dead) v
    WHERE {is_needed} {replace_fewer_replies}
), useless AS (
    DELETE FROM paid_replies p USING {failed_replies} WHERE v.dead AND p.content_key = v.content_key
)
UPDATE chunks t
SET {FAIL_GENERATING.sets:v.dead}, error = v.error,
    attempts = CASE WHEN v.dead THEN 0 ELSE t.attempts + v.burned END, history = {history},
    due_at = {next_attempt}, leased_by = NULL, lost_leases = {lost_leases}, {spent}
{valid_failures} AND {FAIL_GENERATING.applies:t}

-- name: fail_indexing
-- Record failed attempts to index. A dead chunk keeps the points that earlier claims have written.
-- plan: generic
UPDATE chunks t
SET {end_indexing},
    error = CASE WHEN v.dead THEN v.error ELSE t.error END, attempts = t.attempts + v.burned,
    history = {history}, due_at = {next_attempt}, leased_by = NULL, lost_leases = {lost_leases},
    settled_at = CASE WHEN v.dead THEN now() END
{valid_failures} AND {END_INDEXING.applies:t}
RETURNING t.document_id, t.lease_token

-- part: is_incomplete
-- A chunk or a page of a document's newest version is dead, or its file was not read completely.
((EXISTS (SELECT 1 FROM chunks c
          WHERE c.document_id = d.id AND c.version = d.version AND c.state = {ChunkState.DEAD})
  OR EXISTS (SELECT 1 FROM pages p
             WHERE p.document_id = d.id AND p.version = d.version AND p.state = {PageState.DEAD}))
 OR EXISTS (SELECT 1 FROM document_versions v
            WHERE v.document_id = d.id AND v.version = d.version AND v.missing IS NOT NULL))

-- part: is_complete
-- A document's newest version may become live: every text is stored, or cannot be.
{SHOW.applies:d} AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version
                                 AND {TO_INDEX_TEXT:c})

-- part: is_finished
-- A document's chunks have all ended.
{FINISH.applies:d} AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version
                                   AND {OPEN_CHUNKS:c})

-- part: may_advance
({is_complete} OR {is_finished})

-- name: check_open
-- Find open documents that can advance because their workers died, longest due first. All checked documents are due
-- again after a quarter of their age or a minute: a document waits for hours while a model is slow, and the settlement
-- of its last chunk names it.
WITH due AS (
    SELECT id FROM documents WHERE {OPEN_DOCUMENTS} AND due_at <= now()
    ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
), checked AS (
    UPDATE documents d
    SET due_at = now() + least(greatest((now() - d.updated_at) / 4 - interval '1 second', '0'), '1 minute')
    FROM due WHERE d.id = due.id
    RETURNING d.id, {may_advance} AS may_advance
)
SELECT id FROM checked WHERE may_advance

-- name: touch
-- Mark documents whose chunks have changed, for listeners. Once per 5 s suffices: a mark is read for 25 s, and a
-- transaction takes at most 20 s. Documents locked by another transaction are skipped.
-- plan: generic
UPDATE documents SET updated_at = now()
WHERE id IN (
    SELECT id FROM documents
    WHERE id = ANY(CAST(:ids AS uuid[])) AND {OPEN_DOCUMENTS}
      AND updated_at <= now() - interval '5 seconds'
    FOR NO KEY UPDATE SKIP LOCKED)

-- name: lock_advancing
-- Lock documents among these that may advance, in one order; return whether their texts are not shown yet.
-- plan: generic
SELECT d.id, {SHOW.applies:d} AS opening FROM documents d
WHERE d.id IN (SELECT d.id FROM documents d WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {may_advance})
ORDER BY d.id FOR UPDATE

-- name: show
-- Make the newest version of locked documents live and searchable if all its texts are stored and its points visible:
-- either Qdrant has shown this version, or they were written visible, because the document has no live version.
-- plan: generic
UPDATE documents d SET {SHOW.sets}, live_version = d.version, due_at = now(), updated_at = now()
FROM documents o
WHERE o.id = d.id AND d.id = ANY(CAST(:ids AS uuid[])) AND {is_complete}
  AND (d.live_version IS NULL
       OR EXISTS (SELECT 1 FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int)
                  WHERE v.id = d.id AND v.version = d.version))
RETURNING d.id, o.live_version IS NOT NULL AS replaces, {follows}

-- name: hidden_versions
-- Find the complete versions of locked documents whose points are hidden.
-- plan: generic
SELECT d.id AS document_id, d.version, d.collection_id, d.tenant, l.index_name
FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {is_complete}

-- part: follows
-- A document belongs to a build that follows the live one, or to a live one with followers.
EXISTS (SELECT 1 FROM collections l WHERE l.id = d.collection_id AND {is_follower:l})
AS follows,
EXISTS (SELECT 1 FROM collections l WHERE l.id = d.collection_id AND l.followed AND {is_live:l})
AS leads

-- name: finish
-- Finish locked documents that show their newest version in Qdrant too.
-- plan: generic
UPDATE documents d
SET {finish_state}, updated_at = now()
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {is_finished}
RETURNING d.id, d.tenant, d.collection_id, d.state, {follows}

-- name: insert_late_sweeps
-- Sweep chunks that a late writer has written or may still write. A version without the chunk is used by no worker, and
-- queries may still need its points for a while, unless its document is deleted.
-- plan: generic
INSERT INTO sweeps (collection_id, tenant, index_name, document_id, obsolete_version, below_version, chunk_id, due_at)
SELECT v.collection_id, v.tenant, v.index_name, v.document_id, v.version, v.version + (c.id IS NULL)::int, c.id,
       now() + CASE WHEN v.later THEN :after
                    WHEN c.id IS NULL AND d.id IS NOT NULL THEN :points_stay ELSE interval '0' END
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(id uuid, version int, token bigint, document_id uuid, collection_id uuid, tenant text, index_name text,
         later boolean)
LEFT JOIN chunks c ON c.id = v.id AND c.version = v.version
LEFT JOIN documents d ON d.id = v.document_id AND {exists:d}
WHERE v.later OR c.lease_token IS DISTINCT FROM v.token

-- name: deletable
-- Find documents whose points must be deleted and whose versions are deleted, longest due first. Documents of a dropped
-- build are deleted with it.
SELECT d.id, d.tenant, d.collection_id, l.index_name, d.version, d.live_version
FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.state = {DocumentState.DELETING} AND d.due_at <= now() AND NOT {is_dropping:l}
  AND NOT EXISTS (SELECT 1 FROM document_versions v WHERE v.document_id = d.id)
ORDER BY d.due_at LIMIT :limit

-- name: postpone_deletion
-- Postpone documents whose points Qdrant did not delete.
UPDATE documents SET due_at = now() WHERE id = ANY(CAST(:ids AS uuid[])) AND state = {DocumentState.DELETING}

-- name: delete_documents
-- Delete the rows of documents whose points are deleted.
DELETE FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND state = {DocumentState.DELETING}

-- name: due_sweeps
-- Find due sweeps, longest due first.
SELECT s.id, s.collection_id, s.index_name, s.tenant, s.document_id, s.obsolete_version, s.below_version,
       d.live_version, coalesce(s.obsolete_version IN (d.live_version, d.version), false) AS in_use,
       d.id IS NULL AS deleted, s.chunk_id, c.points_token, s.repeats AS again
FROM sweeps s
LEFT JOIN documents d ON d.id = s.document_id AND {exists:d}
LEFT JOIN chunks c ON c.id = s.chunk_id AND c.version = s.below_version
WHERE s.due_at <= now()
ORDER BY s.due_at LIMIT :limit

-- name: postpone_sweeps
-- Postpone sweeps that Qdrant rejected.
-- plan: generic
UPDATE sweeps SET due_at = now() WHERE id = ANY(CAST(:ids AS bigint[])) AND due_at <= now()

-- name: delete_sweeps
-- Delete sweeps that need no repetition.
-- plan: generic
DELETE FROM sweeps WHERE id = ANY(CAST(:ids AS bigint[]))

-- name: repeat_sweeps
-- Postpone sweeps that were done once until all older leases have expired.
-- plan: generic
UPDATE sweeps SET repeats = false, due_at = now() + :after
WHERE id = ANY(CAST(:ids AS bigint[])) AND repeats

-- part: valid_leases
-- The leases that still hold.
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint)
WHERE t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL

-- name: release_documents
-- End leases on documents without an attempt.
-- plan: generic
UPDATE documents t SET {RELEASE_DOCUMENT.sets}, due_at = now(), leased_by = NULL {valid_leases}

-- name: release_chunks
-- End leases on chunks without an attempt.
-- plan: generic
UPDATE chunks t SET due_at = now(), leased_by = NULL {valid_leases}

-- name: expire_documents
-- End leases on documents as if their worker had died: the next claim counts them as lost.
-- plan: generic
UPDATE documents t SET due_at = now() {valid_leases}

-- name: expire_chunks
-- End leases on chunks in the same way.
-- plan: generic
UPDATE chunks t SET due_at = now() {valid_leases}

-- name: delete_old_replies
-- Delete replies whose content was not needed since.
DELETE FROM paid_replies WHERE content_key = ANY(ARRAY(
    SELECT content_key FROM paid_replies WHERE written_at <= now() - CAST(:age AS interval) LIMIT :limit))
RETURNING 1

-- name: extend_calls
-- Extend the calls of discarded chunks: other workers wait for their replies. Locked rows are skipped, because the
-- leases that are extended in the same transaction must not wait: a settlement that deletes the row may take seconds.
-- plan: generic
UPDATE abandoned_calls SET due_at = now() + :lease
WHERE lease_token = ANY(ARRAY(SELECT a.lease_token FROM abandoned_calls a
                              WHERE a.lease_token = ANY(CAST(:tokens AS bigint[])) FOR UPDATE SKIP LOCKED))

-- name: end_calls
-- Delete calls of discarded chunks: the reply arrived, or none will. Return the tokens that have reserved something.
-- plan: generic
WITH ended AS (
    DELETE FROM abandoned_calls WHERE lease_token = ANY(CAST(:tokens AS bigint[]))
)
SELECT DISTINCT token FROM budget_holds WHERE token = ANY(CAST(:tokens AS bigint[]))
