-- A tenant's open work. The lanes of a queue in which it has some are each found by one index lookup.

-- part: counts
-- A tenant's counters, and the parts of the indexes of open chunks.
WITH documents_tally AS (
    SELECT state, sum(rows)::bigint AS rows FROM {document_counts} t GROUP BY state
), pages_tally AS (
    SELECT state, sum(rows)::bigint AS rows FROM {page_counts} t GROUP BY state
), chunks_tally AS (
    SELECT part AS model, state, sum(rows)::bigint AS rows
    FROM {chunk_counts} t GROUP BY part, state
), models AS (SELECT DISTINCT model FROM chunks_tally)

-- part: lanes_to_parse
(WITH RECURSIVE l(lane) AS (
    SELECT min(lane) FROM documents WHERE {PARSE_QUEUE} AND tenant = :tenant
    UNION ALL
    SELECT (SELECT min(lane) FROM documents WHERE {PARSE_QUEUE} AND tenant = :tenant AND lane > l.lane)
    FROM l WHERE l.lane IS NOT NULL
) SELECT CAST(:tenant AS text) AS tenant, p.lane FROM l p WHERE p.lane IS NOT NULL) p

-- part: lanes_to_read
(WITH RECURSIVE l(lane) AS (
    SELECT min(lane) FROM pages WHERE {READ_QUEUE} AND tenant = :tenant
    UNION ALL
    SELECT (SELECT min(lane) FROM pages WHERE {READ_QUEUE} AND tenant = :tenant AND lane > l.lane)
    FROM l WHERE l.lane IS NOT NULL
) SELECT CAST(:tenant AS text) AS tenant, p.lane FROM l p WHERE p.lane IS NOT NULL) p

-- part: lanes_to_generate
(WITH RECURSIVE l(lane) AS (
    SELECT min(lane) FROM chunks_open WHERE {GENERATE_QUEUE} AND tenant = :tenant
    UNION ALL
    SELECT (SELECT min(lane) FROM chunks_open WHERE {GENERATE_QUEUE} AND tenant = :tenant AND lane > l.lane)
    FROM l WHERE l.lane IS NOT NULL
) SELECT CAST(:tenant AS text) AS tenant, p.lane FROM l p WHERE p.lane IS NOT NULL AND {is_live_lane:p}) p

-- part: lanes_texts
(WITH RECURSIVE l(lane) AS (
    SELECT min(lane) FROM chunks_open WHERE {TEXT_QUEUE} AND tenant = :tenant
    UNION ALL
    SELECT (SELECT min(lane) FROM chunks_open WHERE {TEXT_QUEUE} AND tenant = :tenant AND lane > l.lane)
    FROM l WHERE l.lane IS NOT NULL
) SELECT CAST(:tenant AS text) AS tenant, p.lane FROM l p WHERE p.lane IS NOT NULL) p

-- part: lanes_questions
(WITH RECURSIVE l(lane) AS (
    SELECT min(lane) FROM chunks_open WHERE {QUESTION_QUEUE} AND tenant = :tenant
    UNION ALL
    SELECT (SELECT min(lane) FROM chunks_open WHERE {QUESTION_QUEUE} AND tenant = :tenant AND lane > l.lane)
    FROM l WHERE l.lane IS NOT NULL
) SELECT CAST(:tenant AS text) AS tenant, p.lane FROM l p WHERE p.lane IS NOT NULL) p

-- name: stages
-- Count the open work of every stage. Rows that are due are not read: there may be millions. Rows of paused jobs are
-- counted, but the oldest row is a row that can be claimed.
{counts}
SELECT queue, greatest(sum(open) - sum(in_flight) - sum(delayed), 0)::bigint AS due,
       sum(in_flight)::bigint AS in_flight, sum(delayed)::bigint AS delayed, now() - min(oldest) AS oldest
