-- name: insert
-- Write queries without waiting for the disk: a request waits for this commit, and a crash costs only the feedback on
-- the last queries. A query that took longer than the erasure of its collection is not stored. The mode of plans is that
-- of `shown_versions`, which each query executes before: a change of the mode is a statement of its own.
-- plan: generic
WITH soon AS (SELECT set_config('synchronous_commit', 'off', true))
INSERT INTO queries (id, tenant, collection_id, question, chunk_ids, scores, best_score, found, key_id, outcome)
SELECT v.id, v.tenant, v.collection_id, v.question, CAST(v.chunks AS uuid[]), CAST(v.scores AS real[]), v.best_score,
       v.chunks <> '{}', v.key_id, CAST(v.outcome AS jsonb)
FROM soon, unnest(CAST(:ids AS uuid[]), CAST(:tenants AS text[]), CAST(:collections AS uuid[]),
                  CAST(:questions AS text[]), CAST(:chunks AS text[]), CAST(:scores AS text[]),
                  CAST(:best_scores AS real[]), CAST(:keys AS uuid[]), CAST(:outcomes AS text[]))
           AS v(id, tenant, collection_id, question, chunks, scores, best_score, key_id, outcome)
WHERE EXISTS (SELECT 1 FROM collections l WHERE l.id = v.collection_id)
ON CONFLICT DO NOTHING
RETURNING id

-- name: record_outcome
-- Record the result of a query. No text is stored if an erasure has removed a passage from its row meanwhile.
WITH soon AS (SELECT set_config('synchronous_commit', 'off', true))
UPDATE queries
SET found = :found, certain = :certain, outcome = CAST(:outcome AS jsonb), answer_sha256 = CAST(:digest AS bytea),
    answer = CASE WHEN chunk_ids = CAST(:chunks AS uuid[]) THEN CAST(:answer AS text) END
FROM soon WHERE id = :id

-- name: newest
-- Read the newest queries of a collection, with all its builds; with a chunk, only queries for which it was
-- the first result.
SELECT r.id, r.question, r.chunk_ids, r.best_score, r.found, r.certain, r.helpful, r.helpful_chunk_id, r.key_id,
       k.name AS key_name, r.created_at
FROM (
    SELECT q.id, q.question, q.chunk_ids, q.best_score, q.found, q.certain, q.helpful, q.helpful_chunk_id, q.key_id,
           q.created_at
    FROM queries q
    WHERE q.collection_id IN (SELECT id FROM collections WHERE tenant = :tenant AND name = :name)
      AND q.tenant = :tenant AND q.created_at >= CAST(:since AS timestamptz)
      AND (CAST(:key AS uuid) IS NULL OR q.key_id = CAST(:key AS uuid))
      AND (CAST(:words AS text) IS NULL OR position(lower(CAST(:words AS text)) IN lower(q.question)) > 0)
    ORDER BY q.created_at DESC, q.id DESC LIMIT :limit) r
LEFT JOIN api_keys k ON k.id = r.key_id AND k.tenant = :tenant
WHERE CAST(:chunk AS uuid) IS NULL OR r.chunk_ids[1] = CAST(:chunk AS uuid)
ORDER BY r.created_at DESC, r.id DESC

-- name: find
-- Read a query. Its question may be in a gap that only another query with the same question stores. The text of its
-- answer is not returned while an erasure of a passage is running.
SELECT q.id, q.question, l.name AS collection, q.chunk_ids, q.scores, q.found, q.certain, q.helpful,
       q.helpful_chunk_id, q.outcome, q.key_id, k.name AS key_name, q.created_at,
       CASE WHEN NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = q.tenant AND e.finished_at IS NULL
                                                        AND e.chunk_ids && q.chunk_ids) THEN q.answer
       END AS answer,
       coalesce(q.gap_id, (
           SELECT o.gap_id FROM queries o
           WHERE o.tenant = q.tenant AND o.gap_id IS NOT NULL
             AND o.collection_id IN (SELECT id FROM collections c WHERE c.tenant = l.tenant AND c.name = l.name)
             AND lower(rtrim(o.question, '?!. ')) = lower(rtrim(q.question, '?!. '))
           ORDER BY o.created_at DESC LIMIT 1)) AS gap_id
FROM queries q JOIN collections l ON l.id = q.collection_id
LEFT JOIN api_keys k ON k.id = q.key_id AND k.tenant = q.tenant
WHERE q.id = :id AND q.tenant = :tenant AND q.created_at > now() - CAST(:age AS interval)

-- name: passages
-- Read the passages of a query that queries see now.
SELECT c.id AS chunk_id, d.public_id AS document_id, d.external_id, v.filename, t.content
FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version AND {exists:d}
JOIN collections l ON l.id = d.collection_id AND {is_live:l}
JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
JOIN document_versions v ON v.document_id = d.id AND v.version = c.version
WHERE c.id = ANY(CAST(:chunks AS uuid[])) AND d.tenant = :tenant AND l.name = :collection

-- name: purge
-- Delete the oldest queries that are older than an age.
DELETE FROM queries WHERE id = ANY(ARRAY(
    SELECT id FROM queries WHERE created_at <= now() - CAST(:age AS interval) ORDER BY created_at LIMIT :limit))
RETURNING id
