-- name: lock
-- Lock a document in the builds of its collection, and these builds, the live one first.
SELECT d.id, l.options FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.public_id = :id AND d.tenant = :tenant AND {exists:d}
ORDER BY {is_live:l} DESC, l.build FOR UPDATE OF d FOR KEY SHARE OF l

-- name: chunks
-- Read the chunks of a document in its builds that have questions, in the order of their versions.
SELECT c.document_id, c.id, d.public_id, l.name AS collection, t.content, v.upload, {questions} AS questions, q.reasons,
       {disabled_of:d} AS disabled
FROM documents d JOIN collections l ON l.id = d.collection_id
JOIN document_versions v ON v.document_id = d.id AND NOT v.obsolete
JOIN chunks c ON c.document_id = d.id AND c.version = v.version
JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
WHERE d.id = ANY(CAST(:ids AS uuid[]))
ORDER BY c.version

-- name: disable
INSERT INTO disabled_questions
    (document_id, text_hash, question, tenant, collection, upload, span_start, span_end, disabled_by)
VALUES (:document, :hash, :question, :tenant, :collection, :upload, :start, :end, :by)

-- name: enable
DELETE FROM disabled_questions
WHERE document_id = :document AND question = :question AND text_hash = ANY(CAST(:hashes AS bytea[]))
