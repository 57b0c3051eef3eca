-- name: due
SELECT name FROM outdated_objects WHERE due_at <= now() ORDER BY due_at LIMIT :limit

-- name: parts
-- List the parts of an object that versions name.
SELECT DISTINCT upload FROM document_versions WHERE {stored_in} = :name ORDER BY upload

-- name: lock_documents
-- Lock the documents with bytes in an object in the lock order of all writers.
SELECT d.id FROM documents d
WHERE d.id IN (SELECT v.document_id FROM document_versions v WHERE {stored_in} = :name)
ORDER BY d.id FOR NO KEY UPDATE

-- name: rename
-- Point versions to the new location of their bytes.
UPDATE document_versions v SET upload = n.now
FROM unnest(CAST(:before AS text[]), CAST(:now AS text[])) AS n(before, now)
WHERE {stored_in} = :name AND v.upload = n.before
RETURNING v.document_id

-- name: postpone
UPDATE outdated_objects SET due_at = now() + CAST(:after AS interval) WHERE name = :name

-- name: lock
SELECT 1 FROM outdated_objects WHERE name = :name FOR UPDATE

-- name: delete
-- Delete the rows of deleted objects.
DELETE FROM outdated_objects WHERE name = ANY(CAST(:names AS text[]))
