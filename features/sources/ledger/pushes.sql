-- name: find_source
-- Read a source that is not being removed.
SELECT s.id, s.tenant, s.collection, s.name, s.kind, s.uri, s.options, s.secret_name, s.schedule, s.time_zone,
       s.max_delete_share, s.created_at
FROM sources s WHERE s.tenant = :tenant AND s.name = :source AND s.removed_at IS NULL

-- name: hold_source
-- Keep a source until the transaction ends; return no row if it is being removed.
SELECT s.id FROM sources s WHERE s.id = :id AND s.removed_at IS NULL FOR SHARE

-- part: is_awaited
-- Whether the listing `y` waits for its program.
y.push_key IS NOT NULL AND y.closed_at IS NULL AND y.ended_at IS NULL

-- name: start
-- Record that a program pushes the entries of a new sync.
UPDATE syncs SET push_key = :key, started_at = now() WHERE id = :id

-- name: wait
-- Delay the claim of the job of a listing while its program pushes entries: a worker that claims it later fails it.
UPDATE job_claims SET leased_until = now() + CAST(:expires AS interval), waiting = :waiting WHERE id = :id AND token IS NULL

-- name: find_listing
-- Read a listing of a source that a program has pushed, or pushes, by its id.
SELECT y.id, y.push_key, y.state, y.error, y.closed_at, {is_awaited} AS is_awaited
FROM syncs y WHERE y.id = :id AND y.source_id = :source_id AND y.push_key IS NOT NULL

-- name: open_listing
-- Find the listing of a source that waits for its program.
SELECT y.id FROM syncs y JOIN job_claims c ON c.id = y.id WHERE y.source_id = :source_id AND {is_awaited}

-- name: lock_job
-- Lock a job against pages that are being saved.
SELECT id FROM jobs WHERE id = :id FOR NO KEY UPDATE

-- name: close
-- Record that the program has pushed all entries.
UPDATE syncs SET closed_at = now() WHERE id = :id

-- name: queue
-- Queue the job of a listing that its program has ended for a worker.
UPDATE job_claims SET leased_until = NULL, waiting = NULL WHERE id = :id AND token IS NULL

-- name: items
-- Read items by their keys.
SELECT key, version, missing_in IS NOT NULL AS is_marked FROM source_items
WHERE source_id = :source_id AND key = ANY(CAST(:keys AS text[]))

-- name: descriptions
-- Read the descriptions of the newest versions of documents in a collection's live build.
SELECT d.external_id, d.public_id AS document_id, v.title, v.metadata, v.readable_by
FROM collections l JOIN documents d ON d.collection_id = l.id
JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
WHERE l.tenant = :tenant AND l.name = :name AND {is_live:l} AND {exists:d}
  AND d.external_id = ANY(CAST(:external_ids AS text[]))

-- name: note_keys
-- Record entries as part of a listing; return how many it did not have yet, in total and by two groups of them.
WITH n AS (
    SELECT n.key, n.problem, n.unchanged
    FROM unnest(CAST(:keys AS text[]), CAST(:problems AS text[]), CAST(:unchanged AS boolean[])) AS n(key, problem, unchanged)
    ORDER BY n.key COLLATE "C"
), before AS (
    SELECT p.key FROM pushed_keys p WHERE p.sync_id = :id AND p.key = ANY(CAST(:keys AS text[]))
), written AS (
    INSERT INTO pushed_keys AS p (sync_id, key, problem) SELECT :id, n.key, n.problem FROM n
    ON CONFLICT (sync_id, key) DO UPDATE SET problem = excluded.problem
        WHERE p.problem IS DISTINCT FROM excluded.problem RETURNING key
)
SELECT count(*) AS seen, count(*) FILTER (WHERE n.unchanged) AS unchanged
FROM n WHERE n.key NOT IN (SELECT key FROM before)

-- name: forget_keys
-- Remove entries from a listing, because the program deleted them.
DELETE FROM pushed_keys WHERE sync_id = :id AND key = ANY(CAST(:keys AS text[]))

-- name: count
-- Add to the counts of a listing, and keep the position of its program.
UPDATE syncs
SET seen = seen + :seen, created = created + :created, changed = changed + :changed,
    unchanged = unchanged + :unchanged, readers_changed = readers_changed + :readers_changed,
    deleted = deleted + :deleted
WHERE id = :id

-- name: save_checkpoint
UPDATE syncs SET checkpoint = :checkpoint WHERE id = :id

-- name: unlisted
-- List keys after a position, in order: items of the source that a claimed listing lacks, and its entries whose
-- documents are not up to date, with the reason. An item that was made since the start of the listing is not missing.
SELECT * FROM (
    (SELECT i.key, CAST(NULL AS text) AS problem FROM syncs y JOIN source_items i ON i.source_id = y.source_id
     WHERE y.id = :id AND i.key > CAST(:after AS text) COLLATE "C" AND i.created_at < y.started_at
       AND NOT EXISTS (SELECT 1 FROM pushed_keys p WHERE p.sync_id = y.id AND p.key = i.key)
     ORDER BY i.key LIMIT :limit)
    UNION ALL
    (SELECT p.key, p.problem FROM pushed_keys p
     WHERE p.sync_id = :id AND p.key > CAST(:after AS text) COLLATE "C" AND p.problem IS NOT NULL
     ORDER BY p.key LIMIT :limit)
) u ORDER BY u.key LIMIT :limit

-- name: forget
-- Delete some pushed keys of the ended listings of a source, and of the one whose deletions are being carried out.
DELETE FROM pushed_keys WHERE ctid = ANY(ARRAY(
    SELECT p.ctid FROM pushed_keys p JOIN syncs y ON y.id = p.sync_id
    WHERE y.source_id = :source_id AND (y.id = :id OR y.ended_at IS NOT NULL) LIMIT :limit)) RETURNING 1
