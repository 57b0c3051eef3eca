-- name: lock
-- Lock the numbers of a tenant's jobs until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('jobs:' || :tenant, 0))

-- name: find_open
-- Find the open job of a kind with a key.
SELECT id, number, collection, state FROM jobs
WHERE tenant = :tenant AND kind = :kind AND idempotency_key = :key AND ended_at IS NULL

-- name: count_open
-- Only jobs with documents.
SELECT count(*) FROM jobs j WHERE j.tenant = :tenant AND j.ended_at IS NULL AND {has_documents:j}

-- name: insert
INSERT INTO jobs (id, tenant, number, collection, collection_id, kind, state, idempotency_key, expected)
VALUES (
    :id, :tenant,
    -- The first number after the newest job's that no open job has: numbers are used again as late as possible.
    (SELECT (newest.number + g) % {most_numbers} + 1
     FROM (SELECT coalesce(
               (SELECT j.number FROM jobs j WHERE j.tenant = :tenant AND {has_documents:j}
                ORDER BY j.created_at DESC, j.id DESC LIMIT 1), 0) AS number) newest,
          generate_series(0, {most_numbers} - 1) g
     WHERE NOT EXISTS (
         SELECT 1 FROM jobs j
         WHERE j.tenant = :tenant AND j.number = (newest.number + g) % {most_numbers} + 1 AND j.ended_at IS NULL)
     ORDER BY g LIMIT 1),
    :collection, :collection_id, :kind, {OPEN_JOB.target}, :key, :expected)
RETURNING number

-- name: forget_changes
-- Delete the counters of the chunks of an ended job whose number is used again: changes first, as in the addition.
DELETE FROM tally_changes WHERE tenant = :tenant AND counted = 'lanes' AND part = ANY(CAST(:lanes AS text[]))

-- name: forget_counters
DELETE FROM tallies WHERE tenant = :tenant AND counted = 'lanes' AND part = ANY(CAST(:lanes AS text[]))

-- name: reopen
-- Make an open load accept documents again.
UPDATE jobs SET closed_at = NULL, expected = coalesce(:expected, expected)
WHERE id = :id AND {CANCEL_JOB.applies} RETURNING id

-- name: hold
-- Read a load, and keep it as it is until the transaction ends.
SELECT number, collection, state, closed_at FROM jobs
WHERE tenant = :tenant AND id = :id AND kind = {JobKind.LOAD} FOR SHARE

-- part: is_closed
-- No more documents are added to a job.
CASE WHEN j.state = {JobState.CANCELLING} THEN true
     WHEN j.kind = {JobKind.LOAD} THEN j.closed_at IS NOT NULL
     WHEN j.kind = {JobKind.SYNC} THEN j.pause_reason IS DISTINCT FROM {PauseReason.APPROVAL}
         AND NOT EXISTS (SELECT 1 FROM job_claims c WHERE c.id = j.id)
     ELSE NOT EXISTS (SELECT 1 FROM collections l WHERE l.id = j.collection_id AND l.reindexed_until IS NOT NULL) END

-- part: has_refused_entries
-- A sync could not read some entries.
EXISTS (SELECT 1 FROM syncs s WHERE s.id = j.id AND s.refused > 0)

-- name: finish
-- Finish the closed jobs, or one of them, that have no unfinished documents, and keep the numbers of their documents.
-- The condition is evaluated again for a job that was reopened meanwhile.
-- plan: generic
WITH closed AS (
    SELECT j.id, j.tenant FROM jobs j
    WHERE j.ended_at IS NULL AND {has_documents:j} AND {is_closed} AND (CAST(:id AS uuid) IS NULL OR j.id = :id)
), counters AS (
    SELECT t.part, t.state, sum(t.rows) AS rows FROM (
        SELECT t.part, t.state, t.rows FROM closed c
            JOIN tallies t ON t.tenant = c.tenant AND t.counted = 'jobs' AND t.part = c.id::text
        UNION ALL
        SELECT t.part, t.state, t.change FROM closed c
            JOIN tally_changes t ON t.tenant = c.tenant AND t.counted = 'jobs' AND t.part = c.id::text) t
    GROUP BY t.part, t.state HAVING sum(t.rows) > 0
), finished AS (
    SELECT c.id, coalesce(jsonb_object_agg(t.state, t.rows) FILTER (WHERE {exists:t}), '{}') AS documents,
           coalesce(bool_or(t.state IN ({DocumentState.DEGRADED}, {DocumentState.FAILED})), false) AS has_errors
    FROM closed c LEFT JOIN counters t ON t.part = c.id::text
    GROUP BY c.id HAVING NOT coalesce(bool_or({UNFINISHED_DOCUMENTS:t}), false)
)
UPDATE jobs j
SET {finished_state}, pause_reason = NULL, closed_at = coalesce(j.closed_at, now()), ended_at = now(),
    documents = f.documents
FROM finished f WHERE j.id = f.id AND j.ended_at IS NULL AND {is_closed}
RETURNING j.id, j.tenant, j.kind, j.state
