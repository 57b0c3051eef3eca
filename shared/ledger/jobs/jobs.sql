-- part: builds
-- Builds that are or were filled next to the live one, as jobs.
SELECT b.id, {JobKind.BUILD} AS kind,
       CASE b.build_state WHEN {BuildState.FILLING} THEN {JobState.RUNNING} WHEN {BuildState.PAUSED} THEN {JobState.PAUSED}
                          WHEN {BuildState.DROPPING} THEN {JobState.CANCELLING} ELSE {JobState.DONE} END AS state,
       b.name AS collection,
       CASE b.build_state WHEN {BuildState.PAUSED} THEN {PauseReason.USER} END AS pause_reason,
       CAST(NULL AS timestamptz) AS closed_at, b.created_at, CAST(NULL AS timestamptz) AS ended_at,
       CAST(NULL AS text) AS error, CAST(NULL AS bigint) AS done, CAST(NULL AS bigint) AS total,
       CAST(NULL AS jsonb) AS documents, 'documents' AS counted, b.id::text AS part, l.id::text AS source,
       CAST(NULL AS bigint) AS points
FROM collections b JOIN collections l ON l.tenant = b.tenant AND l.name = b.name AND {is_live:l}
WHERE b.tenant = :tenant AND b.build > 1

-- part: erasures
-- Erasures as jobs.
SELECT e.id, {JobKind.ERASURE}, CASE WHEN e.finished_at IS NULL THEN {JobState.RUNNING} ELSE {JobState.DONE} END,
       e.collection, NULL, NULL, e.started_at, e.finished_at, NULL,
       CASE WHEN e.finished_at IS NOT NULL THEN (e.deleted ->> 'documents')::bigint END,
       (e.deleted ->> 'documents')::bigint, NULL, NULL, NULL, NULL, NULL
FROM erasures e WHERE e.tenant = :tenant

-- part: compares
-- A gate or a verification, which compares the documents of a build and all their points.
j.kind IN ({JobKind.GATE}, {JobKind.VERIFICATION})

-- part: compared
-- The number of documents that a gate or a verification has compared.
(j.progress -> 'counts' ->> 'documents')::bigint

-- part: own_rows
-- Jobs with rows of their own. A closed one has as many documents as have arrived. A gate or a verification leaves out
-- documents in progress, so the compared ones are all at its end.
SELECT j.id, j.kind, j.state, j.collection, j.pause_reason, j.closed_at, j.created_at, j.ended_at, j.error,
       coalesce((j.progress ->> 'done')::bigint, {compared}),
       CASE WHEN j.kind = {JobKind.EVALUATION} THEN (j.progress ->> 'total')::bigint
            WHEN {compares} THEN CASE WHEN j.state = {JobState.DONE} THEN {compared} END
            WHEN j.closed_at IS NULL THEN j.expected END,
       j.documents, CASE WHEN {has_documents:j} THEN 'jobs' WHEN {compares} THEN 'documents' END,
       CASE WHEN {has_documents:j} THEN j.id::text END,
       CASE WHEN j.state = {JobState.DONE} THEN NULL
            WHEN j.kind = {JobKind.GATE} THEN j.collection_id::text
            WHEN j.kind = {JobKind.VERIFICATION} THEN (
                SELECT l.id::text FROM collections l WHERE l.tenant = j.tenant AND l.name = j.collection AND {is_live:l}) END,
       CASE WHEN {compares} THEN (j.progress -> 'counts' ->> 'points')::bigint END
FROM jobs j WHERE j.tenant = :tenant AND j.kind IN ({listed})

-- part: every_kind
-- The jobs of all kinds.
{builds} UNION ALL {erasures} UNION ALL {own_rows}

