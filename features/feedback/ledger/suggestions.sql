-- part: ready
-- The documents of a build whose questions are complete, and that a person reads.
documents d WHERE d.collection_id = :collection AND d.state = {DocumentState.READY} AND d.live_version IS NOT NULL
  AND (CAST(:principals AS text[]) IS NULL
       OR EXISTS (SELECT 1 FROM document_versions r WHERE r.document_id = d.id AND r.version = d.live_version
                  AND r.readable_by && CAST(:principals AS text[])))

-- name: span
-- Find when the first and the last ready document of a build were created.
SELECT (SELECT d.created_at FROM {ready} ORDER BY d.created_at, d.public_id LIMIT 1) AS first,
       (SELECT d.created_at FROM {ready} ORDER BY d.created_at DESC, d.public_id DESC LIMIT 1) AS last

-- name: documents
-- List some ready documents from each of these times on.
SELECT o.part, d.id, d.public_id, d.live_version
FROM unnest(CAST(:times AS timestamptz[])) WITH ORDINALITY AS o(at, part)
CROSS JOIN LATERAL (
    SELECT d.id, d.public_id, d.live_version FROM {ready} AND d.created_at >= o.at
    ORDER BY d.created_at, d.public_id LIMIT :limit) d
ORDER BY o.part

-- name: chunks
-- Read the questions of the first chunks with questions of documents. Questions accepted from users are in another
-- table.
SELECT c.document_id, c.id AS chunk_id, {questions} AS questions, q.reasons, {disabled_of:d} AS disabled,
       (SELECT v.upload FROM document_versions v WHERE v.document_id = d.id AND v.version = c.version) AS upload,
       CASE WHEN {has_disabled:d} THEN (SELECT t.content FROM chunk_contents t
                                        WHERE t.chunk_id = c.id AND t.version = c.version) END AS content
FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS int[])) AS o(id, version)
CROSS JOIN LATERAL (
    SELECT c.document_id, c.id, c.version FROM chunks c
    WHERE c.document_id = o.id AND c.version = o.version AND c.state = {ChunkState.INDEXED} AND c.questions_passed > 0
    ORDER BY c.ordinal LIMIT :limit) c
JOIN documents d ON d.id = c.document_id
JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
