-- The open rows of each stage by tenant: due rows, counted up to a limit in each lane, and leased rows. Each lane with
-- open work is found by one index lookup.

-- name: parse
SELECT tenant, sum(due)::bigint AS due, sum(leased)::bigint AS leased FROM (
    SELECT * FROM (
        WITH RECURSIVE lanes(tenant, lane) AS (
            (SELECT w.tenant, w.lane FROM documents w WHERE {PARSE_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
            UNION ALL
            SELECT n.tenant, n.lane FROM lanes p CROSS JOIN LATERAL (
                SELECT w.tenant, w.lane FROM documents w
                WHERE {PARSE_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
                ORDER BY w.tenant, w.lane LIMIT 1) n
        )
        SELECT p.tenant, d.due, 0::bigint AS leased
        FROM lanes p CROSS JOIN LATERAL (
            SELECT count(*) AS due FROM (
                SELECT 1 FROM (
                    SELECT w.* FROM documents w
                    WHERE {PARSE_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
                    ORDER BY w.due_at LIMIT :most) w
                LIMIT :most) counted) d
        WHERE NOT {is_paused:p}) due
    UNION ALL
    SELECT w.tenant, 0, count(*) FROM documents w
    WHERE {TO_PARSE:w} AND w.leased_by IS NOT NULL AND w.due_at > now()
    GROUP BY w.tenant
) r GROUP BY tenant HAVING sum(due) + sum(leased) > 0

-- name: read
SELECT tenant, sum(due)::bigint AS due, sum(leased)::bigint AS leased FROM (
    SELECT * FROM (
        WITH RECURSIVE lanes(tenant, lane) AS (
            (SELECT w.tenant, w.lane FROM pages w WHERE {READ_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
            UNION ALL
            SELECT n.tenant, n.lane FROM lanes p CROSS JOIN LATERAL (
                SELECT w.tenant, w.lane FROM pages w
                WHERE {READ_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
                ORDER BY w.tenant, w.lane LIMIT 1) n
        )
        SELECT p.tenant, d.due, 0::bigint AS leased
        FROM lanes p CROSS JOIN LATERAL (
            SELECT count(*) AS due FROM (
                SELECT 1 FROM (
                    SELECT w.* FROM pages w
                    WHERE {READ_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
                    ORDER BY w.due_at LIMIT :most) w
                LIMIT :most) counted) d
        WHERE NOT {is_paused:p}) due
    UNION ALL
    SELECT w.tenant, 0, count(*) FROM pages w
    WHERE {TO_READ:w} AND w.leased_by IS NOT NULL AND w.due_at > now()
    GROUP BY w.tenant
) r GROUP BY tenant HAVING sum(due) + sum(leased) > 0

-- name: generate
-- Count the chunks to generate by tenant; due ones only as far as its budgets, if it has some, have room.
SELECT tenant, least(sum(due), (
           SELECT min({budget_calls:b}) FROM budgets b
           WHERE b.tenant = r.tenant AND b.collection IS NULL AND b.job_id IS NULL))::bigint AS due,
       sum(leased)::bigint AS leased
-- More workers would not make a batch faster. Rows without room in a budget are left out among the oldest ones.
FROM (
    SELECT * FROM (
        WITH RECURSIVE lanes(tenant, lane) AS (
            (SELECT w.tenant, w.lane FROM chunks_open w WHERE {GENERATE_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
            UNION ALL
            SELECT n.tenant, n.lane FROM lanes p CROSS JOIN LATERAL (
                SELECT w.tenant, w.lane FROM chunks_open w
                WHERE {GENERATE_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
                ORDER BY w.tenant, w.lane LIMIT 1) n
        )
        SELECT p.tenant, d.due, 0::bigint AS leased
        FROM lanes p CROSS JOIN LATERAL (
            SELECT count(*) AS due FROM (
                SELECT 1 FROM (
                    SELECT w.* FROM chunks_open w
                    WHERE {GENERATE_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
                    ORDER BY w.due_at LIMIT {most_examined}) w
                WHERE {part_has_room:w} LIMIT :most) counted) d
        WHERE {is_live_lane:p} AND {lane_has_room:p} AND NOT {is_paused:p}) due
    UNION ALL
    SELECT w.tenant, 0, count(*) FROM chunks_open w
    WHERE {TO_GENERATE:w} AND w.leased_by IS NOT NULL AND w.due_at > now() AND {is_live_lane:w}
    GROUP BY w.tenant
) r GROUP BY tenant HAVING sum(due) + sum(leased) > 0

-- name: index
SELECT tenant, sum(due)::bigint AS due, sum(leased)::bigint AS leased FROM (
    SELECT * FROM (
        WITH RECURSIVE lanes(tenant, lane) AS (
            (SELECT w.tenant, w.lane FROM chunks_open w WHERE {TEXT_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
            UNION ALL
            SELECT n.tenant, n.lane FROM lanes p CROSS JOIN LATERAL (
                SELECT w.tenant, w.lane FROM chunks_open w
                WHERE {TEXT_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
                ORDER BY w.tenant, w.lane LIMIT 1) n
        )
        SELECT p.tenant, d.due, 0::bigint AS leased
        FROM lanes p CROSS JOIN (
            SELECT DISTINCT embedding_model AS name FROM collections
            WHERE CAST(:embeddings AS text[]) IS NULL OR embedding_model = ANY(CAST(:embeddings AS text[]))) m
        CROSS JOIN LATERAL (
            SELECT count(*) AS due FROM (
                SELECT 1 FROM (
                    SELECT w.* FROM chunks_open w
                    WHERE {TEXT_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.embedding_model = m.name
                      AND w.due_at <= now()
                    ORDER BY w.due_at LIMIT :most) w
                LIMIT :most) counted) d
        WHERE NOT {is_paused:p}) due
    UNION ALL
    SELECT w.tenant, 0, count(*) FROM chunks_open w
    WHERE {TO_INDEX_TEXT:w} AND w.leased_by IS NOT NULL AND w.due_at > now()
    GROUP BY w.tenant
    UNION ALL
    SELECT * FROM (
        WITH RECURSIVE lanes(tenant, lane) AS (
            (SELECT w.tenant, w.lane FROM chunks_open w WHERE {QUESTION_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
            UNION ALL
            SELECT n.tenant, n.lane FROM lanes p CROSS JOIN LATERAL (
                SELECT w.tenant, w.lane FROM chunks_open w
                WHERE {QUESTION_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
                ORDER BY w.tenant, w.lane LIMIT 1) n
        )
        SELECT p.tenant, d.due, 0::bigint AS leased
        FROM lanes p CROSS JOIN (
            SELECT DISTINCT embedding_model AS name FROM collections
            WHERE CAST(:embeddings AS text[]) IS NULL OR embedding_model = ANY(CAST(:embeddings AS text[]))) m
        CROSS JOIN LATERAL (
            SELECT count(*) AS due FROM (
                SELECT 1 FROM (
                    SELECT w.* FROM chunks_open w
                    WHERE {QUESTION_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane
                      AND w.embedding_model = m.name AND w.due_at <= now()
                    ORDER BY w.due_at LIMIT :most) w
                LIMIT :most) counted) d
        WHERE NOT {is_paused:p}) due
    UNION ALL
    SELECT w.tenant, 0, count(*) FROM chunks_open w
    WHERE {TO_INDEX_QUESTIONS:w} AND w.leased_by IS NOT NULL AND w.due_at > now()
    GROUP BY w.tenant
) r GROUP BY tenant HAVING sum(due) + sum(leased) > 0

-- name: finished
-- Count the rows that parse, read and index workers have finished recently. A chunk is indexed twice: its text, then
-- its questions.
SELECT coalesce(sum(change) FILTER (WHERE counted = 'documents'), 0)::bigint AS parse,
       coalesce(sum(change) FILTER (WHERE counted = 'pages'), 0)::bigint AS read,
       coalesce(sum(change) FILTER (WHERE counted = 'chunks'), 0)::bigint AS index
FROM tally_changes
WHERE at > now() - CAST(:window AS interval) AND change > 0
  AND (counted = 'documents'
           AND state IN ({DocumentState.READING}, {DocumentState.INDEXING}, {DocumentState.FAILED})
       OR counted = 'pages' AND state IN ({PageState.READ}, {PageState.DEAD})
       OR counted = 'chunks' AND state IN ({ChunkState.GENERATING}, {ChunkState.INDEXED}))

-- name: record
-- Store the wanted numbers of workers.
UPDATE deployment SET wanted = CAST(:wanted AS jsonb)

-- name: wanted
SELECT wanted FROM deployment