-- part: shown
-- Chosen jobs, the newest first, with the counters of their documents.
, counters AS (
    SELECT t.counted, t.part, t.state, sum(t.rows)::bigint AS rows FROM (
        SELECT t.counted, t.part, t.state, t.rows FROM chosen p JOIN tallies t
            ON t.tenant = :tenant AND t.counted = p.counted AND t.part IN (p.part, p.source)
        UNION ALL
        SELECT t.counted, t.part, t.state, t.change FROM chosen p JOIN tally_changes t
            ON t.tenant = :tenant AND t.counted = p.counted AND t.part IN (p.part, p.source)) t
    GROUP BY t.counted, t.part, t.state HAVING sum(t.rows) > 0
)
SELECT p.id, p.kind, p.state, p.collection, p.pause_reason, p.closed_at, p.created_at, p.ended_at, p.error, p.done,
       greatest(p.total, (SELECT sum(c.rows) FROM counters c
                          WHERE c.counted = p.counted AND c.part = p.source AND {exists:c}))::bigint AS total,
       coalesce(p.documents, (SELECT jsonb_object_agg(c.state, c.rows) FROM counters c
                              WHERE c.counted = p.counted AND c.part = p.part AND {exists:c}), '{}') AS documents,
       p.points,
       EXISTS (SELECT 1 FROM jobs j JOIN chunks_open w ON {is_in_live_job_lane:w j}
               WHERE j.id = p.id AND j.ended_at IS NULL AND {GENERATE_QUEUE:w}) AS needs_calls
FROM chosen p
ORDER BY p.created_at DESC, p.id DESC

-- name: page
-- List the jobs of a tenant, the newest first, after a position.
WITH chosen AS (
    SELECT * FROM ({every_kind}) p
    WHERE (CAST(:kind AS text) IS NULL OR p.kind = :kind)
      AND (CAST(:at AS timestamptz) IS NULL OR (p.created_at, p.id) < (:at, CAST(:after AS uuid)))
    ORDER BY p.created_at DESC, p.id DESC LIMIT :limit
)
{shown}

-- name: get
-- Read a job.
WITH chosen AS (SELECT * FROM ({every_kind}) p WHERE p.id = :id)
{shown}

-- name: lock
-- Lock a job with documents.
SELECT j.id, j.kind, j.state, j.collection_id FROM jobs j
WHERE j.tenant = :tenant AND j.id = :id AND {has_documents:j} FOR UPDATE

-- name: close
-- Record that a load gets no more documents.
UPDATE jobs SET closed_at = coalesce(closed_at, now()) WHERE id = :id

-- name: pause
-- Pause a job.
UPDATE jobs SET {PAUSE_JOB.sets}, pause_reason = :reason WHERE id = :id AND {PAUSE_JOB.applies} RETURNING id

-- name: resume
-- Resume a job.
UPDATE jobs SET {RESUME_JOB.sets}, pause_reason = NULL WHERE id = :id AND {RESUME_JOB.applies} RETURNING id

-- name: pause_claim
-- Show whether a job is paused in its claim, if it has one.
UPDATE job_claims c SET paused = j.state = {JobState.PAUSED} FROM jobs j WHERE c.id = :id AND j.id = c.id

-- name: cancel
-- Cancel a job.
UPDATE jobs SET {CANCEL_JOB.sets}, pause_reason = NULL WHERE id = :id AND {CANCEL_JOB.applies} RETURNING id

-- name: stop_reindex
-- Start no further documents of a build that is being reindexed.
UPDATE collections SET reindexed_until = NULL WHERE id = :collection

-- name: find_cancelling
-- Find a job that is being cancelled.
SELECT id FROM jobs WHERE state = {JobState.CANCELLING} AND ended_at IS NULL ORDER BY random() LIMIT 1

-- name: forget
-- Delete some jobs with documents that ended before an age, with their budgets. Documents and costs keep the id. The newest job of a
-- tenant is kept, because the numbers of jobs continue after it, and so is a job whose documents are processed again.
WITH old AS (
    SELECT j.id FROM jobs j
    WHERE {has_documents:j} AND j.ended_at <= now() - CAST(:age AS interval)
      AND EXISTS (SELECT 1 FROM jobs n WHERE n.tenant = j.tenant AND {has_documents:n}
                  AND (n.created_at, n.id) > (j.created_at, j.id))
      AND coalesce((SELECT sum(t.rows) FROM (
              SELECT t.state, t.rows FROM tallies t
              WHERE t.tenant = j.tenant AND t.counted = 'jobs' AND t.part = j.id::text
              UNION ALL
              SELECT t.state, t.change FROM tally_changes t
              WHERE t.tenant = j.tenant AND t.counted = 'jobs' AND t.part = j.id::text) t
          WHERE {UNFINISHED_DOCUMENTS:t}), 0) <= 0
    LIMIT :limit FOR UPDATE SKIP LOCKED
), budgets AS (
    DELETE FROM budgets b USING old WHERE b.job_id = old.id
)
DELETE FROM jobs j USING old WHERE j.id = old.id RETURNING j.id
