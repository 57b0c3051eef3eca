-- The settlements of index workers. `parsing.sql` explains their form.

-- name: settle_text
-- Record chunks whose texts Qdrant has confirmed; they wait for their questions.
-- plan: generic
UPDATE chunks c
SET {SETTLE_TEXT.sets}, points_token = v.token, leased_by = NULL, due_at = now(), attempts = 0,
    lost_leases = 0
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint)
WHERE {is_given:c} AND c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND {SETTLE_TEXT.applies:c}
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
    WHERE {is_given:c} AND c.id = v.id AND c.version = v.version AND c.lease_token = v.token
      AND {SETTLE_INDEXED.applies:c}
    RETURNING c.id, c.version, c.document_id, CASE WHEN v.questions IS NULL THEN c.content_key END AS content_key, v.questions,
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
SELECT s.id, s.version, s.document_id, {disabled_of:d} AS disabled
FROM settled s JOIN documents d ON d.id = s.document_id

-- name: fail_indexing
-- Record failed attempts to index. A dead chunk keeps the points that earlier claims have written.
-- plan: generic
UPDATE chunks t
SET {end_indexing},
    error = CASE WHEN v.dead THEN v.error ELSE t.error END, attempts = t.attempts + v.burned,
    history = {history:t}, due_at = {next_attempt}, leased_by = NULL, lost_leases = {lost_leases:t},
    settled_at = CASE WHEN v.dead THEN now() END
{valid_failures} AND {END_INDEXING.applies:t}
RETURNING t.document_id, t.lease_token
