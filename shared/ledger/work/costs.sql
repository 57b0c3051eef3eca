-- name: add_up
-- Add changes up by day, 19,000 a second; return their sums. Costs without a job have the nil UUID there, because a key
-- has no nulls.
WITH deleted AS (
    DELETE FROM spent_changes WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM spent_changes LIMIT :limit FOR UPDATE SKIP LOCKED))
    RETURNING *
), keyed AS (
    SELECT tenant, collection_id, kind, model, day, tier,
           coalesce(job_id, '00000000-0000-0000-0000-000000000000') AS job_id, prompt_tokens, completion_tokens,
           cached_tokens, cache_write_tokens, calls
    FROM deleted
), added AS (
    INSERT INTO spent_by_day AS d (tenant, collection_id, kind, model, day, tier, job_id, prompt_tokens,
                                   completion_tokens, cached_tokens, cache_write_tokens, calls)
    SELECT tenant, collection_id, kind, model, day, tier, job_id, sum(prompt_tokens), sum(completion_tokens),
           sum(cached_tokens), sum(cache_write_tokens), sum(calls)
    FROM keyed
    GROUP BY tenant, collection_id, kind, model, day, tier, job_id
    ORDER BY tenant, collection_id, kind, model, day, tier, job_id
    ON CONFLICT (tenant, collection_id, kind, model, day, tier, job_id) DO UPDATE
    SET prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
        completion_tokens = d.completion_tokens + excluded.completion_tokens,
        cached_tokens = d.cached_tokens + excluded.cached_tokens,
        cache_write_tokens = d.cache_write_tokens + excluded.cache_write_tokens, calls = d.calls + excluded.calls
)
SELECT tenant, collection_id, kind, model, day, sum(prompt_tokens)::bigint AS prompt_tokens,
       sum(completion_tokens)::bigint AS completion_tokens, count(*) AS changes,
       EXISTS (SELECT 1 FROM budgets) AS has_budgets
FROM deleted GROUP BY tenant, collection_id, kind, model, day

-- name: delete_old_attempts
-- Delete attempts beyond an age, among those with the smallest tokens: older attempts have smaller tokens, except long
-- ones. Their costs are added up already.
WITH deleted AS (
    DELETE FROM spent s USING (SELECT token FROM spent ORDER BY token LIMIT :limit) o
    WHERE s.token = o.token AND s.at <= now() - CAST(:age AS interval) RETURNING 1
)
SELECT count(*) FROM deleted

-- part: costs
-- The costs of all tenants by day: the changes that are not added up yet, and the sums.
(SELECT tenant, collection_id, kind, model, day, tier, job_id, prompt_tokens, completion_tokens, cached_tokens,
        cache_write_tokens, calls
 FROM spent_changes
 UNION ALL
 SELECT tenant, collection_id, kind, model, day, tier, job_id, prompt_tokens, completion_tokens, cached_tokens,
        cache_write_tokens, calls
 FROM spent_by_day)

-- part: totals
-- The sums of some costs `s`.
sum(s.prompt_tokens)::bigint AS prompt_tokens, sum(s.completion_tokens)::bigint AS completion_tokens,
       sum(s.cached_tokens)::bigint AS cached_tokens, sum(s.cache_write_tokens)::bigint AS cache_write_tokens,
       sum(s.calls)::bigint AS calls

-- part: not_empty
-- Sums of some costs `s` that a later record of their attempts did not move to another tier, or to estimated costs.
(sum(s.prompt_tokens), sum(s.completion_tokens), sum(s.calls)) <> (0, 0, 0)

-- name: sums
SELECT l.name AS collection, s.kind, s.model, s.tier, {totals}
FROM {costs} s LEFT JOIN collections l ON l.id = s.collection_id
WHERE s.tenant = :tenant
GROUP BY l.name, s.kind, s.model, s.tier HAVING {not_empty}
ORDER BY l.name, s.kind DESC, s.model, s.tier DESC

-- name: of_jobs
-- Sum up the costs of some of a tenant's jobs.
SELECT s.job_id, s.kind, s.model, s.tier, {totals}
FROM {costs} s WHERE s.tenant = :tenant AND s.job_id = ANY(CAST(:jobs AS uuid[]))
GROUP BY s.job_id, s.kind, s.model, s.tier HAVING {not_empty}

-- name: of_builds
-- Sum up the costs of some builds of a tenant.
SELECT s.collection_id, s.kind, s.model, s.tier, {totals}
FROM {costs} s WHERE s.tenant = :tenant AND s.collection_id = ANY(CAST(:builds AS uuid[]))
GROUP BY s.collection_id, s.kind, s.model, s.tier HAVING {not_empty}

-- name: days
-- Sum up a tenant's costs of the last days, by day in UTC.
SELECT s.day, l.name AS collection, s.kind, s.model, s.tier, {totals}
FROM {costs} s LEFT JOIN collections l ON l.id = s.collection_id
WHERE s.tenant = :tenant AND s.day > (now() AT TIME ZONE 'UTC')::date - CAST(:days AS int)
GROUP BY s.day, l.name, s.kind, s.model, s.tier HAVING {not_empty}
ORDER BY s.day, l.name, s.kind DESC, s.model, s.tier DESC
