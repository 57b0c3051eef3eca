-- name: insert
-- Write queries without waiting for the disk: a request waits for this commit, and a crash costs only the feedback on
-- the last queries. A query that took longer than the erasure of its collection is not stored. The mode of plans is that
-- of `shown_versions`, which each query executes before: a change of the mode is a statement of its own.
-- plan: generic
WITH soon AS (SELECT set_config('synchronous_commit', 'off', true))
INSERT INTO queries (id, tenant, collection_id, question, chunk_ids, best_score, found, key_id)
SELECT v.id, v.tenant, v.collection_id, v.question, CAST(v.chunks AS uuid[]), v.best_score, v.chunks <> '{}', v.key_id
FROM soon, unnest(CAST(:ids AS uuid[]), CAST(:tenants AS text[]), CAST(:collections AS uuid[]),
                  CAST(:questions AS text[]), CAST(:chunks AS text[]), CAST(:best_scores AS real[]),
                  CAST(:keys AS uuid[]))
           AS v(id, tenant, collection_id, question, chunks, best_score, key_id)
WHERE EXISTS (SELECT 1 FROM collections l WHERE l.id = v.collection_id)
ON CONFLICT DO NOTHING
RETURNING id

-- name: record_not_found
WITH soon AS (SELECT set_config('synchronous_commit', 'off', true))
UPDATE queries SET found = false FROM soon WHERE id = :id

-- name: record_answer
WITH soon AS (SELECT set_config('synchronous_commit', 'off', true))
UPDATE queries SET answer_sha256 = :digest FROM soon WHERE id = :id

-- name: newest
-- Read the newest queries of a collection, with all its builds; with a chunk, only queries for which it was
-- the first result.
SELECT id, question, chunk_ids, best_score, found, helpful, helpful_chunk_id, created_at FROM (
    SELECT id, question, chunk_ids, best_score, found, helpful, helpful_chunk_id, created_at FROM queries
    WHERE collection_id IN (SELECT id FROM collections WHERE tenant = :tenant AND name = :name)
      AND tenant = :tenant AND created_at >= CAST(:since AS timestamptz)
    ORDER BY created_at DESC, id DESC LIMIT :limit) read
WHERE CAST(:chunk AS uuid) IS NULL OR chunk_ids[1] = CAST(:chunk AS uuid)
ORDER BY created_at DESC, id DESC

-- name: purge
-- Delete the oldest queries that are older than an age.
DELETE FROM queries WHERE id = ANY(ARRAY(
    SELECT id FROM queries WHERE created_at <= now() - CAST(:age AS interval) ORDER BY created_at LIMIT :limit))
RETURNING id
