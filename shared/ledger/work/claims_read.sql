-- The claims of pages to be read. `claims_parse.sql` explains the parts of a claim.

-- part: is_free
-- No worker is reading a page with the same text, and this worker has the data of all languages of a page, or they are
-- unknown. OFFSET 0 keeps the lookups from becoming joins.
NOT EXISTS (SELECT 1 FROM pages o
            WHERE o.key = w.key AND {TO_READ:o} AND o.leased_by IS NOT NULL AND o.id <> w.id OFFSET 0)
AND coalesce(string_to_array(w.languages, '+') <@ CAST(:languages AS text[]), TRUE)

-- part: leased
-- Lease the due pages; a claim takes each text once.
once AS (
    SELECT DISTINCT ON (key) id FROM due ORDER BY key, id
)
UPDATE pages w
SET due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker,
    lost_leases = w.lost_leases + (w.leased_by IS NOT NULL)::int
FROM documents d, document_versions v
WHERE w.id = ANY(ARRAY(SELECT id FROM once)) AND d.id = w.document_id AND v.document_id = w.document_id
  AND v.version = w.version
RETURNING w.id, w.version, w.lease_token, w.document_id, w.tenant, d.collection_id, v.upload, w.number, w.key,
          w.languages, w.attempts, w.lost_leases, v.traceparent,
          EXISTS (SELECT 1 FROM page_texts t WHERE t.key = w.key OFFSET 0) AS has_text

-- name: claim_pages
-- plan: generic
WITH RECURSIVE open_lanes(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM pages w WHERE {READ_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM pages w
        WHERE {READ_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes AS (
    SELECT p.tenant, p.lane FROM open_lanes p WHERE NOT {is_paused:p}
), held AS (
    SELECT w.tenant, count(*) AS rows FROM pages w
    WHERE {TO_READ:w} AND w.leased_by IS NOT NULL AND w.due_at > now() GROUP BY w.tenant
), candidates AS (
    SELECT p.tenant, {priority:p} AS lane, w.*
    FROM lanes p CROSS JOIN LATERAL (
        SELECT w.ctid AS at, w.due_at FROM pages w
        WHERE {READ_QUEUE:w} AND w.due_at <= now() AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
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
    -- The pages read on this day and the pages in progress are within the tenant's limit.
    SELECT c.at, c.position / coalesce(v.weight, 1) AS turn, c.lane, c.due_at
    FROM ranked c
    LEFT JOIN unnest(CAST(:tenants AS text[]), CAST(:weights AS float[]), CAST(:most AS bigint[]))
         AS v(tenant, weight, most) ON v.tenant = c.tenant
    WHERE c.position <= coalesce(v.most, CAST(:most_of_others AS bigint), c.position)
      AND c.position + coalesce((SELECT b.pages FROM pages_by_day b
                                 WHERE b.tenant = c.tenant AND b.day = (now() AT TIME ZONE 'UTC')::date), 0)
          <= coalesce(v.most, CAST(:most_of_others AS bigint))
    ORDER BY turn, c.lane, c.due_at
), due AS (
    SELECT w.*, c.turn, c.lane, c.due_at FROM in_turn c CROSS JOIN LATERAL (
        SELECT w.id, w.key FROM pages w
        WHERE w.ctid = c.at AND {TO_READ:w} AND w.due_at <= now()
          AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
        FOR UPDATE SKIP LOCKED) w
    LIMIT CAST(:limit AS int)
), {leased}

-- name: claim_suspect_pages
-- Claim suspects of tenants within their limits, the longest waiting first.
-- plan: generic
WITH due AS (
    SELECT w.id, w.key FROM pages w
    WHERE {TO_READ:w} AND w.lost_leases > 0
      AND w.lost_leases + (w.leased_by IS NOT NULL)::int >= {suspect_after} AND w.due_at <= now()
      AND NOT {is_paused:w} AND {is_free}
      AND (SELECT count(*) FROM pages h
           WHERE {READ_QUEUE:h} AND h.tenant = w.tenant AND h.leased_by IS NOT NULL AND h.due_at > now())
          + coalesce((SELECT b.pages FROM pages_by_day b
                      WHERE b.tenant = w.tenant AND b.day = (now() AT TIME ZONE 'UTC')::date), 0)
          < coalesce((SELECT v.most FROM unnest(CAST(:tenants AS text[]), CAST(:most AS bigint[])) AS v(tenant, most)
                      WHERE v.tenant = w.tenant), CAST(:most_of_others AS bigint))
    ORDER BY w.due_at LIMIT CAST(:limit AS int)
    FOR UPDATE SKIP LOCKED
), {leased}
