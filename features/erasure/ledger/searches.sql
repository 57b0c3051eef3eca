-- Searches of large tables for erased data: each statement examines some rows after a position, and has an index for
-- their order. An update moves no row to another position.

-- name: next_queries
-- Return the time of the last of the next logged queries of some builds; null if there are none.
SELECT CAST(max(s.created_at) AS text) AS until FROM (
    SELECT q.created_at FROM unnest(CAST(:builds AS uuid[])) AS b(id) CROSS JOIN LATERAL (
        SELECT q.created_at FROM queries q
        WHERE q.collection_id = b.id AND q.created_at > CAST(CAST(:after AS text) AS timestamptz)
        ORDER BY q.created_at LIMIT :limit) q
    ORDER BY q.created_at LIMIT :limit) s

-- part: is_between
-- The next logged queries.
q.created_at > CAST(CAST(:after AS text) AS timestamptz)
AND q.created_at <= CAST(CAST(:until AS text) AS timestamptz)

-- part: some_queries
-- The next logged queries of some builds.
queries q
WHERE q.collection_id = ANY(CAST(:builds AS uuid[]))
  AND {is_between}

-- name: remove_chunks
-- Remove the ids of erased chunks from some logged queries; the queries belong to users. Their answers cannot be shared
-- any more, because the numbers of their citations refer to the removed ids, too, and their texts may quote the document.
-- The best score belongs to the first chunk. A join finds the queries: to compare each query with each chunk would take longer than a transaction may.
WITH erased AS MATERIALIZED (SELECT DISTINCT unnest(e.chunk_ids) AS id FROM erasures e WHERE e.id = :id)
UPDATE queries q
SET answer_sha256 = NULL,
    answer = NULL,
    scores = ARRAY(SELECT q.scores[s.rank] FROM unnest(q.chunk_ids) WITH ORDINALITY s(id, rank)
                   WHERE s.id NOT IN (SELECT id FROM erased) ORDER BY s.rank),
    best_score = CASE WHEN q.chunk_ids[1] NOT IN (SELECT id FROM erased) THEN q.best_score END,
    chunk_ids = ARRAY(SELECT s.id FROM unnest(q.chunk_ids) WITH ORDINALITY s(id, rank)
                      WHERE s.id NOT IN (SELECT id FROM erased) ORDER BY s.rank)
WHERE q.id IN (SELECT n.id FROM (SELECT q.id, unnest(q.chunk_ids) AS chunk_id FROM {some_queries}) n
               JOIN erased r ON r.id = n.chunk_id)

-- name: delete_of_builds
-- Delete some logged queries of builds.
DELETE FROM {some_queries}

-- name: next_of_all
-- Return the time of the last of the next logged queries of all tenants; null if there are none.
SELECT CAST(max(s.created_at) AS text) AS until FROM (
    SELECT q.created_at FROM queries q WHERE q.created_at > CAST(CAST(:after AS text) AS timestamptz)
    ORDER BY q.created_at LIMIT :limit) s

-- name: delete_queries
-- Delete the tenant's queries among some logged queries of all tenants.
DELETE FROM queries q
WHERE q.tenant = :tenant
  AND {is_between}

-- name: next_completions
-- Return the unused keys among the next completions of a tenant, and the last key.
WITH next AS MATERIALIZED (
    SELECT p.content_key AS key, {is_unused} AS unused FROM completions p
    WHERE p.tenant = :tenant AND p.content_key > :after ORDER BY p.content_key LIMIT :limit
)
{found}

-- name: next_texts
-- Return the unused keys among the next texts of a tenant's pages, and the last key.
WITH next AS MATERIALIZED (
    SELECT p.key, {is_text_unused} AS unused FROM page_texts p
    WHERE p.tenant = :tenant AND p.key > :after ORDER BY p.key LIMIT :limit
)
{found}

-- name: next_replies
-- Return the unused keys of a tenant among the next single replies of all tenants, and the last key.
WITH next AS MATERIALIZED (
    SELECT p.content_key AS key, p.tenant = :tenant AND {is_unused} AS unused FROM paid_replies p
    WHERE p.content_key > :after ORDER BY p.content_key LIMIT :limit
)
{found}

-- part: found
-- The unused keys, and the last key.
(SELECT key, unused FROM next WHERE unused)
UNION ALL
(SELECT key, false FROM next ORDER BY key DESC LIMIT 1)

-- name: lock_replies
-- Lock single replies, skipping locked ones.
SELECT p.content_key FROM paid_replies p WHERE p.content_key = ANY(CAST(:keys AS bytea[])) FOR UPDATE SKIP LOCKED

-- name: delete_replies
-- Delete single replies that are still unused.
DELETE FROM paid_replies p WHERE p.content_key = ANY(CAST(:keys AS bytea[])) AND {is_unused} RETURNING 1