FROM (
    SELECT 'parse' AS queue,
           (SELECT coalesce(sum(rows), 0) FROM documents_tally WHERE {TO_PARSE}) AS open,
           ahead.in_flight AS in_flight, ahead.delayed, first.due_at AS oldest
    FROM (SELECT count(*) FILTER (WHERE leased_by IS NOT NULL) AS in_flight,
                 count(*) FILTER (WHERE leased_by IS NULL) AS delayed
          FROM {lanes_to_parse} CROSS JOIN LATERAL (
              SELECT leased_by FROM documents
              WHERE {PARSE_QUEUE} AND tenant = :tenant AND lane = p.lane AND due_at > now()
              ORDER BY due_at OFFSET 0) w) ahead,
         (SELECT min(w.due_at) AS due_at
          FROM {lanes_to_parse} CROSS JOIN LATERAL (
              SELECT due_at FROM documents
              WHERE {PARSE_QUEUE} AND tenant = :tenant AND lane = p.lane AND due_at <= now()
              ORDER BY due_at LIMIT 1) w
          WHERE NOT {is_paused:p}) first
    UNION ALL
    SELECT 'read' AS queue,
           (SELECT coalesce(sum(rows), 0) FROM pages_tally WHERE {TO_READ}) AS open,
           ahead.in_flight AS in_flight, ahead.delayed, first.due_at AS oldest
    FROM (SELECT count(*) FILTER (WHERE leased_by IS NOT NULL) AS in_flight,
                 count(*) FILTER (WHERE leased_by IS NULL) AS delayed
          FROM {lanes_to_read} CROSS JOIN LATERAL (
              SELECT leased_by FROM pages
              WHERE {READ_QUEUE} AND tenant = :tenant AND lane = p.lane AND due_at > now()
              ORDER BY due_at OFFSET 0) w) ahead,
         (SELECT min(w.due_at) AS due_at
          FROM {lanes_to_read} CROSS JOIN LATERAL (
              SELECT due_at FROM pages
              WHERE {READ_QUEUE} AND tenant = :tenant AND lane = p.lane AND due_at <= now()
              ORDER BY due_at LIMIT 1) w
          WHERE NOT {is_paused:p}) first
    UNION ALL
    SELECT 'generate' AS queue,
           (SELECT coalesce(sum(rows), 0) FROM chunks_tally WHERE {TO_GENERATE}) AS open,
           -- Lines of batches that are not settled are not counted one by one: there may be 100,000.
           ahead.in_flight + (SELECT coalesce(sum(b.lines - b.settled), 0) FROM batches b
                              WHERE b.tenant = :tenant AND {OPEN_BATCHES:b}) AS in_flight,
           ahead.delayed, first.due_at AS oldest
    FROM (SELECT count(*) FILTER (WHERE leased_by IS NOT NULL) AS in_flight,
                 count(*) FILTER (WHERE leased_by IS NULL) AS delayed
          FROM {lanes_to_generate} CROSS JOIN LATERAL (
              SELECT leased_by FROM chunks_open
              WHERE {GENERATE_QUEUE} AND tenant = :tenant AND lane = p.lane AND due_at > now()
              ORDER BY due_at OFFSET 0) w) ahead,
         (SELECT min(w.due_at) AS due_at
          FROM {lanes_to_generate} CROSS JOIN LATERAL (
              SELECT due_at FROM chunks_open
              WHERE {GENERATE_QUEUE} AND tenant = :tenant AND lane = p.lane AND due_at <= now()
              ORDER BY due_at LIMIT 1) w
          WHERE NOT {is_paused:p}) first
    UNION ALL
    SELECT 'index' AS queue,
           (SELECT coalesce(sum(rows), 0) FROM chunks_tally WHERE {TO_INDEX_TEXT}) AS open,
           ahead.in_flight AS in_flight, ahead.delayed, first.due_at AS oldest
    FROM (SELECT count(*) FILTER (WHERE leased_by IS NOT NULL) AS in_flight,
                 count(*) FILTER (WHERE leased_by IS NULL) AS delayed
          FROM {lanes_texts} CROSS JOIN models m CROSS JOIN LATERAL (
              SELECT leased_by FROM chunks_open
              WHERE {TEXT_QUEUE} AND tenant = :tenant AND lane = p.lane AND embedding_model = m.model
                AND due_at > now()
              ORDER BY due_at OFFSET 0) w) ahead,
         (SELECT min(w.due_at) AS due_at
          FROM {lanes_texts} CROSS JOIN models m CROSS JOIN LATERAL (
              SELECT due_at FROM chunks_open
              WHERE {TEXT_QUEUE} AND tenant = :tenant AND lane = p.lane AND embedding_model = m.model
                AND due_at <= now()
              ORDER BY due_at LIMIT 1) w
          WHERE NOT {is_paused:p}) first
    UNION ALL
    SELECT 'index' AS queue,
           (SELECT coalesce(sum(rows), 0) FROM chunks_tally WHERE {TO_INDEX_QUESTIONS}) AS open,
           ahead.in_flight AS in_flight, ahead.delayed, first.due_at AS oldest
    FROM (SELECT count(*) FILTER (WHERE leased_by IS NOT NULL) AS in_flight,
                 count(*) FILTER (WHERE leased_by IS NULL) AS delayed
          FROM {lanes_questions} CROSS JOIN models m CROSS JOIN LATERAL (
              SELECT leased_by FROM chunks_open
              WHERE {QUESTION_QUEUE} AND tenant = :tenant AND lane = p.lane AND embedding_model = m.model
                AND due_at > now()
              ORDER BY due_at OFFSET 0) w) ahead,
         (SELECT min(w.due_at) AS due_at
          FROM {lanes_questions} CROSS JOIN models m CROSS JOIN LATERAL (
              SELECT due_at FROM chunks_open
              WHERE {QUESTION_QUEUE} AND tenant = :tenant AND lane = p.lane AND embedding_model = m.model
                AND due_at <= now()
              ORDER BY due_at LIMIT 1) w
          WHERE NOT {is_paused:p}) first
) w GROUP BY queue

