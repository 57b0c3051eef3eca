-- The claims of chunks to generate, by workers and by batches. `claims_parse.sql` explains the parts of a claim.

-- part: is_free
-- No other worker is paying for the content of a chunk, even for a version that was discarded meanwhile, and the
-- budgets of its collection and job have room. OFFSET keeps the lookups of such workers from becoming joins: a few rows
-- need one index lookup each.
NOT EXISTS (
    SELECT 1 FROM chunks_open o
    WHERE o.content_key = w.content_key AND {IN_GENERATION:o} AND o.leased_by IS NOT NULL
      AND (o.id, o.version) <> (w.id, w.version)
    OFFSET 0)
AND NOT {is_called:w w.content_key} AND {part_has_room:w}

-- part: leased
-- Lease the due chunks; a claim takes each content once. The content of a chunk is one index lookup, whatever the
-- statistics are.
once AS (
    SELECT DISTINCT ON (content_key) id, version FROM due ORDER BY content_key, id
)
UPDATE chunks_open w
SET due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker,
    lost_leases = w.lost_leases + (w.leased_by IS NOT NULL)::int
FROM once, documents d JOIN collections l ON l.id = d.collection_id
WHERE w.id = ANY(ARRAY(SELECT id FROM once)) AND (w.id, w.version) = (once.id, once.version) AND d.id = w.document_id
RETURNING w.id, w.version, w.lease_token, w.document_id, w.tenant, d.collection_id, d.job_id, l.options,
          (SELECT t.content FROM chunk_contents t WHERE t.chunk_id = w.id AND t.version = w.version) AS content,
          (SELECT t.picture FROM chunk_contents t WHERE t.chunk_id = w.id AND t.version = w.version) AS picture,
          w.content_key, w.attempts, w.lost_leases, w.prompt_tokens, w.completion_tokens, w.calls, w.tier_tokens,
          (SELECT p.replies FROM paid_replies p WHERE p.content_key = w.content_key) AS replies,
          EXISTS (SELECT 1 FROM budgets) AS has_budgets,
          (SELECT v.traceparent FROM document_versions v
           WHERE v.document_id = w.document_id AND v.version = w.version) AS traceparent

-- name: claim_to_generate
-- plan: generic
WITH RECURSIVE open_lanes(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM chunks_open w WHERE {GENERATE_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM chunks_open w
        WHERE {GENERATE_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes AS (
    -- Batches claim the other lanes.
    SELECT p.tenant, p.lane FROM open_lanes p
    WHERE {is_live_lane:p} AND NOT {is_paused:p} AND {lane_has_room:p}
), held AS (
    -- The lines of batches, which may be 100,000, are not read.
    SELECT p.tenant, sum(w.rows)::bigint AS rows FROM open_lanes p CROSS JOIN LATERAL (
        SELECT count(*) AS rows FROM chunks_open w
        WHERE {GENERATE_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.leased_by IS NOT NULL
          AND w.due_at > now()) w
    WHERE {is_live_lane:p} GROUP BY p.tenant
), candidates AS (
    SELECT p.tenant, {priority:p} AS lane, w.*
    FROM lanes p CROSS JOIN LATERAL (
        SELECT w.ctid AS at, w.due_at FROM chunks_open w
        WHERE {GENERATE_QUEUE:w} AND w.due_at <= now()
          AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
          AND w.tenant = p.tenant AND w.lane = p.lane AND {is_free}
        ORDER BY w.due_at
        LIMIT least(4 * CAST(:limit AS int),
                    8 * CAST(:limit AS int) / (SELECT greatest(2 * count(DISTINCT tenant), count(*))::int
                                               FROM lanes) + 1)
    ) w
), ranked AS (
    SELECT c.*, coalesce(h.rows, 0) AS held,
           coalesce(h.rows, 0) + row_number() OVER (PARTITION BY c.tenant ORDER BY c.lane, c.due_at) AS position
    FROM candidates c LEFT JOIN held h ON h.tenant = c.tenant
), in_turn AS (
    SELECT c.at, c.position / coalesce(v.weight, 1) AS turn, c.lane, c.due_at
    FROM ranked c
    LEFT JOIN unnest(CAST(:tenants AS text[]), CAST(:weights AS float[]), CAST(:most AS bigint[]))
         AS v(tenant, weight, most) ON v.tenant = c.tenant
    WHERE c.position <= coalesce(v.most, CAST(:most_of_others AS bigint), c.position)
      AND c.position - c.held <= coalesce((SELECT r.chunks FROM rooms r WHERE r.tenant = c.tenant), c.position)
    ORDER BY turn, c.lane, c.due_at
), due AS (
    SELECT w.*, c.turn, c.lane, c.due_at FROM in_turn c CROSS JOIN LATERAL (
        SELECT w.id, w.version, w.content_key FROM chunks_open w
        WHERE w.ctid = c.at AND {TO_GENERATE:w} AND w.due_at <= now()
          AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
        FOR UPDATE SKIP LOCKED) w
    LIMIT CAST(:limit AS int)
), rooms AS MATERIALIZED (
    -- The number of chunks that the budgets of each tenant have room for, as far as known: the claim then reserves
    -- exactly. A claim of more chunks would lease and release them. A budget of a collection or a job without room
    -- excludes only its chunks.
    SELECT b.tenant, min({budget_calls:b}) AS chunks
    FROM (SELECT DISTINCT tenant FROM lanes) t JOIN budgets b ON b.tenant = t.tenant
    WHERE b.collection IS NULL AND b.job_id IS NULL OR NOT ({budget_has_no_room:b})
    GROUP BY b.tenant
), {leased}

-- name: claim_suspects_to_generate
-- Claim suspects of tenants whose budgets have room, the longest waiting first.
-- plan: generic
WITH due AS (
    SELECT w.id, w.version, w.content_key FROM chunks_open w
    WHERE {TO_GENERATE:w} AND w.lost_leases > 0
      AND w.lost_leases + (w.leased_by IS NOT NULL)::int >= {suspect_after} AND w.due_at <= now()
      AND NOT {is_paused:w} AND {is_free}
      AND NOT EXISTS (SELECT 1 FROM budgets b
                      WHERE b.tenant = w.tenant AND b.collection IS NULL AND b.job_id IS NULL
                        AND {budget_has_no_room:b})
    ORDER BY w.due_at LIMIT CAST(:limit AS int)
    FOR UPDATE SKIP LOCKED
), {leased}

-- name: claim_to_batch
-- Claim chunks of a tenant in the batch lane for a batch.
WITH RECURSIVE open_lanes(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM chunks_open w WHERE {GENERATE_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM chunks_open w
        WHERE {GENERATE_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes AS (
    SELECT p.tenant, p.lane FROM open_lanes p
    WHERE {is_batch_lane:p} AND NOT {is_paused:p} AND {lane_has_room:p}
), due AS (
    SELECT w.* FROM lanes p CROSS JOIN LATERAL (
        SELECT w.id, w.version, w.content_key FROM chunks_open w
        WHERE {GENERATE_QUEUE:w} AND w.due_at <= now()
          AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
          AND w.tenant = p.tenant AND w.lane = p.lane AND {is_free}
        ORDER BY w.due_at LIMIT CAST(:limit AS int) FOR UPDATE SKIP LOCKED) w
    WHERE p.tenant = :tenant LIMIT CAST(:limit AS int)
), {leased}
