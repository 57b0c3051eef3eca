-- name: insert
-- Record the costs of attempts until now. An attempt with several calls is recorded repeatedly, and so is a repeated
-- settlement: the row has the latest sum. Costs of a tenant that was erased since the claim are not recorded.
-- plan: generic
INSERT INTO spent AS s (token, tenant, collection_id, document_id, kind, model, tier, job_id, prompt_tokens,
                        completion_tokens, cached_tokens, cache_write_tokens, calls)
SELECT v.token, v.tenant, v.collection_id, v.document_id, v.kind, v.model, v.tier, v.job_id, v.prompt_tokens,
       v.completion_tokens, v.cached_tokens, v.cache_write_tokens, v.calls
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
     AS v(token bigint, tenant text, collection_id uuid, document_id uuid, kind text, model text, tier text,
          job_id uuid, prompt_tokens int, completion_tokens int, cached_tokens int, cache_write_tokens int, calls int)
WHERE EXISTS (SELECT 1 FROM collections l WHERE l.id = v.collection_id OFFSET 0)
   OR NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = v.tenant AND e.last_token > v.token
                                             AND e.scope = 'tenant' OFFSET 0)
ON CONFLICT (token) DO UPDATE
SET model = excluded.model, tier = excluded.tier, prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens,
    cached_tokens = excluded.cached_tokens, cache_write_tokens = excluded.cache_write_tokens,
    calls = excluded.calls, at = now()
WHERE excluded.calls > s.calls
