-- part: chunks
-- The chunks of one version with their questions; before the filter has run, these are the model's questions.
SELECT c.id, d.public_id, c.version, c.ordinal, t.content, c.state, c.error, c.history, c.prompt_tokens,
       c.completion_tokens, c.calls, c.tier_tokens, c.ready_made, {questions} AS questions, q.reasons, q.similarities,
       coalesce(t.ready_questions, p.questions, '{}') AS raw_questions,
       CASE WHEN NOT c.ready_made THEN p.context END AS context, v.upload, {disabled_of:d} AS disabled,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'question', a.question, 'state', a.state,
                                                     'query_id', a.query_id, 'at', a.created_at)
                                  ORDER BY a.created_at, a.id), '[]')
        FROM accepted_questions a WHERE a.chunk_id = c.id AND {RETRACT.applies:a}) AS accepted
FROM chunks c JOIN documents d ON d.id = c.document_id
JOIN document_versions v ON v.document_id = d.id AND v.version = c.version
JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
LEFT JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
LEFT JOIN completions p ON p.content_key = c.content_key
WHERE c.document_id = :id AND c.version = :version AND c.ordinal > :after AND c.ordinal < :before
  AND (CAST(:states AS text[]) IS NULL OR c.state = ANY(CAST(:states AS text[])))

-- name: forwards
-- List chunks from the front.
{chunks} ORDER BY c.ordinal LIMIT :limit

-- name: backwards
-- List chunks from the end.
{chunks} ORDER BY c.ordinal DESC LIMIT :limit

-- name: ordinal
-- Find a chunk in one version of a document.
SELECT ordinal FROM chunks WHERE id = :chunk AND version = :version AND document_id = :id

-- name: find
-- Find a chunk of a tenant's documents, in the version that queries see, else in the newest; with principals, only if
-- they read that version.
SELECT f.id, f.public_id, f.version, f.ordinal FROM (
    SELECT d.id, d.public_id, c.version, c.ordinal
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN collections l ON l.id = d.collection_id
    WHERE c.id = :chunk AND d.tenant = :tenant AND {exists:d} AND {is_live:l}
      AND c.version IN (d.version, d.live_version)
    ORDER BY c.version IS NOT DISTINCT FROM d.live_version DESC LIMIT 1) f
JOIN document_versions v ON v.document_id = f.id AND v.version = f.version
WHERE CAST(:principals AS text[]) IS NULL OR v.readable_by && CAST(:principals AS text[])
