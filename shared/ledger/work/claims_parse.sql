-- The claims of documents to be parsed.

-- part: leased
-- Lease the due documents. They are looked up by an array, as the rows of the other claims: a kept plan expects ten
-- elements in it. Of a limit it expects a tenth of all waiting rows, for which it would read the whole table.
UPDATE documents w
SET {CLAIM_DOCUMENT.sets}, due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker,
    lost_leases = w.lost_leases + (w.leased_by IS NOT NULL)::int, updated_at = now()
FROM collections c, document_versions v
WHERE w.id = ANY(ARRAY(SELECT id FROM due)) AND c.id = w.collection_id AND v.document_id = w.id
  AND v.version = w.version
RETURNING w.id, w.version, w.lease_token, w.tenant, w.collection_id, c.options, c.languages, c.metadata_fields,
          v.upload, v.filename, v.title, v.media_type, v.metadata, v.ready_questions, w.attempts, w.lost_leases,
          w.live_version,
          EXISTS (SELECT 1 FROM pages p WHERE p.document_id = w.id AND p.version = w.version) AS has_pages,
          v.traceparent

-- name: claim_documents
-- plan: generic
WITH RECURSIVE open_lanes(tenant, lane) AS (
    -- Each lane with open work is found by one index lookup.
    (SELECT w.tenant, w.lane FROM documents w WHERE {PARSE_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM documents w
        WHERE {PARSE_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes AS (
    SELECT p.tenant, p.lane FROM open_lanes p WHERE NOT {is_paused:p}
), held AS (
    -- Documents that this worker holds, even if another worker may claim them.
    SELECT h.tenant, h.rows FROM unnest(CAST(:holders AS text[]), CAST(:held AS bigint[])) AS h(tenant, rows)
), candidates AS (
    -- Four per requested row, because concurrent claims skip each other's rows.
    SELECT p.tenant, {priority:p} AS lane, w.*
    FROM lanes p CROSS JOIN LATERAL (
        SELECT w.ctid AS at, w.due_at FROM documents w
        WHERE {PARSE_QUEUE:w} AND w.due_at <= now() AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
          AND w.tenant = p.tenant AND w.lane = p.lane
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
    ORDER BY turn, c.lane, c.due_at
), due AS (
    -- Rows are locked only when they are selected, because a lock is written to the row's page.
    SELECT w.*, c.turn, c.lane, c.due_at FROM in_turn c CROSS JOIN LATERAL (
        SELECT w.id FROM documents w
        WHERE w.ctid = c.at AND {TO_PARSE:w} AND w.due_at <= now()
          AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
        FOR UPDATE SKIP LOCKED) w
    LIMIT CAST(:limit AS int)
)
{leased}

-- name: claim_suspect_documents
-- Claim suspects, the longest waiting first.
-- plan: generic
WITH due AS (
    SELECT w.id FROM documents w
    WHERE {TO_PARSE:w} AND w.lost_leases > 0
      AND w.lost_leases + (w.leased_by IS NOT NULL)::int >= {suspect_after} AND w.due_at <= now()
      AND NOT {is_paused:w}
    ORDER BY w.due_at LIMIT CAST(:limit AS int)
    FOR UPDATE SKIP LOCKED
)
{leased}
