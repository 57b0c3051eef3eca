-- part: lock_budgets
-- Lock budgets in the order of their ids. Foreign keys of reservations do not wait for this lock.
ORDER BY b.id FOR NO KEY UPDATE

-- name: hold
-- Reserve the highest cost of calls in every budget that covers them, as many calls as fit, in the order of their
-- positions; return the tokens of the others. Nothing is reserved if a budget of the settings is missing: its tenant is
-- returned. A row of the settings counts only if they still have that budget.
-- plan: generic
WITH calls AS MATERIALIZED (
    SELECT v.*, l.name AS collection, d.job_id
    FROM jsonb_to_recordset(CAST(:calls AS jsonb))
         AS v(position int, token bigint, chunk_id uuid, version int, tenant text, document_id uuid, tokens bigint,
              money bigint)
    JOIN documents d ON d.id = v.document_id JOIN collections l ON l.id = d.collection_id
), configured AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(CAST(:configured AS jsonb)) AS v(tenant text, unit text)
), locked AS MATERIALIZED (
    SELECT b.id, b.tenant, b.collection, b.job_id, b.unit, b.set_by, {budget_room:b} AS room FROM budgets b
    WHERE b.tenant IN (SELECT tenant FROM calls)
      AND (b.collection IS NULL OR b.collection IN (SELECT collection FROM calls))
      AND (b.job_id IS NULL OR b.job_id IN (SELECT job_id FROM calls))
      AND (b.set_by <> 'settings' OR (b.tenant, b.unit) IN (SELECT tenant, unit FROM configured))
    {lock_budgets}
), missing AS MATERIALIZED (
    SELECT DISTINCT tenant FROM configured c
    WHERE NOT EXISTS (SELECT 1 FROM locked b
                      WHERE b.set_by = 'settings' AND b.tenant = c.tenant AND b.unit = c.unit)
), wanted AS MATERIALIZED (
    SELECT c.token, c.chunk_id, c.version, b.id AS budget_id, a.amount, b.room,
           sum(a.amount) OVER (PARTITION BY b.id ORDER BY c.position) AS amount_until
    FROM calls c
    JOIN locked b ON b.tenant = c.tenant AND (b.collection IS NULL OR b.collection = c.collection)
                 AND (b.job_id IS NULL OR b.job_id = c.job_id)
    CROSS JOIN LATERAL (SELECT CASE b.unit WHEN 'tokens' THEN c.tokens ELSE coalesce(c.money, {no_price}) END) a(amount)
    WHERE NOT EXISTS (SELECT 1 FROM missing)
), refused AS MATERIALIZED (
    SELECT DISTINCT token FROM wanted WHERE amount_until > room
), held AS (
    INSERT INTO budget_holds (token, budget_id, chunk_id, version, held)
    SELECT w.token, w.budget_id, w.chunk_id, w.version, w.amount FROM wanted w
    WHERE NOT EXISTS (SELECT 1 FROM refused r WHERE r.token = w.token)
), counted AS (
    UPDATE budgets b
    SET held = b.held + s.held, needs = s.needs, spent = {budget_spent:b}, period_start = {budget_period_start:b}
    FROM (SELECT w.budget_id, coalesce(sum(w.amount) FILTER (WHERE r.token IS NULL), 0) AS held,
                 greatest(1, coalesce(min(w.amount) FILTER (WHERE w.amount_until > w.room), avg(w.amount)))::bigint
                     AS needs
          FROM wanted w LEFT JOIN refused r ON r.token = w.token GROUP BY w.budget_id) s
    WHERE b.id = s.budget_id
)
SELECT token, CAST(NULL AS text) AS tenant FROM refused
UNION ALL
SELECT NULL, tenant FROM missing

-- part: bill
-- The amount of a bill `v` in the unit of a budget; null if its price is unknown.
CASE l.unit WHEN 'tokens' THEN v.tokens ELSE v.money END

-- name: renew
-- Book the bill of an attempt until now, and reserve its next call if that fits in every budget; return whether it
-- does.
-- plan: generic
WITH bill AS (
    SELECT CAST(:token AS bigint) AS token, CAST(:tokens AS bigint) AS tokens, CAST(:money AS bigint) AS money,
           CAST(:next_tokens AS bigint) AS next_tokens, CAST(:next_money AS bigint) AS next_money
), holds AS MATERIALIZED (
    SELECT h.budget_id, h.held, h.spent, h.lost_at FROM budget_holds h
    WHERE h.token = :token ORDER BY h.budget_id FOR UPDATE
), locked AS MATERIALIZED (
    SELECT b.id, b.unit, {budget_room:b} AS room, {budget_period_start:b} AS period_start FROM budgets b
    WHERE b.id IN (SELECT budget_id FROM holds) {lock_budgets}
), changes AS MATERIALIZED (
    SELECT l.id, h.held, h.spent, a.billed, l.room + h.held - (a.billed - h.spent) AS room,
           CASE l.unit WHEN 'tokens' THEN v.next_tokens ELSE coalesce(v.next_money, {no_price}) END AS following,
           {is_of_period} AS is_of_period
    FROM bill v CROSS JOIN holds h JOIN locked l ON l.id = h.budget_id
    CROSS JOIN LATERAL (SELECT coalesce({bill}, h.spent + h.held)) a(billed)
), fits AS MATERIALIZED (
    SELECT coalesce(bool_and(following <= room), true) AS fits FROM changes
), renewed AS (
    UPDATE budget_holds h SET spent = c.billed, held = CASE WHEN f.fits THEN c.following ELSE 0 END
    FROM changes c, fits f WHERE h.token = :token AND h.budget_id = c.id
), counted AS (
    UPDATE budgets b
    SET held = b.held - c.held + CASE WHEN f.fits THEN c.following ELSE 0 END,
        spent = {budget_spent:b} + CASE WHEN c.is_of_period THEN c.billed - c.spent ELSE 0 END,
        period_start = {budget_period_start:b},
        needs = CASE WHEN f.fits THEN b.needs ELSE greatest(b.needs, c.following) END
    FROM changes c, fits f WHERE b.id = c.id
)
SELECT fits FROM fits