-- name: dead
-- Count dead letters. A failed document with dead pages is one letter. Dead chunks of a
-- version that an edit is replacing are not letters; this is not checked if there are very many dead chunks.
{counts}
SELECT coalesce((SELECT rows FROM documents_tally WHERE state = {DocumentState.FAILED}), 0)
       + CASE WHEN dead.tallied > :most_dead THEN dead.tallied ELSE (
           SELECT count(*) FROM chunks_ended c
           WHERE c.tenant = :tenant AND c.state = {ChunkState.DEAD}
             AND c.version = (SELECT d.version FROM documents d WHERE d.id = c.document_id)) END
       + (SELECT count(*) FROM pages p JOIN documents d ON d.id = p.document_id AND d.version = p.version
          WHERE p.tenant = :tenant AND p.state = {PageState.DEAD} AND NOT ({has_failed:d})) AS dead
FROM (SELECT coalesce(sum(rows), 0)::bigint AS tallied FROM chunks_tally WHERE state = {ChunkState.DEAD}) dead

-- part: finished_changes
-- The changes that are not added up yet and count finished chunks.
FROM tally_changes WHERE tenant = :tenant AND counted = 'chunks' AND change > 0
  AND state IN ({ChunkState.INDEXED}, {ChunkState.DEAD})

-- name: finished
-- Count the chunks that finished in the last minute, and the part of them that finished first.
SELECT coalesce(sum(change), 0)::bigint AS recent, coalesce(sum(change) FILTER (WHERE at = start), 0)::bigint AS first,
       coalesce(max(at) - min(at), '0') AS span
FROM (SELECT change, at, min(at) OVER () AS start {finished_changes} AND at > now() - CAST(:recent AS interval)) c

-- name: finished_earlier
-- Count the chunks that finished before that, by minutes of the clock.
SELECT extract(epoch FROM now() - minute)::float AS age_seconds, sum(chunks)::bigint AS chunks
FROM (SELECT minute, chunks + dead_chunks AS chunks FROM ended_by_minute
      WHERE tenant = :tenant AND minute > now() - make_interval(mins => CAST(:minutes AS int) + 1)
      UNION ALL
      SELECT date_trunc('minute', at, 'UTC'), change {finished_changes} AND at <= now() - CAST(:recent AS interval)) c
GROUP BY minute

-- name: open_jobs
-- Read the open jobs with documents, of which a tenant has a limited number.
SELECT j.id, j.number, j.kind, j.state, j.created_at,
       j.state = {JobState.PAUSED} AND j.pause_reason IS DISTINCT FROM {PauseReason.APPROVAL} AS is_paused,
       CASE WHEN j.closed_at IS NULL THEN j.expected END AS expected
FROM jobs j WHERE j.tenant = :tenant AND j.ended_at IS NULL AND {has_documents:j}

-- name: unfilled
-- Count the documents that builds lack which are being filled.
SELECT b.id, b.created_at, greatest(
           (SELECT coalesce(sum(t.rows), 0) FROM {document_counts} t WHERE t.part = l.id::text AND {exists:t})
           - (SELECT coalesce(sum(t.rows), 0) FROM {document_counts} t WHERE t.part = b.id::text AND {exists:t}),
           0)::bigint AS documents
FROM collections b JOIN collections l ON l.tenant = b.tenant AND l.name = b.name AND {is_live:l}
WHERE b.tenant = :tenant AND b.build_state = {BuildState.FILLING}

-- name: counted
-- Read the numbers of all documents and chunks of a tenant, of some jobs' documents, and of some lanes' chunks.
{counts}
SELECT 'documents' AS counted, '' AS part, state, rows FROM documents_tally
UNION ALL
SELECT 'chunks', '', state, sum(rows)::bigint FROM chunks_tally GROUP BY state
UNION ALL
SELECT counted, part, state, sum(rows)::bigint FROM (
    SELECT counted, part, state, rows FROM tallies
    WHERE tenant = :tenant AND (counted = 'jobs' AND part = ANY(CAST(:jobs AS text[]))
                                OR counted = 'lanes' AND part = ANY(CAST(:lanes AS text[])))
    UNION ALL
    SELECT counted, part, state, change FROM tally_changes
    WHERE tenant = :tenant AND (counted = 'jobs' AND part = ANY(CAST(:jobs AS text[]))
                                OR counted = 'lanes' AND part = ANY(CAST(:lanes AS text[])))) t
GROUP BY counted, part, state

-- name: all_rows
-- Count the rows of all tenants by state.
SELECT counted, state, sum(rows)::bigint AS rows FROM (
    SELECT counted, state, rows FROM tallies UNION ALL SELECT counted, state, change FROM tally_changes) t
WHERE counted NOT IN ('jobs', 'readers', 'lanes') GROUP BY counted, state

-- name: unserved
-- Count the chunks that wait for a worker that serves their embedding, by its name.
{counts}
SELECT model, sum(rows)::bigint AS chunks FROM chunks_tally
WHERE {TO_INDEX} AND model <> ALL(CAST(:embeddings AS text[]))
GROUP BY model HAVING sum(rows) > 0 ORDER BY model
