-- name: read
-- Read who reads the newest versions of documents in a collection's live build.
SELECT d.external_id, v.readable_by FROM collections l JOIN documents d ON d.collection_id = l.id
JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
WHERE l.tenant = :tenant AND l.name = :name AND {is_live:l} AND {exists:d}
  AND d.external_id = ANY(CAST(:external_ids AS text[]))

-- name: lock
-- Lock documents of a build in the lock order of all writers.
SELECT id, external_id FROM documents
WHERE collection_id = :collection_id AND {exists} AND external_id = ANY(CAST(:external_ids AS text[]))
ORDER BY external_id FOR UPDATE
