-- name: index_chunks_again
-- Open chunks of live versions to the indexer again, if their questions are paid for or ready-made. Their points are
-- visible as soon as they are written, because the version is live.
UPDATE chunks c
SET {INDEX_CHUNK_AGAIN.sets}, error = NULL, due_at = now(), settled_at = NULL, {UNCLAIMED}
WHERE (c.id, c.version) IN (
    SELECT c.id, c.version FROM chunks c
    JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
    WHERE c.id = ANY(CAST(:chunks AS uuid[])) AND d.id = ANY(CAST(:ids AS uuid[]))
      AND ({INDEX_AGAIN.applies:d} OR d.state = {DocumentState.FAILED}
           OR d.id = ANY(CAST(:reopened AS uuid[])))
      AND {INDEX_CHUNK_AGAIN.applies:c}
      AND (c.ready_made
           OR EXISTS (SELECT 1 FROM completions p WHERE p.content_key = c.content_key)))
RETURNING c.id, c.document_id

-- name: index_documents_again
-- Return the documents of such chunks to processing; a document whose edit failed stays failed.
UPDATE documents SET {INDEX_AGAIN.sets}, due_at = now(), updated_at = now(), {UNCLAIMED}
WHERE id = ANY(CAST(:ids AS uuid[])) AND {is_reopened}
