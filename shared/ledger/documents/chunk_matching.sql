-- name: chunks
-- Read the chunks of versions of documents, in order.
SELECT c.document_id, v.upload, c.id, t.content
FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS int[])) AS o(document_id, version)
JOIN document_versions v ON v.document_id = o.document_id AND v.version = o.version
JOIN chunks c ON c.document_id = o.document_id AND c.version = o.version
JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
ORDER BY c.document_id, c.ordinal

-- name: live_document
-- Find the live document of a chunk of another build, and the version in which that build contains the chunk.
SELECT o.id AS other, c.version AS other_version, d.id AS live, d.live_version
FROM chunks c JOIN documents o ON o.id = c.document_id
JOIN documents d ON d.public_id = o.public_id AND d.collection_id = :live AND {exists:d}
WHERE c.id = :chunk AND o.collection_id = :collection AND d.live_version IS NOT NULL
ORDER BY c.version DESC LIMIT 1
