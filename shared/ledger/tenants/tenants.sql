-- name: page
-- List the tenants in order of name: each has a collection.
SELECT DISTINCT tenant FROM collections WHERE tenant > :after ORDER BY tenant LIMIT :limit

-- name: count
SELECT count(DISTINCT tenant) AS tenants FROM collections

-- name: counts
-- Count the documents and chunks of some tenants by state; of all tenants together if none is named.
SELECT CASE WHEN CAST(:tenants AS text[]) IS NULL THEN '' ELSE tenant END AS of_tenant, counted, state,
       sum(rows)::bigint AS rows
FROM (SELECT tenant, counted, state, rows FROM tallies
      UNION ALL SELECT tenant, counted, state, change FROM tally_changes) t
WHERE counted NOT IN ('jobs', 'readers', 'lanes') AND (CAST(:tenants AS text[]) IS NULL OR tenant = ANY(:tenants))
GROUP BY of_tenant, counted, state HAVING sum(rows) <> 0
