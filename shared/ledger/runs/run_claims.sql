-- name: count_queued
-- Count a tenant's runs of a kind that no worker works on.
SELECT count(*) FROM runs WHERE tenant = :tenant AND kind = :kind AND token IS NULL

-- name: insert
-- Insert a run that may be claimed at once.
INSERT INTO runs (id, kind, tenant, collection, embeddings)
VALUES (:id, :kind, :tenant, :collection, CAST(:embeddings AS text[]))

-- name: withdraw
-- End an open run of a collection.
DELETE FROM runs WHERE id = :id AND tenant = :tenant AND collection = :collection RETURNING id

-- part: held
-- The numbers of runs that workers work on.
held AS (
    SELECT kind, tenant, count(*) AS runs FROM runs WHERE leased_until > now() AND token IS NOT NULL
    GROUP BY kind, tenant)

-- part: claimable
-- Runs that may be claimed. A run waits while its job is paused, and while its tenant, or all tenants together, have the
-- maximum number of its kind.
FROM runs r LEFT JOIN held h ON h.kind = r.kind AND h.tenant = r.tenant
WHERE (r.leased_until IS NULL OR r.leased_until <= now())
  AND coalesce(h.runs, 0) < {most_of_tenant}
  AND (SELECT coalesce(sum(k.runs), 0) FROM held k WHERE k.kind = r.kind) < {most}
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = r.id AND j.state = {paused})

-- name: due
-- Return the kinds of the runs that may be claimed, of the given ones.
-- plan: generic
WITH {held} SELECT DISTINCT r.kind {claimable} AND r.kind = ANY(CAST(:kinds AS text[]))

-- name: claim
-- Claim a run of the tenant with the fewest claimed runs, the oldest first, if the worker serves all its embeddings.
WITH {held}
UPDATE runs SET token = nextval('fencing'), leased_by = :worker, leased_until = now() + CAST(:lease AS interval),
  lost_leases = lost_leases + CAST(token IS NOT NULL AS integer)
WHERE id = (SELECT r.id {claimable}
              AND r.kind = ANY(CAST(:kinds AS text[])) AND r.embeddings <@ CAST(:embeddings AS text[])
            ORDER BY coalesce(h.runs, 0), r.created_at, r.id LIMIT 1)
RETURNING id, kind, tenant, collection, token, lost_leases

-- name: extend
-- Extend a lease; return no row if the run was deleted, or another worker has claimed it.
UPDATE runs SET leased_until = now() + CAST(:lease AS interval) WHERE id = :id AND token = :token RETURNING id
