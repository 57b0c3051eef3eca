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

-- part: live
-- The numbers of live workers by role.
live AS (SELECT role, count(*) AS workers FROM workers WHERE seen_at > now() - {alive_for} GROUP BY role)

-- part: most
-- The maximum number of claimed runs of the kind of a run `r`. Parse workers do syncs, and index workers all others.
greatest({at_least}, (SELECT v.workers FROM live v
                      WHERE v.role = CASE WHEN r.kind IN ({parsed}) THEN 'parse' ELSE 'index' END))

-- part: most_of_tenant
-- The maximum number of claimed runs of the kind and the tenant of a run `r`.
greatest({at_least_of_tenant}, {most} / 2)

-- part: of_kind
-- The number of claimed runs of the kind of a run `r`.
(SELECT coalesce(sum(k.runs), 0) FROM held k WHERE k.kind = r.kind)

-- part: waiting
-- Runs that no worker works on and whose job is not paused, with the number of claimed runs of their kind and tenant.
FROM runs r LEFT JOIN held h ON h.kind = r.kind AND h.tenant = r.tenant
WHERE (r.leased_until IS NULL OR r.leased_until <= now())
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = r.id AND j.state = {paused})

-- part: claimable
-- Runs that may be claimed. A run waits while its tenant, or all tenants together, have the maximum number of its kind.
{waiting} AND coalesce(h.runs, 0) < {most_of_tenant} AND {of_kind} < {most}

-- name: due
-- Return the kinds of the runs that may be claimed, of the given ones.
-- plan: generic
WITH {held}, {live} SELECT DISTINCT r.kind {claimable} AND r.kind = ANY(CAST(:kinds AS text[]))

-- name: claim
-- Claim a run of the tenant with the fewest claimed runs, the longest waiting first, if the worker serves all its
-- embeddings.
WITH {held}, {live}
UPDATE runs SET token = nextval('fencing'), leased_by = :worker, leased_until = now() + CAST(:lease AS interval),
  lost_leases = lost_leases + CAST(token IS NOT NULL AS integer)
WHERE id = (SELECT r.id {claimable}
              AND r.kind = ANY(CAST(:kinds AS text[])) AND r.embeddings <@ CAST(:embeddings AS text[])
            ORDER BY coalesce(h.runs, 0), coalesce(r.leased_until, r.created_at), r.id LIMIT 1)
RETURNING id, kind, tenant, collection, token, lost_leases

-- name: extend
-- Extend a lease; return no row if the run was deleted, or another worker has claimed it.
UPDATE runs SET leased_until = now() + CAST(:lease AS interval) WHERE id = :id AND token = :token RETURNING id

-- name: give_way
-- Release a claimed run `m` if a waiting run would be claimed instead of it, and cannot be claimed otherwise. It is not
-- claimed again before a pause is over.
WITH {held}, {live}
UPDATE runs m SET token = NULL, leased_by = NULL, leased_until = now() + CAST(:pause AS interval)
WHERE m.id = :id AND m.token = :token AND EXISTS (
    SELECT 1 {waiting}
      AND r.kind = m.kind AND r.embeddings <@ CAST(:embeddings AS text[])
      AND (coalesce(h.runs, 0) >= {most_of_tenant} OR {of_kind} >= {most})
      AND (r.tenant = m.tenant OR (coalesce(h.runs, 0) < {most_of_tenant} AND coalesce(h.runs, 0) < (
              SELECT o.runs FROM held o WHERE o.kind = m.kind AND o.tenant = m.tenant))))
RETURNING id
