-- The statements of batches. A batch is claimed like any row of work; each statement that changes a claimed batch
-- compares the fencing token. The lines of a batch hold ordinary leases on their chunks.

-- part: open_lanes
-- The lanes in which tenants have chunks to generate, each found by one index lookup.
open_lanes(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM chunks_open w WHERE {GENERATE_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM chunks_open w
        WHERE {GENERATE_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
)

-- part: waiting_tenants
-- The tenants with due chunks in a batch lane that no batch is collecting, unless their job is paused or a budget has
-- no room.
SELECT DISTINCT p.tenant FROM open_lanes p
WHERE {is_batch_lane:p} AND NOT {is_paused:p} AND {lane_has_room:p}
  AND EXISTS (SELECT 1 FROM chunks_open w
              WHERE {GENERATE_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
                AND {part_has_room:w})
  AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.tenant = p.tenant AND b.state = {BatchState.PLANNING})

-- name: due
-- Return whether a batch is due, or chunks wait for one.
-- plan: generic
WITH RECURSIVE {open_lanes}
SELECT EXISTS (SELECT 1 FROM batches b WHERE {OPEN_BATCHES:b} AND b.due_at <= now())
    OR EXISTS ({waiting_tenants}) AS due

-- name: open_among
SELECT id FROM batches WHERE id = ANY(CAST(:ids AS uuid[])) AND {OPEN_BATCHES}

-- name: start
-- Start a batch for each tenant with waiting chunks, unless the provider has recently refused a batch as too large.
WITH RECURSIVE {open_lanes}
INSERT INTO batches (id, tenant, provider, model, state)
SELECT gen_random_uuid(), w.tenant, :provider, :model, {PLAN_BATCH.target}
FROM ({waiting_tenants}) w
WHERE NOT EXISTS (SELECT 1 FROM batches b WHERE b.provider = :provider AND b.token_limit IS NOT NULL
                                            AND b.ended_at > now() - CAST(:pause AS interval))
ON CONFLICT DO NOTHING

-- name: start_probe
-- Start a probe of a provider, unless one is running, has succeeded, or has failed recently.
INSERT INTO batches (id, provider, model, state, lines)
SELECT gen_random_uuid(), :provider, :model, {PROBE.target}, :lines
WHERE NOT EXISTS (
    SELECT 1 FROM batches b
    WHERE b.tenant IS NULL AND b.provider = :provider AND b.model = :model
      AND (b.state <> {BatchState.FAILED} OR b.ended_at > now() - CAST(:pause AS interval)))
ON CONFLICT DO NOTHING

-- name: probe
-- Read the newest probe of a provider.
SELECT state, error FROM batches
WHERE tenant IS NULL AND provider = :provider AND model = :model
ORDER BY created_at DESC LIMIT 1

-- name: claim
-- Claim the batch that has been due longest. Batches of a provider that is not configured any more are claimed if no
-- call of the provider is needed, if they are cancelled, because an erasure waits for them, and after the leases of
-- their lines.
UPDATE batches b
SET due_at = now() + CAST(:lease AS interval), lease_token = nextval('fencing'), leased_by = :worker
WHERE b.id = (SELECT b.id FROM batches b
              WHERE {OPEN_BATCHES:b} AND b.due_at <= now()
                AND (b.provider = :provider
                     OR b.state IN ({BatchState.PLANNING}, {BatchState.PLANNED}, {BatchState.COLLECTING})
                        AND b.output_file_id IS NULL AND b.error_file_id IS NULL
                     OR b.cancelled_at IS NOT NULL
                     OR b.created_at <= now() - CAST(:lines_lease AS interval))
              ORDER BY b.due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING b.id, b.tenant, b.model, b.state, b.lines, b.bytes, b.created_at, b.file_id, b.provider_id,
          b.output_file_id, b.error_file_id, b.output_bytes, b.error_bytes, b.settled, b.done, b.unanswered, b.error,
          now() - b.tried_at AS since_tried, now() - b.added_at AS since_added,
          now() - b.submitted_at AS since_submitted, now() - b.progressed_at AS since_progress,
          b.cancelled_at IS NOT NULL AS cancelled, b.provider <> :provider AS foreign, b.lease_token AS token

-- part: held
-- The claimed batch, if the claim holds.
WHERE id = :id AND lease_token = :token AND leased_by IS NOT NULL

-- part: released
-- The columns that end a claim.
leased_by = NULL, due_at = now() + CAST(:after AS interval)

-- name: extend
UPDATE batches SET due_at = now() + CAST(:lease AS interval) {held} RETURNING id

-- name: postpone
-- End the claim of a batch without a change.
UPDATE batches SET {released} {held} RETURNING id

-- name: lock_planning
SELECT id FROM batches {held} AND {SEAL_BATCH.applies} FOR UPDATE

-- name: insert_lines
-- Add claimed chunks to a batch.
WITH added AS (
    INSERT INTO batch_lines (token, batch_id, chunk_id, version, document_id, collection_id, job_id, content_key,
                             questions, context)
    SELECT v.token, :id, v.id, v.version, v.document_id, v.collection_id,
           (SELECT d.job_id FROM documents d WHERE d.id = v.document_id), v.content_key, v.questions, v.context
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
         AS v(id uuid, version int, token bigint, document_id uuid, collection_id uuid, content_key bytea,
              questions int, context boolean)
    RETURNING job_id
)
UPDATE batches
SET lines = lines + (SELECT count(*) FROM added), bytes = bytes + :bytes, added_at = now(),
    job_ids = ARRAY(SELECT unnest(job_ids) UNION SELECT a.job_id FROM added a WHERE a.job_id IS NOT NULL)
{held}

-- name: enqueued
-- Sum up the sizes of the files that the provider has, and read the last limit that it named.
SELECT coalesce((SELECT sum(b.bytes) FROM batches b
                 WHERE {OPEN_BATCHES:b} AND b.provider = :provider
                   AND b.state IN ({BatchState.PLANNED}, {BatchState.CREATING}, {BatchState.RUNNING})), 0)::bigint AS bytes,
       (SELECT b.token_limit FROM batches b
        WHERE b.provider = :provider AND b.token_limit IS NOT NULL
          AND b.ended_at > now() - CAST(:pause AS interval)
        ORDER BY b.ended_at DESC LIMIT 1) AS token_limit

-- name: seal
UPDATE batches SET {SEAL_BATCH.sets}, {released} {held} AND {SEAL_BATCH.applies} RETURNING id

-- name: contents
-- Read the contents of some lines, in the order of the file; null if a line needs no call any more.
SELECT l.token, l.content_key, k.options,
       (SELECT t.content FROM chunk_contents t
        WHERE t.chunk_id = c.id AND t.version = c.version AND k.id IS NOT NULL) AS content
FROM batch_lines l
LEFT JOIN chunks c ON c.id = l.chunk_id AND c.version = l.version AND c.lease_token = l.token
                  AND c.leased_by IS NOT NULL AND {TO_GENERATE:c}
LEFT JOIN collections k ON k.id = l.collection_id
WHERE l.batch_id = :id AND l.token > :after ORDER BY l.token LIMIT :limit

-- name: contents_of
-- Read the contents of these lines, which another version of their documents may have, too.
SELECT l.token, l.content_key, k.options,
       (SELECT t.content FROM chunk_contents t WHERE t.content_key = l.content_key LIMIT 1) AS content
FROM batch_lines l JOIN collections k ON k.id = l.collection_id
WHERE l.token = ANY(CAST(:tokens AS bigint[]))

-- name: drop_lines
-- Remove lines that need no call, and end their leases.
WITH dropped AS (
    DELETE FROM batch_lines WHERE batch_id = :id AND token = ANY(CAST(:tokens AS bigint[]))
    RETURNING token, chunk_id, version
), released AS (
    UPDATE chunks_open t SET due_at = now(), leased_by = NULL
    FROM dropped v
    WHERE t.id = v.chunk_id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
)
UPDATE batches SET lines = lines - (SELECT count(*)::int FROM dropped) {held} RETURNING id

-- name: uploaded
-- Record the input file.
UPDATE batches SET {UPLOAD_BATCH.sets}, file_id = :file_id, {released} {held} AND {UPLOAD_BATCH.applies} RETURNING id

-- name: try_create
-- Record that the batch may exist from now on.
UPDATE batches SET tried_at = now() {held} AND {START_BATCH.applies} RETURNING id

-- name: upload_again
-- Forget an input file that was deleted, from which no batch can be made any more.
UPDATE batches SET {UPLOAD_AGAIN.sets}, file_id = NULL, tried_at = NULL, {released}
{held} AND {UPLOAD_AGAIN.applies} RETURNING id

-- name: started
-- Record the provider's batch.
UPDATE batches
SET {START_BATCH.sets}, provider_id = :provider_id, submitted_at = now(), progressed_at = now(), {released}
{held} AND {START_BATCH.applies} RETURNING id

-- name: polled
-- Record the number of requests with a result.
UPDATE batches
SET progressed_at = CASE WHEN done = :done THEN progressed_at ELSE now() END, done = :done, {released}
{held} RETURNING id

-- name: ended
-- Record the end of a batch; its lines are settled next.
UPDATE batches
SET {END_BATCH.sets}, output_file_id = :output_file_id, error_file_id = :error_file_id, unanswered = :unanswered,
    done = coalesce(:done, done), error = :error, token_limit = :token_limit, progressed_at = now(), {released}
{held} AND {END_BATCH.applies} RETURNING id

-- name: failures
-- Count the batches with the root of a batch that have failed.
SELECT count(*) AS failures FROM batches b JOIN batches f ON coalesce(f.root_id, f.id) = coalesce(b.root_id, b.id)
WHERE b.id = :id AND f.error IS NOT NULL

-- name: renew_leases
-- Start the leases of some lines again, and return the token of the last one; null if there are none.
WITH next AS MATERIALIZED (
    SELECT token, chunk_id, version FROM batch_lines WHERE batch_id = :id AND token > :after ORDER BY token LIMIT :limit
), renewed AS (
    UPDATE chunks_open c SET due_at = now() + CAST(:lease AS interval) FROM next n
    WHERE c.id = n.chunk_id AND c.version = n.version AND c.lease_token = n.token AND c.leased_by IS NOT NULL
      AND {TO_GENERATE:c}
)
SELECT max(token) FROM next

-- name: lock_running
-- Lock a batch that the provider has.
SELECT id FROM batches {held} AND state = {BatchState.RUNNING} FOR UPDATE

-- name: divide
-- Move the first lines of a batch to a new one, which has the same cancellation.
WITH next AS MATERIALIZED (
    SELECT token FROM batch_lines WHERE batch_id = :id ORDER BY token LIMIT :limit
), made AS (
    INSERT INTO batches (id, root_id, tenant, provider, model, state, lines, bytes, job_ids, cancelled_at)
    SELECT :part, coalesce(b.root_id, b.id), b.tenant, b.provider, b.model, {DIVIDE_BATCH.target}, n.lines,
           b.bytes * n.lines / greatest(b.lines, 1), b.job_ids, b.cancelled_at
    FROM batches b CROSS JOIN (SELECT count(*) AS lines FROM next) n WHERE b.id = :id AND n.lines > 0
)
UPDATE batch_lines l SET batch_id = :part FROM next n WHERE l.token = n.token

-- name: count_settled
-- Count the lines that a batch does not have any more; return the number of the others.
UPDATE batches b SET settled = b.lines - n.lines
FROM (SELECT count(*)::int AS lines FROM batch_lines WHERE batch_id = :id) n
WHERE b.id = :id
RETURNING n.lines

-- part: sent
-- Lines with the earlier costs of their chunks.
SELECT l.token AS lease_token, l.chunk_id AS id, l.version, l.document_id, l.collection_id, l.job_id, l.content_key,
       l.questions, l.context,
       coalesce(c.prompt_tokens, 0) AS prompt_tokens, coalesce(c.completion_tokens, 0) AS completion_tokens,
       coalesce(c.calls, 0) AS calls, c.tier_tokens
FROM batch_lines l LEFT JOIN chunks c ON c.id = l.chunk_id AND c.version = l.version
WHERE l.batch_id = :id

-- name: sent_lines
-- Read the lines with these tokens that are not settled.
{sent} AND l.token = ANY(CAST(:tokens AS bigint[]))

-- name: numbered_lines
-- Read lines by their numbers in the file, none of which is settled.
SELECT n.* FROM (SELECT s.*, row_number() OVER (ORDER BY s.lease_token) AS number FROM ({sent}) s) n
WHERE n.number = ANY(CAST(:numbers AS bigint[]))

-- name: unanswered_lines
-- Read some lines that are not settled.
{sent} ORDER BY l.token LIMIT :limit

-- name: collected
-- Record the collected part of the result files, in the transaction that settles the lines in it.
UPDATE batches
SET output_bytes = :output_bytes, error_bytes = :error_bytes,
    settled = settled + :lines,
    billed_prompt_tokens = billed_prompt_tokens + :prompt_tokens,
    billed_completion_tokens = billed_completion_tokens + :completion_tokens,
    billed_cached_tokens = billed_cached_tokens + :cached_tokens,
    billed_cache_write_tokens = billed_cache_write_tokens + :cache_write_tokens
{held} AND {FINISH_BATCH.applies} RETURNING id

-- name: delete_lines
DELETE FROM batch_lines WHERE batch_id = :id AND token = ANY(CAST(:tokens AS bigint[]))

-- name: move_to_live
-- Move chunks whose lines failed to the bulk lane if they need no further batch, or have failed twice.
UPDATE chunks_open c SET lane = {bulk_lane:c}, attempts = 0
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint, live boolean)
WHERE c.id = v.id AND c.version = v.version AND c.lease_token = v.token AND {is_batch_lane:c}
  AND {TO_GENERATE:c} AND c.leased_by IS NULL AND (v.live OR c.attempts >= :rounds)

-- name: finish
-- Finish a batch without open lines.
UPDATE batches SET {FINISH_BATCH.sets:CAST(:error AS text) IS NOT NULL}, error = :error, ended_at = now(), leased_by = NULL
{held} AND {FINISH_BATCH.applies} AND NOT EXISTS (SELECT 1 FROM batch_lines l WHERE l.batch_id = batches.id)
RETURNING id

-- name: yield_to_uploads
-- End the leases of lines whose content an upload in the interactive lane needs: an upload does not wait for a batch.
-- The late reply of such a line is still counted, and its questions are used if they arrive first.
-- plan: generic
WITH RECURSIVE {open_lanes}, needed AS MATERIALIZED (
    SELECT w.content_key FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.content_key FROM chunks_open w
        WHERE {GENERATE_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
        ORDER BY w.due_at LIMIT :limit) w
    WHERE {is_interactive_lane:p} AND EXISTS (SELECT 1 FROM batch_lines)
)
UPDATE chunks_open o SET leased_by = NULL, due_at = now(), lane = {bulk_lane:o}
WHERE (id, version) IN (
    SELECT b.id, b.version FROM needed n JOIN chunks_open b ON b.content_key = n.content_key
    WHERE {IN_GENERATION:b} AND b.leased_by LIKE {lines_of_batches}
    FOR UPDATE OF b SKIP LOCKED)
RETURNING id

-- name: leave_lane
-- Move some waiting chunks from the batch lane to the bulk lane.
WITH RECURSIVE {open_lanes}
UPDATE chunks_open o SET lane = {bulk_lane:o}
WHERE (id, version) IN (
    SELECT w.id, w.version FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.id, w.version FROM chunks_open w
        WHERE {GENERATE_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
        ORDER BY w.due_at LIMIT :limit FOR UPDATE SKIP LOCKED) w
    WHERE {is_batch_lane:p})
RETURNING id

-- name: forget
-- Delete batches that ended long ago; probes are the record of a provider.
DELETE FROM batches
WHERE tenant IS NOT NULL AND NOT ({OPEN_BATCHES}) AND ended_at <= now() - CAST(:age AS interval)
