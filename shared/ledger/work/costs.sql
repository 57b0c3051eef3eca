-- name: insert
-- Record the costs of attempts until now. An attempt with several calls is recorded repeatedly, and so is a repeated
-- settlement: the row has the latest sum. Costs of a tenant that was erased since the claim are not recorded.
INSERT INTO spent AS s (token, tenant, collection_id, document_id, kind, model, prompt_tokens, completion_tokens,
                        calls)
SELECT v.token, v.tenant, v.collection_id, v.document_id, v.kind, v.model, v.prompt_tokens, v.completion_tokens,
       v.calls
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
     AS v(token bigint, tenant text, collection_id uuid, document_id uuid, kind text, model text,
          prompt_tokens int, completion_tokens int, calls int)
WHERE EXISTS (SELECT 1 FROM collections l WHERE l.id = v.collection_id OFFSET 0)
   OR NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = v.tenant AND e.last_token > v.token
                                             AND e.collection IS NULL AND e.document_id IS NULL OFFSET 0)
ON CONFLICT (token) DO UPDATE
SET prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens,
    calls = excluded.calls, at = now()
WHERE excluded.calls > s.calls

-- name: add_up
-- Add changes up by day: 19,000 a second.
WITH deleted AS (
    DELETE FROM spent_changes WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM spent_changes LIMIT :limit FOR UPDATE SKIP LOCKED))
    RETURNING *
), added AS (
    INSERT INTO spent_by_day AS d (tenant, collection_id, kind, model, day, prompt_tokens, completion_tokens, calls)
    SELECT tenant, collection_id, kind, model, day, sum(prompt_tokens), sum(completion_tokens), sum(calls)
    FROM deleted GROUP BY tenant, collection_id, kind, model, day ORDER BY tenant, collection_id, kind, model, day
    ON CONFLICT (tenant, collection_id, kind, model, day) DO UPDATE
    SET prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
        completion_tokens = d.completion_tokens + excluded.completion_tokens, calls = d.calls + excluded.calls
)
SELECT count(*) FROM deleted

-- name: delete_old_attempts
-- Delete attempts beyond an age, among those with the smallest tokens: older attempts have smaller tokens, except long
-- ones. Their costs are added up already.
WITH deleted AS (
    DELETE FROM spent s USING (SELECT token FROM spent ORDER BY token LIMIT :limit) o
    WHERE s.token = o.token AND s.at <= now() - CAST(:age AS interval) RETURNING 1
)
SELECT count(*) FROM deleted

-- name: sums
-- Sum up a tenant's costs.
SELECT l.name AS collection, s.kind, s.model, sum(s.prompt_tokens)::bigint AS prompt_tokens,
       sum(s.completion_tokens)::bigint AS completion_tokens, sum(s.calls)::bigint AS calls
FROM (SELECT collection_id, kind, model, prompt_tokens, completion_tokens, calls FROM spent_changes
      WHERE tenant = :tenant
      UNION ALL
      SELECT collection_id, kind, model, prompt_tokens, completion_tokens, calls FROM spent_by_day
      WHERE tenant = :tenant) s
LEFT JOIN collections l ON l.id = s.collection_id
GROUP BY l.name, s.kind, s.model
ORDER BY l.name, s.kind DESC, s.model

-- name: days
-- Sum up a tenant's costs of the last days, by day in UTC.
SELECT s.day, l.name AS collection, s.kind, s.model, sum(s.prompt_tokens)::bigint AS prompt_tokens,
       sum(s.completion_tokens)::bigint AS completion_tokens, sum(s.calls)::bigint AS calls
FROM (SELECT collection_id, kind, model, day, prompt_tokens, completion_tokens, calls FROM spent_changes
      WHERE tenant = :tenant
      UNION ALL
      SELECT collection_id, kind, model, day, prompt_tokens, completion_tokens, calls FROM spent_by_day
      WHERE tenant = :tenant) s
LEFT JOIN collections l ON l.id = s.collection_id
WHERE s.day > (now() AT TIME ZONE 'UTC')::date - CAST(:days AS int)
GROUP BY s.day, l.name, s.kind, s.model
ORDER BY s.day, l.name, s.kind DESC, s.model

-- name: today
-- Sum up today's costs, of all tenants or of one.
SELECT tenant, kind, model, sum(prompt_tokens)::bigint AS prompt_tokens,
       sum(completion_tokens)::bigint AS completion_tokens
FROM (SELECT tenant, kind, model, day, prompt_tokens, completion_tokens FROM spent_changes
      UNION ALL
      SELECT tenant, kind, model, day, prompt_tokens, completion_tokens FROM spent_by_day) s
WHERE day = (now() AT TIME ZONE 'UTC')::date AND (CAST(:tenant AS text) IS NULL OR tenant = :tenant)
GROUP BY tenant, kind, model
