-- part: columns
-- The columns of a sync `y` of a source `s` with its claim `c`. Without a worker it is queued, unless a program lists.
y.id, s.name AS source, y.collection,
CASE WHEN c.id IS NOT NULL AND c.token IS NULL AND (y.push_key IS NULL OR y.closed_at IS NOT NULL) THEN {JobState.QUEUED}
     ELSE y.state END AS state, y.seen, y.created, y.changed, y.unchanged, y.readers_changed, y.missing, y.deleted,
y.withheld, y.refused, y.refused_entries, c.waiting, y.approved, y.error, y.created_at, y.listed_at, y.ended_at, y.checkpoint,
CASE WHEN y.push_key IS NOT NULL AND y.closed_at IS NULL THEN c.leased_until END AS expires_at

-- part: syncs
-- Syncs with their sources, and their claims while they list.
syncs y JOIN sources s ON s.id = y.source_id LEFT JOIN job_claims c ON c.id = y.id

-- name: hold_source
-- Read a source that is not being removed, and keep it until the transaction ends.
SELECT s.id, s.collection, s.kind FROM sources s WHERE s.tenant = :tenant AND s.name = :source AND s.removed_at IS NULL FOR SHARE

-- name: release_key
-- Release the key of a job whose listing has ended, so that the next sync of its source can start. The job ends when its
-- documents are processed, and waits for no approval, because the next sync finds the withheld deletions again.
UPDATE jobs j SET idempotency_key = NULL, {resumed}, pause_reason = nullif(pause_reason, {PauseReason.APPROVAL})
WHERE j.tenant = :tenant AND j.kind = {JobKind.SYNC} AND j.idempotency_key = :key AND j.ended_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM job_claims c WHERE c.id = j.id)

-- name: insert
-- Insert a queued sync.
INSERT INTO syncs (id, source_id, tenant, collection, number, state)
VALUES (:id, :source_id, :tenant, :collection, {next_number}, {START_LISTING.target})

-- part: next_number
-- The next number of a listing of a source.
(SELECT coalesce(max(n.number), 0) + 1 FROM syncs n WHERE n.source_id = :source_id)

-- name: delete_oldest
-- Delete the oldest ended syncs of a source.
DELETE FROM syncs WHERE id IN (
    SELECT id FROM syncs WHERE source_id = :source_id ORDER BY number DESC OFFSET :retained
) AND ended_at IS NOT NULL

-- name: lock_waiting
-- Lock the job of a source that waits for approval.
SELECT id FROM jobs
WHERE tenant = :tenant AND kind = {JobKind.SYNC} AND idempotency_key = :key AND ended_at IS NULL
  AND pause_reason = {PauseReason.APPROVAL} FOR UPDATE

-- name: resume
-- Resume a job that waits for approval.
UPDATE jobs SET {RESUME_JOB.sets}, pause_reason = NULL WHERE id = :id AND {RESUME_JOB.applies}

-- name: list_again
-- Start another listing of a sync, with an approved number of deletions. Its documents stay counted.
UPDATE syncs SET number = {next_number}, {LIST_AGAIN.sets}, approved = :approved, after = '', started_at = NULL,
  listed_at = NULL, ended_at = NULL, deletes = false, seen = 0, unchanged = 0, missing = 0, withheld = 0, refused = 0,
  refused_entries = '[]'
WHERE id = :id

-- name: count_withheld
-- Count the items whose deletion is withheld by a listing.
SELECT count(*) FROM source_items i, syncs y WHERE y.id = :id AND {deletable}

-- name: delete_withheld
-- Carry out the withheld deletions of a listing that a program has pushed: no worker can list its source again.
UPDATE syncs SET {LIST_AGAIN.sets}, approved = :approved, deletes = true, withheld = 0, ended_at = NULL WHERE id = :id

-- name: page
-- List the syncs of a source, the newest first, after a position.
SELECT {columns} FROM {syncs}
WHERE s.id = :source_id AND (CAST(:at AS timestamptz) IS NULL OR (y.created_at, y.id) < (:at, CAST(:after AS uuid)))
ORDER BY y.created_at DESC, y.id DESC LIMIT :limit

-- name: newest
-- Read the newest sync of each of these sources.
SELECT DISTINCT ON (s.id) s.id AS source_id, {columns} FROM {syncs}
WHERE s.id = ANY(CAST(:sources AS uuid[])) ORDER BY s.id, y.number DESC

-- name: get
-- Read a sync.
SELECT {columns} FROM {syncs} WHERE y.id = :id AND y.tenant = :tenant

-- name: waiting
-- Find the job of a source that waits for approval, and the number of withheld deletions.
SELECT j.id, y.withheld FROM jobs j JOIN syncs y ON y.id = j.id
WHERE j.tenant = :tenant AND j.kind = {JobKind.SYNC} AND j.idempotency_key = :key AND j.ended_at IS NULL
  AND j.pause_reason = {PauseReason.APPROVAL}

-- name: waiting_of_tenant
-- List the syncs of a tenant that wait for approval.
SELECT s.name AS source, y.collection, y.id AS job_id, y.withheld AS deletions
FROM jobs j JOIN {syncs} ON y.id = j.id
WHERE j.tenant = :tenant AND j.ended_at IS NULL AND j.pause_reason = {PauseReason.APPROVAL} ORDER BY s.name

-- name: count_items
-- Count the items of a source.
SELECT count(*) FROM source_items WHERE source_id = :source_id

-- name: withheld_keys
-- List the first keys whose deletion is withheld by a listing.
SELECT i.key FROM source_items i, syncs y WHERE y.id = :id AND {deletable} ORDER BY i.key LIMIT :limit
