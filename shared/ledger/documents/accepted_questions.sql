-- part: is_not_claimed
-- No process is deleting the points of a question.
(a.state <> {AcceptedState.REMOVING} OR a.due_at <= now())

-- name: accept
-- Accept a question, again if it was retracted or rejected. Return no row if it is accepted already, or if its points
-- are being deleted, because that deletion would delete new points, too.
INSERT INTO accepted_questions AS a
    (id, tenant, collection_id, document_id, chunk_id, question, query_id, accepted_by, state)
VALUES (:id, :tenant, :collection, :document, :chunk, :question, :query, :accepted_by, {ACCEPT.target})
ON CONFLICT (id) DO UPDATE
SET {ACCEPT.sets}, question = excluded.question, query_id = excluded.query_id, accepted_by = excluded.accepted_by,
    created_at = now()
WHERE {ACCEPT.applies:a} AND {is_not_claimed}
RETURNING id

-- name: assign
-- Assign an accepted question to the key that accepted it, or to an editor.
UPDATE accepted_questions SET accepted_by = :accepted_by
WHERE id = :id AND {RETRACT.applies} AND accepted_by IS DISTINCT FROM :accepted_by
RETURNING id

-- name: is_being_removed
SELECT NOT ({is_not_claimed}) FROM accepted_questions a WHERE id = :id

-- name: lock_followers
-- Lock a document in the builds that follow its live one.
SELECT o.id FROM documents d JOIN documents o ON o.public_id = d.public_id AND o.id <> d.id
JOIN collections b ON b.id = o.collection_id
WHERE d.id = :document AND {exists:o} AND {is_follower:b}
ORDER BY b.build FOR UPDATE OF o

-- name: live_sources
-- Find the live documents followed by these documents, if either has accepted questions.
SELECT o.id, o.version, o.collection_id, o.tenant, d.id AS source, d.live_version AS shown
FROM documents o JOIN collections b ON b.id = o.collection_id
JOIN collections l ON l.tenant = b.tenant AND l.name = b.name
JOIN documents d ON d.collection_id = l.id AND d.external_id = o.external_id
WHERE o.id = ANY(CAST(:ids AS uuid[])) AND {exists:o} AND {is_follower:b}
  AND {is_live:l} AND {exists:d} AND d.live_version IS NOT NULL
  AND EXISTS (SELECT 1 FROM accepted_questions a WHERE a.document_id IN (o.id, d.id))

-- name: following_documents
-- Find the documents of other builds that follow these of live ones, and have accepted questions.
SELECT d.id, d.version, d.collection_id, d.tenant, o.id AS source, coalesce(o.live_version, o.version) AS shown
FROM documents d JOIN collections l ON l.id = d.collection_id
JOIN collections b ON b.tenant = l.tenant AND b.name = l.name
JOIN documents o ON o.collection_id = b.id AND o.external_id = d.external_id
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {is_live:l} AND {exists:d}
  AND {is_follower:b} AND {exists:o}
  AND EXISTS (SELECT 1 FROM accepted_questions a WHERE a.document_id = o.id)

-- name: accepted_questions
SELECT id, document_id, chunk_id, question, query_id, accepted_by FROM accepted_questions
WHERE document_id = ANY(CAST(:ids AS uuid[])) AND {RETRACT.applies} ORDER BY created_at, id

-- name: delete_without_chunk
-- Delete questions of documents whose chunks no version contains any more.
DELETE FROM accepted_questions a
WHERE a.document_id = ANY(CAST(:ids AS uuid[]))
  AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = a.chunk_id)

-- name: retract
UPDATE accepted_questions SET {RETRACT.sets}
WHERE id = ANY(CAST(:ids AS uuid[])) AND {RETRACT.applies}

-- name: chunks_with_waiting
-- Find indexed chunks of live versions with a question whose point is not written yet.
-- plan: generic
SELECT DISTINCT c.id
FROM accepted_questions a
JOIN documents d ON d.id = a.document_id
JOIN chunks c ON c.id = a.chunk_id AND c.version = d.live_version
WHERE a.document_id = ANY(CAST(:ids AS uuid[])) AND a.state = {AcceptedState.WAITING}
  AND c.state = {ChunkState.INDEXED}

-- name: hold
-- Prevent versions of documents from starting, failing or finishing until the transaction ends.
-- plan: generic
SELECT 1 FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR SHARE

-- name: settle
-- Record the questions whose points are written and the questions that the embedding model rejected. A question that
-- was retracted meanwhile stays retracted. A question keeps waiting while the next version of its document is
-- processed: that version may have been written without the question, and may be discarded.
-- plan: generic
UPDATE accepted_questions a SET {SETTLE_ACCEPTED.sets:v.refused}
FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS int[]), CAST(:refused AS boolean[])) AS v(id, version, refused)
JOIN accepted_questions w ON w.id = v.id JOIN documents d ON d.id = w.document_id
WHERE a.id = v.id AND {SETTLE_ACCEPTED.applies:a}
  AND (v.refused
       OR d.live_version = v.version AND (d.version = v.version OR d.state = {DocumentState.FAILED}))

-- name: mark_waiting
-- Write the questions of dead chunks again when the chunks are retried.
UPDATE accepted_questions a SET {MARK_WAITING.sets}
FROM chunks c
WHERE c.id = ANY(CAST(:chunks AS uuid[])) AND c.state = {ChunkState.DEAD} AND a.chunk_id = c.id
  AND {MARK_WAITING.applies:a}

-- name: delete_late_points
-- Delete points that a late writer may have written after their questions were retracted and deleted, or during their
-- deletion; that deletion's claim ends.
-- plan: generic
INSERT INTO accepted_questions AS a (id, tenant, collection_id, document_id, chunk_id, question, state)
SELECT v.id, d.tenant, d.collection_id, d.id, c.id, v.question, {DELETE_LATE.target}
FROM unnest(CAST(:ids AS uuid[]), CAST(:questions AS text[]), CAST(:chunks AS uuid[]), CAST(:versions AS int[]))
     AS v(id, question, chunk_id, version)
JOIN chunks c ON c.id = v.chunk_id AND c.version = v.version
JOIN documents d ON d.id = c.document_id
ON CONFLICT (id) DO UPDATE SET due_at = now() WHERE a.state = {AcceptedState.REMOVING}
