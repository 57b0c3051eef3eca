-- name: count_queued
-- Count a tenant's jobs of a kind that no worker works on.
SELECT count(*) FROM job_claims WHERE tenant = :tenant AND kind = :kind AND token IS NULL

-- name: insert
-- Queue a job, which may be claimed at once.
INSERT INTO job_claims (id, kind, tenant, collection, embeddings)
VALUES (:id, :kind, :tenant, :collection, CAST(:embeddings AS text[]))

-- part: held
-- The numbers of jobs that workers work on.
held AS (
    SELECT kind, tenant, count(*) AS jobs FROM job_claims WHERE leased_until > now() AND token IS NOT NULL
    GROUP BY kind, tenant)

-- part: live
-- The numbers of live workers by role.
live AS (SELECT role, count(*) AS workers FROM workers WHERE seen_at > now() - {alive_for} GROUP BY role)

-- part: most
-- The maximum number of claimed jobs of the kind of a job `r`.
greatest({at_least}, (SELECT v.workers FROM live v
                      WHERE v.role = CASE WHEN r.kind IN ({parsed}) THEN 'parse' ELSE 'index' END))

-- part: most_of_tenant
-- The maximum number of claimed jobs of the kind and the tenant of a job `r`.
greatest({at_least_of_tenant}, {most} / 2)

-- part: of_kind
-- The number of claimed jobs of the kind of a job `r`.
(SELECT coalesce(sum(k.jobs), 0) FROM held k WHERE k.kind = r.kind)

-- part: waiting
-- Jobs that no worker works on and that are not paused, with the number of claimed jobs of their kind and tenant.
FROM job_claims r LEFT JOIN held h ON h.kind = r.kind AND h.tenant = r.tenant
WHERE (r.leased_until IS NULL OR r.leased_until <= now()) AND NOT r.paused

-- part: claimable
-- Jobs that may be claimed. A job waits while its tenant, or all tenants together, have the maximum number of its kind.
{waiting} AND coalesce(h.jobs, 0) < {most_of_tenant} AND {of_kind} < {most}

-- name: due
-- Return the kinds of the jobs that may be claimed, of the given ones.
-- plan: generic
WITH {held}, {live} SELECT DISTINCT r.kind {claimable} AND r.kind = ANY(CAST(:kinds AS text[]))

-- name: claim
-- Claim a job of the tenant with the fewest claimed jobs, the longest waiting first, if the worker serves all its
-- embeddings.
WITH {held}, {live}
UPDATE job_claims SET token = nextval('fencing'), leased_by = :worker, leased_until = now() + CAST(:lease AS interval),
  lost_leases = lost_leases + CAST(token IS NOT NULL AS integer), waiting = NULL
WHERE id = (SELECT r.id {claimable}
              AND r.kind = ANY(CAST(:kinds AS text[])) AND r.embeddings <@ CAST(:embeddings AS text[])
            ORDER BY coalesce(h.jobs, 0), coalesce(r.leased_until, r.created_at), r.id LIMIT 1)
RETURNING id, kind, tenant, collection, token, lost_leases

-- name: extend
-- Extend a lease; return no row if the job has ended, or another worker has claimed it.
UPDATE job_claims SET leased_until = now() + CAST(:lease AS interval) WHERE id = :id AND token = :token RETURNING id

-- name: release
-- Release a claim, so that another worker may claim the job after a pause.
UPDATE job_claims SET token = NULL, leased_by = NULL, leased_until = now() + CAST(:pause AS interval), waiting = :waiting
WHERE id = :id AND token = :token

-- name: yield_claim
-- Release a claimed job `m` if a waiting job would be claimed instead of it, and cannot be claimed otherwise. It is not
-- claimed again before a pause is over.
WITH {held}, {live}
UPDATE job_claims m
SET token = NULL, leased_by = NULL, leased_until = now() + CAST(:pause AS interval), waiting = :waiting
WHERE m.id = :id AND m.token = :token AND EXISTS (
    SELECT 1 {waiting}
      AND r.kind = m.kind AND r.embeddings <@ CAST(:embeddings AS text[])
      AND (coalesce(h.jobs, 0) >= {most_of_tenant} OR {of_kind} >= {most})
      AND (r.tenant = m.tenant OR (coalesce(h.jobs, 0) < {most_of_tenant} AND coalesce(h.jobs, 0) < (
              SELECT o.jobs FROM held o WHERE o.kind = m.kind AND o.tenant = m.tenant))))
RETURNING id

-- part: locked_job
-- The job, locked before its claim, as in every transaction.
job AS (SELECT id FROM jobs WHERE id = :id FOR NO KEY UPDATE)

-- name: hold
-- Keep a claimed job until the transaction ends. Its progress proves that it does not kill its workers.
WITH {locked_job}
UPDATE job_claims c SET lost_leases = 0 FROM job WHERE c.id = job.id AND c.token = :token RETURNING c.id

-- name: end
-- End the work on a job, whose worker stops if it is another one. A sync continues until its documents are processed.
WITH {locked_job}, ended AS (
    DELETE FROM job_claims c USING job
    WHERE c.id = job.id AND (c.token = :token OR CAST(:token AS bigint) IS NULL) RETURNING c.id
), listing AS (
    UPDATE syncs y SET {ended_listing}, error = :error, ended_at = now(), after = '' FROM ended WHERE y.id = ended.id
)
UPDATE jobs j SET {ended_job}, error = :error, ended_at = CASE WHEN {has_documents:j} THEN j.ended_at ELSE now() END
FROM ended WHERE j.id = ended.id RETURNING j.id

-- name: delete_request
-- Delete the request of an ended job. Parse workers cannot: requests contain questions.
UPDATE jobs SET request = NULL WHERE id = :id