-- part: is_of_period
-- A correction of an amount that was booked without a bill belongs to the period in which it was booked.
(h.lost_at IS NULL OR (h.lost_at AT TIME ZONE 'UTC')::date >= l.period_start)

-- name: settle
-- Replace the reservations of ended leases by their bills. The whole reservation is booked if a bill is incomplete or
-- its price is unknown.
-- plan: generic
WITH bills AS (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS v(token bigint, tokens bigint, money bigint, incomplete boolean)
), holds AS MATERIALIZED (
    SELECT h.token, h.budget_id, h.held, h.spent, h.lost_at FROM budget_holds h
    WHERE h.token IN (SELECT token FROM bills) ORDER BY h.token, h.budget_id FOR UPDATE
), deleted AS (
    DELETE FROM budget_holds d USING holds h WHERE d.token = h.token AND d.budget_id = h.budget_id
), locked AS MATERIALIZED (
    SELECT b.id, b.unit, {budget_period_start:b} AS period_start FROM budgets b
    WHERE b.id IN (SELECT budget_id FROM holds) {lock_budgets}
)
UPDATE budgets b
SET held = b.held - s.held, spent = {budget_spent:b} + s.spent, period_start = {budget_period_start:b}
FROM (SELECT l.id, sum(h.held) AS held, coalesce(sum(a.billed - h.spent) FILTER (WHERE {is_of_period}), 0) AS spent
      FROM bills v JOIN holds h ON h.token = v.token JOIN locked l ON l.id = h.budget_id
      CROSS JOIN LATERAL (
          SELECT CASE WHEN v.incomplete OR {bill} IS NULL THEN greatest(h.spent, {bill}) + h.held
                      ELSE {bill} END) a(billed)
      GROUP BY l.id) s
WHERE b.id = s.id

-- name: insert
-- Insert a budget, unless another process has inserted it.
INSERT INTO budgets (id, tenant, collection, job_id, period, unit, set_by, most, spent, period_start)
VALUES (:id, :tenant, :collection, :job_id, :period, :unit, :set_by, :most, :spent, {first_period_start})
ON CONFLICT DO NOTHING

-- name: spent_before
-- Sum up the costs of a tenant or a collection in the current period. Costs of embeddings that are not added up yet are
-- booked when they are.
SELECT s.kind, s.model, s.tier, sum(s.prompt_tokens)::bigint AS prompt_tokens,
       sum(s.completion_tokens)::bigint AS completion_tokens, sum(s.cached_tokens)::bigint AS cached_tokens,
       sum(s.cache_write_tokens)::bigint AS cache_write_tokens
FROM (SELECT {cost_columns} FROM spent_changes WHERE tenant = :tenant AND kind = 'generate'
      UNION ALL
      SELECT {cost_columns} FROM spent_by_day WHERE tenant = :tenant) s
WHERE s.day >= {first_period_start}
  AND (CAST(:collection AS text) IS NULL
       OR s.collection_id IN (SELECT id FROM collections WHERE tenant = :tenant AND name = :collection))
GROUP BY s.kind, s.model, s.tier

-- part: cost_columns
collection_id, kind, model, tier, day, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens

-- name: book
-- Book costs that reserved nothing in the money budgets that cover them; their jobs are unknown.
WITH costs AS MATERIALIZED (
    SELECT v.*, l.name AS collection
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(tenant text, collection_id uuid, day date, money bigint)
    LEFT JOIN collections l ON l.id = v.collection_id
), locked AS MATERIALIZED (
    SELECT b.id, b.tenant, b.collection, {budget_period_start:b} AS period_start FROM budgets b
    WHERE b.unit = 'money' AND b.job_id IS NULL AND b.tenant IN (SELECT tenant FROM costs) {lock_budgets}
)
UPDATE budgets b SET spent = {budget_spent:b} + s.money, period_start = {budget_period_start:b}
FROM (SELECT l.id, sum(c.money) AS money FROM costs c
      JOIN locked l ON l.tenant = c.tenant AND (l.collection IS NULL OR l.collection = c.collection)
                   AND c.day >= l.period_start
      GROUP BY l.id) s
WHERE b.id = s.id
