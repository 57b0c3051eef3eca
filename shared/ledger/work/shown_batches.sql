-- part: shown
-- A tenant's batches as the API shows them. Probes belong to no tenant.
SELECT b.id, b.root_id, b.state, b.model, b.lines, b.settled, b.done, b.bytes, b.provider_id, b.job_ids, b.error,
       b.billed_prompt_tokens, b.billed_completion_tokens, b.billed_cached_tokens, b.billed_cache_write_tokens,
       b.created_at, b.submitted_at, b.progressed_at, b.cancelled_at, b.ended_at,
       coalesce(b.ended_at, now()) - b.created_at AS age
FROM batches b WHERE b.tenant = :tenant

-- name: page
-- List the batches of a tenant, the newest first, after a position.
{shown}
  AND (CAST(:state AS text) IS NULL OR b.state = :state)
  AND (CAST(:job AS uuid) IS NULL OR b.job_ids @> ARRAY[CAST(:job AS uuid)])
  AND (CAST(:at AS timestamptz) IS NULL OR (b.created_at, b.id) < (:at, CAST(:after AS uuid)))
ORDER BY b.created_at DESC, b.id DESC LIMIT :limit

-- name: get
{shown} AND b.id = :id

-- name: cancel
-- Cancel a batch that has not ended. The lease of a process that works on it continues.
UPDATE batches b
SET cancelled_at = coalesce(b.cancelled_at, now()), unanswered = :unanswered,
    due_at = CASE WHEN b.leased_by IS NULL THEN now() ELSE b.due_at END
WHERE b.tenant = :tenant AND b.id = :id AND {END_BATCH.applies:b}
RETURNING id
