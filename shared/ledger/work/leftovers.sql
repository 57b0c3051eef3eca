-- Deleted documents, and points that differ from the ledger.

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
