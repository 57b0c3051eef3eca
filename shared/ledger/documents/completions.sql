-- name: next_completions
-- List the next completions in key order, with the completions to mark and to delete.
SELECT content_key, (unused_since IS NULL) = unused AS changed,
       unused AND coalesce(unused_since <= now() - CAST(:age AS interval), false) AS old
FROM (SELECT p.content_key, p.unused_since, {is_unused} AS unused FROM completions p
      WHERE p.content_key > :after ORDER BY p.content_key LIMIT :limit) s
ORDER BY content_key

-- name: mark
-- Record since when completions are unused, or that they are in use.
UPDATE completions p SET unused_since = CASE WHEN p.unused_since IS NULL THEN now() END
WHERE p.content_key = ANY(CAST(:keys AS bytea[])) AND (p.unused_since IS NULL) = ({is_unused})

-- name: lock
-- Lock completions, skipping locked ones.
SELECT content_key FROM completions WHERE content_key = ANY(CAST(:keys AS bytea[])) FOR UPDATE SKIP LOCKED

-- name: delete_unused
-- Delete the completions that are still unused.
DELETE FROM completions p WHERE p.content_key = ANY(CAST(:keys AS bytea[])) AND {is_unused} RETURNING 1
