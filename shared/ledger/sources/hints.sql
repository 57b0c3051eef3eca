-- part: is_listed
EXISTS (SELECT 1 FROM syncs y WHERE y.source_id = h.source_id AND y.phase = {RUNNING})

-- part: is_due
-- A hint that can be looked up now: it was not looked up yet, or during a listing that has ended.
(h.looked_up_at IS NULL OR NOT {is_listed})

-- name: hold_source
-- Read a source that is not being removed, and keep it until the transaction ends.
SELECT s.id, s.collection FROM sources s WHERE s.tenant = :tenant AND s.name = :source AND s.removed_at IS NULL FOR SHARE

-- name: count
-- Count the hints of a source, up to a maximum.
SELECT count(*) FROM (SELECT 1 FROM source_hints WHERE source_id = :id LIMIT :most) h

-- name: add
-- Add hints, or renew them, unless the source was removed.
INSERT INTO source_hints (source_id, hinted_key)
SELECT s.id, k.key FROM sources s, unnest(CAST(:keys AS text[])) AS k(key)
WHERE s.id = :id AND s.removed_at IS NULL ORDER BY k.key COLLATE "C"
ON CONFLICT (source_id, hinted_key) DO UPDATE SET hinted_at = clock_timestamp(), looked_up_at = NULL

-- name: open
-- Queue the run of a source, unless it has one.
INSERT INTO runs (id, kind, tenant, collection, embeddings)
SELECT s.id, {LOOKUP}, s.tenant, s.collection, '{}' FROM sources s WHERE s.id = ANY(CAST(:ids AS uuid[]))
ON CONFLICT (id) DO NOTHING RETURNING id

-- name: show_queued
-- Show that runs wait for a worker.
INSERT INTO source_lookups AS l (id, phase) SELECT unnest(CAST(:ids AS uuid[])), {QUEUED}
ON CONFLICT (id) DO UPDATE SET phase = excluded.phase, ended_at = NULL

-- name: due
-- List sources with hints that no run looks up, except after a failure a short time ago.
-- plan: generic
SELECT s.id FROM sources s
WHERE s.removed_at IS NULL AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = s.id)
  AND NOT EXISTS (SELECT 1 FROM source_lookups l WHERE l.id = s.id AND l.phase = {FAILED}
                  AND l.ended_at > now() - CAST(:pause AS interval))
  AND EXISTS (SELECT 1 FROM source_hints h WHERE h.source_id = s.id AND {is_due})

-- name: source_of
SELECT s.id, s.tenant, s.collection, s.name, s.kind, s.uri, s.options, s.secret_name, s.schedule, s.time_zone,
       s.max_delete_share, s.created_at
FROM sources s JOIN runs r ON r.id = s.id WHERE r.id = :id AND r.token = :token AND s.removed_at IS NULL

-- name: next
-- List some hints of a source that can be looked up now, each with its item.
SELECT h.hinted_key AS key, h.hinted_at, i.version, i.missing_in IS NOT NULL AS is_marked
FROM source_hints h LEFT JOIN source_items i ON i.source_id = h.source_id AND i.key = h.hinted_key
WHERE h.source_id = :id AND {is_due} ORDER BY h.hinted_at, h.hinted_key LIMIT :limit

-- name: hold_run
-- Keep a claimed run until the transaction ends. Progress proves that it does not kill its workers.
UPDATE runs SET lost_leases = 0 WHERE id = :id AND token = :token RETURNING id

-- part: looked_up
-- The hints that were looked up, unless they were renewed since.
h.source_id = :id AND (h.hinted_key, h.hinted_at) IN (
    SELECT * FROM unnest(CAST(:keys AS text[]), CAST(:times AS timestamptz[])))

-- name: repeat_later
-- Look up hints again after the listing that is running, because it may have read the entries before.
UPDATE source_hints h SET looked_up_at = now() WHERE {looked_up} AND {is_listed}

-- name: delete
-- Delete hints, unless they are looked up again.
DELETE FROM source_hints h WHERE {looked_up} AND (h.looked_up_at IS NULL OR h.looked_up_at < now()) AND NOT {is_listed}

-- name: wait
-- Show why a claimed run reads no more entries now.
UPDATE source_lookups l SET waiting = :waiting FROM runs r WHERE l.id = :id AND r.id = l.id AND r.token = :token

-- name: finish
-- End a claimed run.
WITH {ended}
UPDATE source_lookups l SET phase = {DONE}, error = NULL, ended_at = now(), {clear} FROM ended WHERE l.id = ended.id
