-- part: shown
-- Jobs with their requests and results, if these are wanted: they may be large. A job without a worker is queued.
SELECT j.id, j.collection_id, j.progress, j.error, j.created_at, j.ended_at,
       CASE WHEN j.ended_at IS NULL AND c.token IS NULL THEN {JobState.QUEUED} ELSE j.state END AS state,
       CASE WHEN CAST(:with_request AS boolean) THEN j.request END AS request,
       CASE WHEN CAST(:with_result AS boolean) THEN j.result END AS result
FROM jobs j LEFT JOIN job_claims c ON c.id = j.id

-- part: is_of
-- The jobs of a kind and a collection, or of one of its builds.
j.tenant = :tenant AND j.kind = :kind AND j.collection = :collection
AND (CAST(:build AS uuid) IS NULL OR j.collection_id = :build)

-- name: lock
-- Lock a collection against new jobs of a kind until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('kind:' || :kind || ':' || :tenant || '/' || :collection, 0))

-- name: insert
-- Insert a job for a worker.
INSERT INTO jobs (id, tenant, collection, collection_id, kind, state, request, progress, result)
VALUES (:id, :tenant, :collection, :collection_id, :kind, {OPEN_JOB.target}, CAST(:request AS json),
        CAST(:progress AS json), CAST(:result AS json))

-- name: get_open
-- Read the open job of a kind.
{shown} WHERE {is_of} AND j.ended_at IS NULL

-- name: list
-- List some jobs of a kind, the newest first.
{shown} WHERE {is_of} ORDER BY j.created_at DESC, j.id DESC LIMIT :limit

-- name: get
-- Read a job, of a collection or of any.
{shown} WHERE j.id = :id AND j.kind = :kind
  AND (CAST(:tenant AS text) IS NULL OR j.tenant = :tenant AND j.collection = :collection)

-- name: delete
-- Delete a job of a collection, with its claim.
DELETE FROM jobs WHERE id = :id AND kind = :kind AND tenant = :tenant AND collection = :collection RETURNING id

-- name: get_claimed
-- Read a claimed job.
{shown} WHERE j.id = :id AND c.token = :token

-- name: save_progress
-- Save the progress of a claimed job. Its long values are not written again.
UPDATE jobs j SET progress = CAST(:progress AS json) FROM job_claims c
WHERE j.id = :id AND c.id = j.id AND c.token = :token

-- name: save_result
-- Save the progress and the result of a job that ends.
UPDATE jobs SET progress = CAST(:progress AS json), result = CAST(:result AS json) WHERE id = :id

-- name: delete_oldest
-- Delete the oldest ended jobs of a kind.
DELETE FROM jobs WHERE ended_at IS NOT NULL AND id IN (
    SELECT j.id FROM jobs j WHERE {is_of} ORDER BY j.created_at DESC, j.id DESC OFFSET :retained)
