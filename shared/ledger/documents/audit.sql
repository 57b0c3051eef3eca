-- part: snapshot
id, public_id, external_id, state, version, live_version, updated_at

-- part: expected_chunks
-- The chunks of live versions, how many points each must have, and the description that these must have: null while
-- points are being updated.
SELECT c.document_id, d.public_id, c.id, c.ordinal, c.version, c.questions_passed AS passed,
       c.state IN ({ChunkState.INDEXED}, {ChunkState.DEAD}) AS required,
       c.state = {ChunkState.INDEXED} AS text_required,
       {OPEN_CHUNKS:c} AS in_progress,
       t.content ->> 'title' AS title,
       CASE WHEN d.description_due_at IS NULL THEN v.metadata END AS metadata, v.readable_by,
       ARRAY(SELECT a.id FROM accepted_questions a
             WHERE a.chunk_id = c.id AND a.state = {AcceptedState.INDEXED}) AS accepted,
       ARRAY(SELECT a.id FROM accepted_questions a
             WHERE a.chunk_id = c.id
               AND a.state IN ({AcceptedState.WAITING}, {AcceptedState.REMOVING})) AS accepted_open,
       CASE WHEN {has_disabled:d} THEN t.content END AS content, v.upload, {disabled_of:d} AS disabled
FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
JOIN document_versions v ON v.document_id = d.id AND v.version = c.version
LEFT JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version

-- name: page
-- List the documents of a collection in the order of their external ids.
SELECT {snapshot} FROM documents
WHERE collection_id = :collection AND {exists} AND external_id > :after
ORDER BY external_id LIMIT :limit

-- name: snapshots
-- Read documents as they are now.
SELECT {snapshot} FROM documents WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: lock
-- Read and lock documents, in one order, so that two audits cannot deadlock.
SELECT {snapshot} FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR UPDATE

-- name: expected
-- List the chunks of documents' live versions in order.
{expected_chunks}
WHERE c.document_id = ANY(CAST(:ids AS uuid[]))
  AND (CAST(:document AS uuid) IS NULL OR (c.document_id, c.ordinal) > (:document, CAST(:ordinal AS int)))
ORDER BY c.document_id, c.ordinal LIMIT :limit

-- name: expected_by_id
-- Read chunks of live versions by their ids.
{expected_chunks} WHERE c.id = ANY(CAST(:chunks AS uuid[]))

-- name: missing
-- Return the documents that their collection does not have, and whose points nothing else will delete.
SELECT v.document_id, v.collection_id
FROM unnest(CAST(:documents AS uuid[]), CAST(:collections AS uuid[])) AS v(document_id, collection_id)
WHERE NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = v.document_id AND d.collection_id = v.collection_id)
  AND NOT EXISTS (SELECT 1 FROM sweeps s WHERE s.document_id = v.document_id)
  AND NOT EXISTS (SELECT 1 FROM collections l WHERE l.id = v.collection_id AND {is_dropping:l})

-- name: swept_versions
-- Find the versions below which sweeps will delete points of documents; for a chunk, including this version.
SELECT document_id, max(below_version + (chunk_id IS NOT NULL)::int) AS below FROM sweeps
WHERE document_id = ANY(CAST(:ids AS uuid[])) GROUP BY document_id
