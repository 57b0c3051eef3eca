-- part: is_listed
-- Whether a worker lists the source now.
EXISTS (SELECT 1 FROM syncs y JOIN job_claims c ON c.id = y.id WHERE y.source_id = h.source_id AND c.token IS NOT NULL)

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
-- Open the lookups of sources that have no open one. The error of the last one is shown until the hints are looked up.
INSERT INTO jobs AS j (id, tenant, collection, collection_id, kind, state)
SELECT s.id, s.tenant, s.collection, l.id, {JobKind.LOOKUP}, {OPEN_JOB.target}
FROM sources s JOIN collections l ON l.tenant = s.tenant AND l.name = s.collection AND {is_live:l}
WHERE s.id = ANY(CAST(:ids AS uuid[])) ORDER BY s.id
ON CONFLICT (id) DO UPDATE SET {LOOK_UP_AGAIN.sets}, ended_at = NULL WHERE {LOOK_UP_AGAIN.applies:j} RETURNING j.id

-- name: queue
-- Queue opened lookups.
INSERT INTO job_claims (id, kind, tenant, collection, embeddings)
SELECT j.id, j.kind, j.tenant, j.collection, '{}' FROM jobs j WHERE j.id = ANY(CAST(:ids AS uuid[]))

-- name: due
-- List sources with hints that no job looks up, except after a failure a short time ago.
-- plan: generic
SELECT s.id FROM sources s
WHERE s.removed_at IS NULL AND NOT EXISTS (SELECT 1 FROM job_claims c WHERE c.id = s.id)
  AND NOT EXISTS (SELECT 1 FROM jobs l WHERE l.id = s.id AND l.state = {JobState.FAILED}
                  AND l.ended_at > now() - CAST(:pause AS interval))
  AND EXISTS (SELECT 1 FROM source_hints h WHERE h.source_id = s.id AND {is_due})

-- name: source_of
SELECT s.id, s.tenant, s.collection, s.name, s.kind, s.uri, s.options, s.secret_name, s.schedule, s.time_zone,
       s.max_delete_share, s.created_at
FROM sources s JOIN job_claims c ON c.id = s.id WHERE c.id = :id AND c.token = :token AND s.removed_at IS NULL

-- name: next
-- List some hints of a source that can be looked up now, each with its item.
SELECT h.hinted_key AS key, h.hinted_at, i.version, i.missing_in IS NOT NULL AS is_marked
FROM source_hints h LEFT JOIN source_items i ON i.source_id = h.source_id AND i.key = h.hinted_key
WHERE h.source_id = :id AND {is_due} ORDER BY h.hinted_at, h.hinted_key LIMIT :limit

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

-- name: exist
SELECT EXISTS (SELECT 1 FROM source_hints)
