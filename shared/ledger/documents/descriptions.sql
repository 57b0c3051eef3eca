-- name: describe
-- Change the description of the live and the newest versions of locked documents. Their contents no longer equal a
-- submission: submitting the same one again starts a version with its description.
UPDATE document_versions
SET title = coalesce(CAST(:title AS text), title),
    metadata = coalesce(CAST(CAST(:metadata AS text) AS jsonb), metadata),
    readable_by = coalesce(CAST(:readable_by AS text[]), readable_by),
    content_hash = CASE WHEN CAST(:title AS text) IS NULL AND CAST(:metadata AS text) IS NULL THEN content_hash
        ELSE sha256(content_hash || convert_to(concat(CAST(:title AS text), CAST(:metadata AS text)), 'UTF8')) END
WHERE document_id = ANY(CAST(:ids AS uuid[])) AND NOT obsolete

-- name: restrict
-- Leave the readers of the live and the newest versions of locked documents who are among other readers, too.
UPDATE document_versions
SET readable_by = CASE
    WHEN readable_by && ARRAY['everyone', 'unset'] THEN CAST(:readable_by AS text[])
    WHEN 'everyone' = ANY(CAST(:readable_by AS text[])) THEN readable_by
    ELSE ARRAY(SELECT unnest(readable_by) INTERSECT SELECT unnest(CAST(:readable_by AS text[])) ORDER BY 1) END
WHERE document_id = ANY(CAST(:ids AS uuid[])) AND NOT obsolete

-- name: open_newest
-- Change the readers of the newest versions of locked documents.
UPDATE document_versions v SET readable_by = CAST(:readable_by AS text[])
FROM documents d WHERE d.id = ANY(CAST(:ids AS uuid[])) AND v.document_id = d.id AND v.version = d.version

-- name: mark
-- Mark locked documents; a process that is updating their points repeats the update.
UPDATE documents
SET description_changes = description_changes + 1, updated_at = now(),
    description_due_at = CASE WHEN description_due_at > now() THEN description_due_at ELSE now() END
WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: retitle_chunks
-- Change the title in the contents of chunks.
UPDATE chunk_contents t SET content = jsonb_set(t.content, ARRAY['title'], to_jsonb(CAST(:title AS text)))
FROM chunks c
WHERE c.document_id = ANY(CAST(:ids AS uuid[])) AND t.chunk_id = c.id AND t.version = c.version

-- name: end_indexing
-- End the claims of index workers on chunks of documents.
UPDATE chunks_open SET lease_token = NULL, leased_by = NULL, due_at = now()
WHERE document_id = ANY(CAST(:ids AS uuid[])) AND leased_by IS NOT NULL AND {TO_INDEX}

-- name: end_parsing
-- End the claims of parse workers on documents: they read the title with it.
UPDATE documents SET lease_token = NULL, leased_by = NULL, due_at = now()
WHERE id = ANY(CAST(:ids AS uuid[])) AND leased_by IS NOT NULL AND {TO_PARSE}

-- name: claim_due
-- Claim marked documents, longest due first, and read the description for their points.
WITH due AS (
    SELECT id FROM documents
    WHERE description_due_at <= clock_timestamp() AND {exists}
      AND (CAST(:ids AS uuid[]) IS NULL OR id = ANY(CAST(:ids AS uuid[])))
    ORDER BY description_due_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
), claimed AS (
    UPDATE documents d SET description_due_at = clock_timestamp() + CAST(:claim AS interval)
    FROM due WHERE d.id = due.id RETURNING d.*
)
SELECT d.id, d.tenant, d.collection_id, d.description_changes, l.index_name, l.options, v.version, v.title,
       v.metadata, v.readable_by, (SELECT max(o.token) FROM disabled_questions o
                                   WHERE o.document_id = d.public_id AND o.tenant = d.tenant) AS token
FROM claimed d JOIN collections l ON l.id = d.collection_id
JOIN document_versions v ON v.document_id = d.id AND NOT v.obsolete
ORDER BY d.id, v.version

-- name: chunks
-- Read the chunks of documents with their questions and the disabled questions of their documents.
SELECT c.document_id, c.id, c.version, t.content, v.upload, {questions} AS questions, q.reasons,
       {disabled_of:d} AS disabled
FROM documents d JOIN document_versions v ON v.document_id = d.id AND NOT v.obsolete
JOIN chunks c ON c.document_id = d.id AND c.version = v.version
JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
WHERE d.id = ANY(CAST(:ids AS uuid[]))

-- name: are_due
SELECT EXISTS (SELECT 1 FROM documents
               WHERE id = ANY(CAST(:ids AS uuid[])) AND description_due_at IS NOT NULL)

-- name: settle
-- Remove the mark; a document that changed again is due at once.
UPDATE documents d
SET description_due_at = CASE WHEN d.description_changes = s.changes THEN NULL ELSE now() END
FROM unnest(CAST(:ids AS uuid[]), CAST(:changes AS int[])) AS s(id, changes) WHERE d.id = s.id

-- name: postpone
-- Postpone documents whose points Qdrant did not update.
UPDATE documents SET description_due_at = now() + CAST(:after AS interval) WHERE id = ANY(CAST(:ids AS uuid[]))
