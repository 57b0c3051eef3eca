-- The oldest due row of each lane of a queue, found by index lookups. Deferred rows are not read one by one. The order
-- keeps the planner on the index, whatever its statistics are. A chunk of an embedding that no worker serves wakes a
-- worker, which claims nothing.

-- part: oldest_to_parse
WITH RECURSIVE open_lanes(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM documents w WHERE {PARSE_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM documents w
        WHERE {PARSE_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes AS (
    SELECT p.tenant, p.lane FROM open_lanes p WHERE NOT {is_paused:p}
)
SELECT {priority:p} AS lane, w.due_at FROM lanes p CROSS JOIN LATERAL (
    SELECT w.due_at FROM documents w
    WHERE {PARSE_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
    ORDER BY w.due_at LIMIT 1) w

-- part: oldest_to_read
WITH RECURSIVE open_lanes(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM pages w WHERE {READ_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM pages w
        WHERE {READ_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes AS (
    SELECT p.tenant, p.lane FROM open_lanes p WHERE NOT {is_paused:p}
)
SELECT {priority:p} AS lane, w.due_at FROM lanes p CROSS JOIN LATERAL (
    SELECT w.due_at FROM pages w
    WHERE {READ_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
    ORDER BY w.due_at LIMIT 1) w

-- part: oldest_to_generate
WITH RECURSIVE open_lanes(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM chunks_open w WHERE {GENERATE_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM chunks_open w
        WHERE {GENERATE_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes AS (
    SELECT p.tenant, p.lane FROM open_lanes p
    WHERE {is_live_lane:p} AND NOT {is_paused:p} AND {lane_has_room:p}
)
SELECT {priority:p} AS lane, w.due_at FROM lanes p CROSS JOIN LATERAL (
    SELECT w.due_at FROM chunks_open w
    WHERE {GENERATE_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.due_at <= now()
    ORDER BY w.due_at LIMIT 1) w

-- part: oldest_texts
WITH RECURSIVE open_lanes(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM chunks_open w WHERE {TEXT_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM chunks_open w
        WHERE {TEXT_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes AS (
    SELECT p.tenant, p.lane FROM open_lanes p WHERE NOT {is_paused:p}
)
SELECT {priority:p} AS lane, w.due_at
FROM lanes p CROSS JOIN (SELECT DISTINCT embedding_model AS name FROM collections) m CROSS JOIN LATERAL (
    SELECT w.due_at FROM chunks_open w
    WHERE {TEXT_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.embedding_model = m.name
      AND w.due_at <= now()
    ORDER BY w.due_at LIMIT 1) w

-- part: oldest_questions
WITH RECURSIVE open_lanes(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM chunks_open w WHERE {QUESTION_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM chunks_open w
        WHERE {QUESTION_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes AS (
    SELECT p.tenant, p.lane FROM open_lanes p WHERE NOT {is_paused:p}
)
SELECT {priority:p} AS lane, w.due_at
FROM lanes p CROSS JOIN (SELECT DISTINCT embedding_model AS name FROM collections) m CROSS JOIN LATERAL (
    SELECT w.due_at FROM chunks_open w
    WHERE {QUESTION_QUEUE:w} AND w.tenant = p.tenant AND w.lane = p.lane AND w.embedding_model = m.name
      AND w.due_at <= now()
    ORDER BY w.due_at LIMIT 1) w

-- name: oldest
-- Return the waiting times of the oldest due rows of all tenants.
SELECT stage, lane, now() - min(due_at) AS age FROM (
    SELECT 'parse' AS stage, f.lane, f.due_at FROM ({oldest_to_parse}) f
    UNION ALL
    SELECT 'read' AS stage, f.lane, f.due_at FROM ({oldest_to_read}) f
    UNION ALL
    SELECT 'generate' AS stage, f.lane, f.due_at FROM ({oldest_to_generate}) f
    UNION ALL
    SELECT 'index' AS stage, f.lane, f.due_at FROM ({oldest_texts}) f
    UNION ALL
    SELECT 'index' AS stage, f.lane, f.due_at FROM ({oldest_questions}) f
) o GROUP BY stage, lane

-- name: due
-- Return the stages with claimable rows.
-- plan: generic
SELECT EXISTS ({oldest_to_parse}) AS parse, EXISTS ({oldest_to_read}) AS read,
       EXISTS ({oldest_to_generate}) AS generate,
       EXISTS ({oldest_texts}) OR EXISTS ({oldest_questions}) AS index
