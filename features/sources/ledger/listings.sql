-- name: start
-- Start or continue a claimed listing: read its source and its saved work.
UPDATE syncs y SET started_at = coalesce(y.started_at, now())
FROM job_claims r, sources s
WHERE y.id = :id AND r.id = y.id AND r.token = :token AND s.id = y.source_id
RETURNING s.id, s.tenant, s.collection, s.name, s.kind, s.uri, s.options, s.secret_name, s.schedule, s.time_zone,
          s.max_delete_share, s.created_at, y.number, y.after, y.listed_at, y.deletes, y.closed_at

-- name: items
-- List items after a key in the order of their bytes.
SELECT key, version, missing_in IS NOT NULL AS is_marked FROM source_items
WHERE source_id = :source_id AND key > CAST(:after AS text) COLLATE "C" ORDER BY key LIMIT :limit

-- name: hold_job
-- Keep the state of a job until the transaction ends.
SELECT number, state FROM jobs WHERE id = :id FOR SHARE

-- name: save_items
-- Write items with their versions. They exist in the source.
INSERT INTO source_items AS i (source_id, key, version)
SELECT :source_id, n.key, n.version FROM unnest(CAST(:keys AS text[]), CAST(:versions AS text[])) AS n(key, version)
ORDER BY n.key COLLATE "C"
ON CONFLICT (source_id, key) DO UPDATE SET version = excluded.version, missing_in = NULL, missing_from = NULL

-- name: mark_present
-- Forget that items were missing.
UPDATE source_items SET missing_in = NULL, missing_from = NULL
WHERE source_id = :source_id AND key = ANY(CAST(:keys AS text[])) AND missing_in IS NOT NULL

-- name: mark_missing
-- Record that this listing lacks items, except items made since its start. A listing that failed does not count.
UPDATE source_items i
SET missing_in = y.number,
    missing_from = coalesce(i.missing_from, (
        SELECT e.listed_at FROM syncs e
        WHERE e.source_id = i.source_id AND e.number = i.missing_in AND e.number < y.number))
FROM syncs y
WHERE y.id = :id AND i.source_id = :source_id AND i.key = ANY(CAST(:keys AS text[])) AND i.created_at < y.started_at
RETURNING i.key

-- part: advanced
-- The claim, whose job is held. Progress proves that it does not kill its workers.
held AS (UPDATE job_claims SET lost_leases = 0 WHERE id = :id AND token = :token RETURNING id)

-- name: advance
-- Save the position and the counts of a claimed listing.
WITH {advanced}
UPDATE syncs y
SET after = :after, seen = y.seen + :seen, created = y.created + :created, changed = y.changed + :changed,
    unchanged = y.unchanged + :unchanged, readers_changed = y.readers_changed + :readers_changed, missing = y.missing + :missing, refused = y.refused + :refused,
  refused_entries = CASE WHEN jsonb_array_length(y.refused_entries) < :most
                         THEN y.refused_entries || CAST(:refused_entries AS jsonb) ELSE y.refused_entries END
FROM held WHERE y.id = held.id RETURNING y.id

-- name: end_listing
-- Record that a claimed listing is complete.
WITH {advanced}
UPDATE syncs y SET listed_at = now() FROM held WHERE y.id = held.id
RETURNING y.approved, y.seen

-- name: count_deletable
-- Count the items that may be deleted, and all items of the source.
SELECT (SELECT count(*) FROM source_items i, syncs y WHERE y.id = :id AND {deletable}) AS deletable,
       (SELECT count(*) FROM source_items WHERE source_id = :source_id) AS items

-- name: decide
-- Record whether the deletions of a listing are carried out, and how many are withheld.
UPDATE syncs SET deletes = :deletes, withheld = :withheld WHERE id = :id

-- name: lock_deletable
-- Lock some items that may be deleted, in the order of their keys.
SELECT i.key FROM source_items i, syncs y
WHERE y.id = :id AND y.deletes AND {deletable} ORDER BY i.key LIMIT :limit FOR UPDATE OF i

-- name: count_deleted
-- Count the documents that a claimed sync has deleted.
WITH {advanced}
UPDATE syncs y SET deleted = y.deleted + :deleted FROM held WHERE y.id = held.id RETURNING y.id

-- name: delete_items
DELETE FROM source_items WHERE source_id = :source_id AND key = ANY(CAST(:keys AS text[]))

-- name: wait_for_approval
-- Pause the job of a sync that withholds deletions until they are approved.
UPDATE jobs SET {PAUSE_JOB.sets}, pause_reason = {PauseReason.APPROVAL}
WHERE id = :id AND {PAUSE_JOB.applies} AND EXISTS (SELECT 1 FROM syncs y WHERE y.id = :id AND y.withheld > 0)

-- name: open_chunks
-- Count the chunks of a tenant that wait for a worker.
SELECT coalesce(sum(rows), 0)::bigint AS rows FROM {chunk_counts} t WHERE {OPEN_CHUNKS:t}
