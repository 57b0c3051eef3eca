-- part: open_rows
-- The open rows of an index by tenant: due rows, counted up to a limit in each lane, and leased rows. Rows that cannot be
-- claimed now are left out among the oldest ones.
SELECT * FROM (
    WITH RECURSIVE lanes(tenant, lane) AS (
        (SELECT w.tenant, w.lane FROM {{argument}_table} w WHERE {{argument}_is_open}
         ORDER BY w.tenant, w.lane LIMIT 1)
        UNION ALL
        SELECT n.tenant, n.lane FROM lanes p CROSS JOIN LATERAL (
            SELECT w.tenant, w.lane FROM {{argument}_table} w
            WHERE {{argument}_is_open} AND (w.tenant, w.lane) > (p.tenant, p.lane)
            ORDER BY w.tenant, w.lane LIMIT 1) n
    )
    SELECT p.tenant, d.due, 0::bigint AS leased
    FROM lanes p {{argument}_models} CROSS JOIN LATERAL (
        SELECT count(*) AS due FROM (
            SELECT 1 FROM (
                SELECT w.* FROM {{argument}_table} w
                WHERE {{argument}_is_open} AND w.tenant = p.tenant AND w.lane = p.lane AND {{argument}_of_model}
                  AND w.due_at <= now()
                ORDER BY w.due_at LIMIT {{argument}_examined}) w
            WHERE {{argument}_has_room} LIMIT :most) counted) d
    WHERE {{argument}_has_due} AND NOT {is_paused:p}) due
UNION ALL
SELECT w.tenant, 0, count(*) FROM {{argument}_table} w
WHERE {{argument}_is_open} AND w.leased_by IS NOT NULL AND w.due_at > now() AND {{argument}_has_leased}
GROUP BY w.tenant

-- part: sums
-- The sums of a stage.
SELECT tenant, sum(due)::bigint AS due, sum(leased)::bigint AS leased

-- name: parse
-- Count the documents to parse by tenant.
{sums} FROM ({open_rows:documents}) r GROUP BY tenant HAVING sum(due) + sum(leased) > 0

-- name: read
-- Count the pages to read by tenant.
{sums} FROM ({open_rows:pages}) r GROUP BY tenant HAVING sum(due) + sum(leased) > 0

-- part: calls_in_budgets
-- The number of calls for which the budgets of a tenant have room; null without such budgets.
(SELECT min({budget_calls:b}) FROM budgets b WHERE b.tenant = r.tenant AND b.collection IS NULL AND b.job_id IS NULL)

-- name: generate
-- Count the chunks to generate by tenant; due ones only as far as the budgets have room.
SELECT tenant, least(sum(due), {calls_in_budgets})::bigint AS due, sum(leased)::bigint AS leased FROM ({open_rows:chunks}) r GROUP BY tenant HAVING sum(due) + sum(leased) > 0

-- name: index
-- Count the chunks to index by tenant.
{sums} FROM ({open_rows:texts} UNION ALL {open_rows:questions}) r
GROUP BY tenant HAVING sum(due) + sum(leased) > 0

-- name: finished
-- Count the rows that parse, read and index workers have finished recently. A chunk is indexed twice: its text, then its
-- questions.
SELECT coalesce(sum(change) FILTER (WHERE counted = 'documents'), 0)::bigint AS parse,
       coalesce(sum(change) FILTER (WHERE counted = 'pages'), 0)::bigint AS read,
       coalesce(sum(change) FILTER (WHERE counted = 'chunks'), 0)::bigint AS index
FROM tally_changes
WHERE at > now() - CAST(:window AS interval) AND change > 0
  AND (counted = 'documents'
           AND state IN ({DocumentState.READING}, {DocumentState.INDEXING}, {DocumentState.FAILED})
       OR counted = 'pages' AND state IN ({PageState.READ}, {PageState.DEAD})
       OR counted = 'chunks' AND state IN ({ChunkState.GENERATING}, {ChunkState.INDEXED}))

-- name: record
-- Store the wanted numbers of workers.
UPDATE deployment SET wanted = CAST(:wanted AS jsonb)

-- name: wanted
-- Return the wanted numbers of workers.
SELECT wanted FROM deployment
