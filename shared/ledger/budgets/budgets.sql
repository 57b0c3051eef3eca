-- part: budget_columns
-- The columns of a budget, as of now, and the end of its period.
b.id, b.tenant, b.collection, b.job_id, b.period, b.unit, b.set_by, b.most, {budget_spent:b} AS spent, b.held, b.needs,
CASE b.period WHEN 'day' THEN ({budget_period_start:b} + interval '1 day') AT TIME ZONE 'UTC'
     WHEN 'month' THEN ({budget_period_start:b} + interval '1 month') AT TIME ZONE 'UTC' END AS ends_at

-- name: list
-- List the budgets of a tenant: of the whole tenant first.
SELECT {budget_columns} FROM budgets b WHERE b.tenant = :tenant
ORDER BY b.collection NULLS FIRST, b.job_id NULLS FIRST, b.period, b.unit, b.set_by

-- name: set
-- Set a budget; return no row if it exists and the limit is below the spent and reserved amounts.
INSERT INTO budgets AS b (id, tenant, collection, job_id, period, unit, set_by, most, spent, period_start)
VALUES (:id, :tenant, :collection, :job_id, :period, :unit, :set_by, :most, :spent, {first_period_start})
ON CONFLICT (tenant, coalesce(collection, ''), coalesce(job_id, '00000000-0000-0000-0000-000000000000'), period, unit,
             set_by) DO UPDATE
SET most = excluded.most, needs = 1 WHERE excluded.most >= {budget_spent:b} + b.held
RETURNING {budget_columns}

-- name: find
SELECT {budget_columns} FROM budgets b
WHERE b.tenant = :tenant AND b.collection IS NOT DISTINCT FROM CAST(:collection AS text)
  AND b.job_id IS NOT DISTINCT FROM CAST(:job_id AS uuid)
  AND b.period = :period AND b.unit = :unit AND b.set_by = :set_by

-- name: has_job
-- Return whether a tenant has a job with documents.
SELECT EXISTS (SELECT 1 FROM jobs WHERE id = :job_id AND tenant = :tenant AND number IS NOT NULL)

-- name: delete
-- Delete a budget with its reservations.
DELETE FROM budgets WHERE id = :id AND tenant = :tenant AND set_by = :set_by RETURNING id

-- name: count_exhausted
-- Count the budgets and the exhausted ones, by period.
SELECT b.period, count(*) AS budgets, count(*) FILTER (WHERE {budget_is_exhausted:b}) AS exhausted
FROM budgets b GROUP BY b.period

-- name: of_settings
SELECT b.id, b.tenant, b.unit, b.most FROM budgets b WHERE b.set_by = 'settings'

-- name: change_limits
-- Set the limits of budgets of the settings.
UPDATE budgets b SET most = v.most, needs = 1
FROM unnest(CAST(:ids AS uuid[]), CAST(:limits AS bigint[])) AS v(id, most)
WHERE b.id = v.id AND b.set_by = 'settings'

-- name: delete_of_settings
-- Delete budgets that the settings do not contain any more.
DELETE FROM budgets WHERE id = ANY(CAST(:ids AS uuid[])) AND set_by = 'settings'

-- name: try_again
-- Allow workers one claim of chunks of exhausted budgets: a smaller chunk may fit, or a price may be known now.
UPDATE budgets b SET needs = 1 WHERE b.needs > 1 AND {budget_has_no_room:b}

-- name: book_lost
-- Book the reservations of leases that have expired: the provider may have charged for these calls. The rows are kept,
-- because a late bill corrects them. A line of a batch keeps its reservation until it is settled, even if its lease has
-- ended: its bill may be a day late.
-- plan: generic
WITH lost AS MATERIALIZED (
    SELECT h.token, h.budget_id, h.held FROM budget_holds h
    WHERE h.held > 0
      AND NOT EXISTS (SELECT 1 FROM chunks_open c
                      WHERE c.id = h.chunk_id AND c.version = h.version AND c.lease_token = h.token
                        AND c.leased_by IS NOT NULL AND c.due_at > now() OFFSET 0)
      AND NOT EXISTS (SELECT 1 FROM abandoned_calls a WHERE a.lease_token = h.token AND a.due_at > now() OFFSET 0)
      AND NOT EXISTS (SELECT 1 FROM batch_lines l WHERE l.token = h.token OFFSET 0)
    ORDER BY h.token, h.budget_id LIMIT :limit FOR UPDATE SKIP LOCKED
), booked AS (
    UPDATE budget_holds h SET spent = h.spent + l.held, held = 0, lost_at = now()
    FROM lost l WHERE h.token = l.token AND h.budget_id = l.budget_id
), locked AS MATERIALIZED (
    SELECT b.id FROM budgets b WHERE b.id IN (SELECT budget_id FROM lost) ORDER BY b.id FOR NO KEY UPDATE
), counted AS (
    UPDATE budgets b
    SET held = b.held - s.held, spent = {budget_spent:b} + s.held, period_start = {budget_period_start:b}
    FROM (SELECT k.id, sum(l.held) AS held FROM lost l JOIN locked k ON k.id = l.budget_id GROUP BY k.id) s
    WHERE b.id = s.id
)
SELECT count(*) AS lost FROM lost

-- name: forget
-- Delete reservations that were booked long ago.
DELETE FROM budget_holds WHERE lost_at < now() - CAST(:age AS interval)
