-- name: next_texts
-- List the next texts in key order, with the texts to mark and to delete.
SELECT key, (unused_since IS NULL) = unused AS changed,
       unused AND coalesce(unused_since <= now() - CAST(:age AS interval), false) AS old
FROM (SELECT p.key, p.unused_since, {is_unused} AS unused FROM page_texts p
      WHERE p.key > :after ORDER BY p.key LIMIT :limit) s
ORDER BY key

-- name: mark
-- Record since when texts are unused, or that they are in use.
UPDATE page_texts p SET unused_since = CASE WHEN p.unused_since IS NULL THEN now() END
WHERE p.key = ANY(CAST(:keys AS bytea[])) AND (p.unused_since IS NULL) = ({is_unused})

-- name: lock
-- Lock texts, skipping locked ones.
SELECT key FROM page_texts WHERE key = ANY(CAST(:keys AS bytea[])) FOR UPDATE SKIP LOCKED

-- name: delete_unused
-- Delete the texts that are still unused.
DELETE FROM page_texts p WHERE p.key = ANY(CAST(:keys AS bytea[])) AND {is_unused} RETURNING 1
