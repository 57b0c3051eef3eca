-- name: chunks
-- Read chunks of the newest versions of a collection's documents in the order of external ids, after a position. Ids
-- are random, so the ids below a bound are a sample.
SELECT d.external_id, c.ordinal, v.filename, v.media_type, t.content,
       CASE WHEN c.ready_made THEN coalesce(cardinality(t.ready_questions), 0) END AS ready_questions,
       c.content_key, c.points_token IS NOT NULL AS has_points, coalesce(q.reasons, '{}') AS reasons
FROM documents d
JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
CROSS JOIN LATERAL (
    SELECT c.id, c.version, c.ordinal, c.ready_made, c.content_key, c.points_token FROM chunks c
    WHERE c.document_id = d.id AND c.version = d.version AND (d.external_id > :after OR c.ordinal > :ordinal)
    ORDER BY c.ordinal) c
JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
LEFT JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
WHERE d.collection_id = :collection AND {exists:d} AND NOT ({TO_PARSE:d})
  AND d.external_id >= :after AND (CAST(:below AS uuid) IS NULL OR d.id < :below)
ORDER BY d.external_id, c.ordinal LIMIT :limit

-- name: pages
-- Count the pages without a text layer of the newest versions of a collection's documents.
SELECT count(*) FROM documents d JOIN pages p ON p.document_id = d.id AND p.version = d.version
WHERE d.collection_id = :collection AND {exists:d}

-- name: paid_questions
-- Return the numbers of questions of the paid contents among these.
SELECT content_key, cardinality(questions) FROM completions WHERE content_key = ANY(CAST(:keys AS bytea[]))

-- name: billed
-- Read chunks that were paid for, of the documents of a collection, or else of a tenant, that changed last.
SELECT d.tenant, l.options, t.content, c.content_key, c.prompt_tokens, c.completion_tokens, c.calls, o.questions,
       c.questions_passed
FROM (SELECT * FROM documents
      WHERE tenant = :tenant AND {exists}
        AND (CAST(:collection AS uuid) IS NULL OR collection_id = :collection)
      ORDER BY updated_at DESC LIMIT {recent_documents}) d
JOIN collections l ON l.id = d.collection_id
CROSS JOIN LATERAL (
    SELECT * FROM chunks c
    WHERE c.document_id = d.id AND c.version = d.version AND c.calls > 0 AND c.state = {ChunkState.INDEXED}
    LIMIT {chunks_each}) c
JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
JOIN completions o ON o.content_key = c.content_key AND o.model = :model
LIMIT :limit

-- part: spent
SELECT coalesce(sum(s.calls) FILTER (WHERE s.kind = 'generate'), 0)::bigint AS calls,
       coalesce(sum(s.prompt_tokens) FILTER (WHERE s.kind = 'generate'), 0)::bigint AS prompt_tokens,
       coalesce(sum(s.completion_tokens) FILTER (WHERE s.kind = 'generate'), 0)::bigint AS completion_tokens,
       coalesce(sum(s.prompt_tokens) FILTER (WHERE s.kind = 'embed'), 0)::bigint AS embedding_tokens
FROM (SELECT tenant, collection_id, kind, prompt_tokens, completion_tokens, calls FROM spent_changes
      UNION ALL
      SELECT tenant, collection_id, kind, prompt_tokens, completion_tokens, calls FROM spent_by_day) s
WHERE s.tenant = l.tenant AND s.collection_id = l.id

-- name: save
-- Replace the collection's last estimate, with the costs billed until now.
INSERT INTO estimates (collection_id, estimate, spent)
SELECT l.id, CAST(:estimate AS jsonb), to_jsonb(s) FROM collections l CROSS JOIN LATERAL ({spent}) s
WHERE l.id = :collection
ON CONFLICT (collection_id) DO UPDATE SET estimate = excluded.estimate, spent = excluded.spent, at = now()

-- name: saved
-- Read the estimates of a tenant's collections, latest first, with the costs billed since.
SELECT l.name, e.at, e.estimate, e.spent AS before, s.* FROM estimates e
JOIN collections l ON l.id = e.collection_id
CROSS JOIN LATERAL ({spent}) s
WHERE l.tenant = :tenant AND e.at > now() - interval '30 days'
ORDER BY e.at DESC LIMIT :limit
