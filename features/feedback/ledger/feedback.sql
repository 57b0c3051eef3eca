-- name: logged_query
-- Read a logged query; with a key, one of this key.
SELECT collection_id, question, chunk_ids FROM queries
WHERE id = :id AND tenant = :tenant AND (CAST(:key AS uuid) IS NULL OR key_id = :key)

-- name: record_helpful
-- Record whether a returned chunk answered a query.
UPDATE queries SET helpful = :helpful, helpful_chunk_id = :chunk WHERE id = :id

-- name: collection_name
SELECT tenant, name FROM collections WHERE id = :collection

-- name: live_chunk
-- Read a chunk as queries see it, and lock its document.
SELECT c.document_id, {questions} AS questions, q.reasons, b.embedding_model
FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
JOIN collections b ON b.id = d.collection_id
LEFT JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
WHERE c.id = :chunk AND d.collection_id = :collection AND {exists:d}
FOR UPDATE OF d

-- part: is_of
-- A key may retract the question: it accepted it. An editor, without a key, may retract every question.
(CAST(:key AS uuid) IS NULL OR accepted_by = :key)

-- name: taken
-- Count the other accepted questions of a chunk, and the displaceable ones among them.
SELECT count(*) FILTER (WHERE id <> :id) AS others, count(*) FILTER (WHERE id <> :id AND {is_of}) AS displaceable,
       coalesce(bool_or(id = :id), false) AS is_accepted
FROM accepted_questions WHERE chunk_id = :chunk AND {RETRACT.applies}

-- name: displace
-- Retract questions of a chunk that has too many: questions of keys before questions of editors, the oldest first.
UPDATE accepted_questions SET {RETRACT.sets}
WHERE id = ANY(ARRAY(
    SELECT id FROM accepted_questions WHERE chunk_id = :chunk AND id <> :id AND {is_of} AND {RETRACT.applies}
    ORDER BY accepted_by IS NULL, created_at, id LIMIT :excess))

-- name: touch
-- Mark documents as changed, because a running verification compares their rows with older snapshots.
UPDATE documents SET updated_at = now() WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: document_of_question
-- Find the document of an accepted question that may be retracted.
SELECT document_id FROM accepted_questions
WHERE id = :id AND collection_id = :collection AND {is_of} AND {RETRACT.applies}

-- name: retract
-- Retract a question; return no row if it is retracted already.
UPDATE accepted_questions SET {RETRACT.sets} WHERE id = :id AND {is_of} AND {RETRACT.applies} RETURNING id

-- name: page
-- List a collection's accepted questions, the newest first.
SELECT a.id, d.public_id AS document_id, d.external_id, a.chunk_id, a.question, a.query_id, a.accepted_by,
       a.state, a.created_at
FROM accepted_questions a JOIN documents d ON d.id = a.document_id
WHERE a.collection_id = :collection AND {RETRACT.applies:a}
  AND (CAST(:at AS timestamptz) IS NULL OR (a.created_at, a.id) < (:at, CAST(:after AS uuid)))
ORDER BY a.created_at DESC, a.id DESC LIMIT :limit

-- part: has_writer
-- A worker is writing the chunk of a question, or may start to: it may write the question's point.
EXISTS (SELECT 1 FROM chunks_open c WHERE c.id = a.chunk_id AND {TO_INDEX:c})

-- name: are_removals_due
SELECT EXISTS (SELECT 1 FROM accepted_questions WHERE state = {AcceptedState.REMOVING} AND due_at <= now())

-- name: claim_removals
-- Claim retracted questions, longest due first. Points of deleted versions are swept.
-- plan: generic
UPDATE accepted_questions a SET due_at = now() + :claim
FROM (
    SELECT id FROM accepted_questions WHERE state = {AcceptedState.REMOVING} AND due_at <= now()
    ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
) due, collections l
WHERE a.id = due.id AND l.id = a.collection_id
RETURNING a.id, l.tenant, a.collection_id, l.index_name, a.due_at AS claimed_until, {has_writer} AS has_writer,
          ARRAY(SELECT c.version FROM chunks c WHERE c.id = a.chunk_id) AS versions

-- part: valid_claims
-- The claims of retractions that have not expired.
unnest(CAST(:ids AS uuid[]), CAST(:until AS timestamptz[])) AS v(id, until)
WHERE a.id = v.id AND a.due_at = v.until AND a.state = {AcceptedState.REMOVING}

-- name: delete_removed
-- Delete questions whose points are deleted.
DELETE FROM accepted_questions a USING {valid_claims} AND NOT {has_writer} RETURNING a.id

-- name: release_removals
-- Release claims: these questions are due again, after all others.
UPDATE accepted_questions a SET due_at = now() FROM {valid_claims}
