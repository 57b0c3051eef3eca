-- part: columns
s.id, s.tenant, s.collection, s.name, s.kind, s.uri, s.options, s.secret_name, s.schedule, s.time_zone,
s.max_delete_share, s.created_at

-- part: not_removed
s.removed_at IS NULL

-- name: now
-- Return the start of the transaction. The clock of this process may differ.
SELECT now()

-- name: lock_of_tenant
-- Lock the sources of a tenant against additions until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('sources:' || :tenant, 0))

-- name: find_any
-- Find a source, even if it is being removed.
SELECT s.removed_at IS NOT NULL AS removing FROM sources s WHERE s.tenant = :tenant AND s.name = :name

-- name: count
SELECT count(*) FROM sources WHERE tenant = :tenant

-- name: insert
INSERT INTO sources AS s (id, tenant, collection, name, kind, uri, options, secret_name, schedule, time_zone,
                          max_delete_share, next_at)
VALUES (:id, :tenant, :collection, :name, :kind, :uri, CAST(:options AS jsonb), :secret_name, :schedule, :time_zone,
        :max_delete_share, :next_at)
RETURNING {columns}

-- part: shown
-- Sources with the newest lookup of their hints. Without a worker it is queued.
SELECT {columns}, s.next_at, s.schedule_error, s.removed_at IS NOT NULL AS removing,
       CASE WHEN c.id IS NOT NULL AND c.token IS NULL THEN {JobState.QUEUED} ELSE l.state END AS lookup_state,
       c.waiting AS lookup_waiting, l.error AS lookup_error, l.ended_at AS lookup_ended_at
FROM sources s LEFT JOIN jobs l ON l.id = s.id LEFT JOIN job_claims c ON c.id = l.id

-- name: page
-- List the sources of a tenant after a name.
{shown}
WHERE s.tenant = :tenant AND s.name > :after AND (CAST(:collection AS text) IS NULL OR s.collection = :collection)
ORDER BY s.name LIMIT :limit

-- name: find
{shown}
WHERE s.tenant = :tenant AND s.name = :name

-- name: by_id
-- Read a source that is not being removed, by its id.
SELECT {columns} FROM sources s WHERE s.id = :id AND {not_removed}

-- name: lock
SELECT {columns}, s.next_at, false AS removing FROM sources s
WHERE s.tenant = :tenant AND s.name = :name AND {not_removed} FOR UPDATE

-- name: has_items
SELECT EXISTS (SELECT 1 FROM source_items WHERE source_id = :id)

-- name: change
UPDATE sources s
SET uri = :uri, options = CAST(:options AS jsonb), secret_name = :secret_name, schedule = :schedule,
    time_zone = :time_zone, max_delete_share = :max_delete_share, next_at = :next_at, schedule_error = NULL
WHERE s.id = :id RETURNING {columns}

-- name: due
-- List the sources whose next scheduled sync is due.
-- plan: generic
SELECT {columns} FROM sources s WHERE s.next_at <= now() AND {not_removed} ORDER BY s.next_at LIMIT :limit

-- name: schedule
-- Record the next scheduled sync, unless the schedule has changed meanwhile.
UPDATE sources s SET next_at = :next_at, schedule_error = :error
WHERE s.id = :id AND s.schedule IS NOT DISTINCT FROM :schedule AND s.next_at <= now()

-- name: mark_removed
-- Hide a locked source.
UPDATE sources SET removed_at = now(), removed_with_documents = :with_documents, next_at = NULL WHERE id = :id

-- name: open_jobs
-- List the jobs of a source that have a worker, or wait for one.
SELECT c.id FROM job_claims c WHERE c.id = :id OR c.id IN (SELECT y.id FROM syncs y WHERE y.source_id = :id)

-- name: end_waiting
-- End the wait of a source's job for approval: it ends when its documents are processed.
UPDATE jobs SET {RESUME_JOB.sets}, pause_reason = NULL
WHERE tenant = :tenant AND kind = {JobKind.SYNC} AND idempotency_key = :key AND ended_at IS NULL
  AND pause_reason = {PauseReason.APPROVAL}

-- name: lock_removed
SELECT {columns}, s.removed_with_documents FROM sources s
WHERE NOT ({not_removed}) ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: first_keys
SELECT key FROM source_items WHERE source_id = :id ORDER BY key LIMIT :limit

-- name: delete_items
DELETE FROM source_items WHERE source_id = :id AND key = ANY(CAST(:keys AS text[]))

-- name: delete
-- Delete a source without items, its syncs and its lookup.
WITH syncs_of AS (DELETE FROM syncs WHERE source_id = :id), lookup AS (DELETE FROM jobs WHERE id = :id)
DELETE FROM sources WHERE id = :id

-- name: are_syncs_due
SELECT EXISTS (SELECT 1 FROM sources WHERE next_at <= now())

-- name: are_any_removed
SELECT EXISTS (SELECT 1 FROM sources WHERE removed_at IS NOT NULL)
