-- The claims of chunks to index: their texts first, later their questions. `claims_parse.sql` explains the parts of a
-- claim. The index of chunks to index is divided by embedding, and a worker claims the embeddings that it serves.

-- part: is_text_only
-- A chunk has no questions yet: its text is indexed first.
NOT w.ready_made
AND NOT EXISTS (SELECT 1 FROM completions p WHERE p.content_key = w.content_key OFFSET 0)

-- part: no_other_is_live
-- No other version of a chunk's document is live. Questions of a next version wait until it is: written earlier, their
-- points would be hidden, and so would be the point of the text, which is written with them. A version that became live
-- meanwhile would lose the text.
NOT EXISTS (SELECT 1 FROM documents h
            WHERE h.id = w.document_id AND h.live_version <> w.version OFFSET 0)

-- part: limit_of_questions
-- A quarter of a claim is reserved for chunks with questions; they also get the slots that texts leave.
greatest(CAST(:limit AS int) / 4, CAST(:limit AS int) - (SELECT count(*)::int FROM due_texts))

-- part: accepted
-- Users' questions for a chunk.
FROM accepted_questions a
WHERE a.chunk_id = w.id AND a.state IN ({AcceptedState.WAITING}, {AcceptedState.INDEXED}) ORDER BY a.id

-- part: leased
-- Lease the due chunks. The update is a separate statement. If it were joined, tables of a new ledger, without
-- statistics, would be joined by version before chunk: every due chunk with every document. While an older version is
-- live, every point of the newest one stays hidden. The content of a chunk is one index lookup, whatever the statistics
-- are.
claimed AS (
    UPDATE chunks_open w
    SET due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker,
        lost_leases = w.lost_leases + (w.leased_by IS NOT NULL)::int,
        may_have_points = due.may_have_points OR NOT due.text_only
    FROM due WHERE w.id = ANY(ARRAY(SELECT id FROM due)) AND (w.id, w.version) = (due.id, due.version)
    RETURNING w.*, due.may_have_points AS had_points, due.text_only
)
SELECT w.id, w.version, w.lease_token, w.document_id, w.tenant, {priority:w} AS lane, d.collection_id,
       d.job_id, w.embedding_model, l.index_name, l.options, d.public_id, d.external_id, v.filename, v.metadata,
       v.readable_by, w.ordinal,
       (SELECT CASE WHEN p.text IS NULL THEN t.content ELSE {described} END
        FROM chunk_contents t LEFT JOIN completions p ON p.content_key = t.content_key
        WHERE t.chunk_id = w.id AND t.version = w.version) AS content,
       coalesce(d.live_version <> w.version, false) AS hidden,
       l.followed OR NOT ({is_live:l}) AS of_several_builds,
       w.ready_made,
       coalesce((SELECT t.ready_questions FROM chunk_contents t
                 WHERE t.chunk_id = w.id AND t.version = w.version AND w.ready_made),
                (SELECT p.questions FROM completions p WHERE p.content_key = w.content_key AND w.error IS NULL),
                '{}') AS questions,
       (SELECT p.context FROM completions p
        WHERE p.content_key = w.content_key AND w.error IS NULL AND NOT w.ready_made) AS context,
       ARRAY(SELECT a.id {accepted}) AS accepted_ids,
       ARRAY(SELECT a.question {accepted}) AS accepted_questions,
       w.error, w.attempts, w.lost_leases, d.created_at, w.had_points AS may_have_points,
       w.text_only, w.points_token IS NOT NULL AS has_text, w.questions_passed, v.traceparent,
       v.upload, {disabled_of:d} AS disabled
FROM claimed w
JOIN documents d ON d.id = w.document_id JOIN collections l ON l.id = d.collection_id
JOIN document_versions v ON v.document_id = w.document_id AND v.version = w.version

-- name: claim_to_index
-- Claim chunks to index with their questions, if these exist, and with users' questions.
-- plan: generic
WITH RECURSIVE open_lanes_texts(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM chunks_open w WHERE {TEXT_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes_texts p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM chunks_open w
        WHERE {TEXT_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes_texts AS (
    SELECT p.tenant, p.lane FROM open_lanes_texts p WHERE NOT {is_paused:p}
), held_texts AS (
    SELECT w.tenant, count(*) AS rows FROM chunks_open w
    WHERE {TO_INDEX_TEXT:w} AND w.leased_by IS NOT NULL AND w.due_at > now() GROUP BY w.tenant
), candidates_texts AS (
    SELECT p.tenant, {priority:p} AS lane, w.*
    FROM lanes_texts p CROSS JOIN unnest(CAST(:embeddings AS text[])) AS m(name) CROSS JOIN LATERAL (
        SELECT w.ctid AS at, w.due_at FROM chunks_open w
        WHERE {TEXT_QUEUE:w} AND w.due_at <= now()
          AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
          AND w.tenant = p.tenant AND w.lane = p.lane AND w.embedding_model = m.name
        ORDER BY w.due_at
        LIMIT least(4 * CAST(:limit AS int),
                    8 * CAST(:limit AS int) / (SELECT greatest(2 * count(DISTINCT tenant), count(*))::int
                                               FROM lanes_texts) + 1)
    ) w
), ranked_texts AS (
    SELECT c.*, coalesce(h.rows, 0) AS held,
           coalesce(h.rows, 0) + row_number() OVER (PARTITION BY c.tenant ORDER BY c.lane, c.due_at) AS position
    FROM candidates_texts c LEFT JOIN held_texts h ON h.tenant = c.tenant
), in_turn_texts AS (
    SELECT c.at, c.position / coalesce(v.weight, 1) AS turn, c.lane, c.due_at
    FROM ranked_texts c
    LEFT JOIN unnest(CAST(:tenants AS text[]), CAST(:weights AS float[]), CAST(:most AS bigint[]))
         AS v(tenant, weight, most) ON v.tenant = c.tenant
    WHERE c.position <= coalesce(v.most, CAST(:most_of_others AS bigint), c.position)
    ORDER BY turn, c.lane, c.due_at
), due_texts AS (
    SELECT w.*, c.turn, c.lane, c.due_at FROM in_turn_texts c CROSS JOIN LATERAL (
        SELECT w.id, w.version, w.may_have_points, {is_text_only} AS text_only FROM chunks_open w
        WHERE w.ctid = c.at AND {TO_INDEX_TEXT:w} AND w.due_at <= now()
          AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
        FOR UPDATE SKIP LOCKED) w
    LIMIT CAST(:limit AS int)
), open_lanes_questions(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM chunks_open w WHERE {QUESTION_QUEUE:w} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes_questions p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM chunks_open w
        WHERE {QUESTION_QUEUE:w} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes_questions AS (
    SELECT p.tenant, p.lane FROM open_lanes_questions p WHERE NOT {is_paused:p}
), held_questions AS (
    SELECT w.tenant, count(*) AS rows FROM chunks_open w
    WHERE {TO_INDEX_QUESTIONS:w} AND w.leased_by IS NOT NULL AND w.due_at > now() GROUP BY w.tenant
), candidates_questions AS (
    SELECT p.tenant, {priority:p} AS lane, w.*
    FROM lanes_questions p CROSS JOIN unnest(CAST(:embeddings AS text[])) AS m(name) CROSS JOIN LATERAL (
        SELECT w.ctid AS at, w.due_at FROM chunks_open w
        WHERE {QUESTION_QUEUE:w} AND w.due_at <= now()
          AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
          AND w.tenant = p.tenant AND w.lane = p.lane AND w.embedding_model = m.name AND {no_other_is_live}
        ORDER BY w.due_at
        LIMIT least(4 * {limit_of_questions},
                    8 * {limit_of_questions} / (SELECT greatest(2 * count(DISTINCT tenant), count(*))::int
                                                FROM lanes_questions) + 1)
    ) w
), ranked_questions AS (
    SELECT c.*, coalesce(h.rows, 0) AS held,
           coalesce(h.rows, 0) + row_number() OVER (PARTITION BY c.tenant ORDER BY c.lane, c.due_at) AS position
    FROM candidates_questions c LEFT JOIN held_questions h ON h.tenant = c.tenant
), in_turn_questions AS (
    SELECT c.at, c.position / coalesce(v.weight, 1) AS turn, c.lane, c.due_at
    FROM ranked_questions c
    LEFT JOIN unnest(CAST(:tenants AS text[]), CAST(:weights AS float[]), CAST(:most AS bigint[]))
         AS v(tenant, weight, most) ON v.tenant = c.tenant
    WHERE c.position <= coalesce(v.most, CAST(:most_of_others AS bigint), c.position)
    ORDER BY turn, c.lane, c.due_at
), due_questions AS (
    SELECT w.*, c.turn, c.lane, c.due_at FROM in_turn_questions c CROSS JOIN LATERAL (
        SELECT w.id, w.version, w.may_have_points, false AS text_only FROM chunks_open w
        WHERE w.ctid = c.at AND {TO_INDEX_QUESTIONS:w} AND w.due_at <= now()
          AND w.lost_leases + (w.leased_by IS NOT NULL)::int < {suspect_after}
        FOR UPDATE SKIP LOCKED) w
    LIMIT {limit_of_questions}
), due AS (
    (SELECT id, version, may_have_points, text_only FROM due_texts ORDER BY turn, lane, due_at
     LIMIT CAST(:limit AS int) - (SELECT count(*)::int FROM due_questions))
    UNION ALL
    SELECT id, version, may_have_points, text_only FROM due_questions
), {leased}

-- name: claim_suspects_to_index
-- Claim suspects, the longest waiting first.
-- plan: generic
WITH due AS (
    SELECT w.id, w.version, w.may_have_points, ({TEXT_QUEUE:w} AND {is_text_only}) AS text_only FROM chunks_open w
    WHERE {TO_INDEX:w} AND w.lost_leases > 0
      AND w.lost_leases + (w.leased_by IS NOT NULL)::int >= {suspect_after} AND w.due_at <= now()
      AND NOT {is_paused:w} AND w.embedding_model = ANY(CAST(:embeddings AS text[]))
      AND ({TO_INDEX_TEXT:w} OR {no_other_is_live})
    ORDER BY w.due_at LIMIT CAST(:limit AS int)
    FOR UPDATE SKIP LOCKED
), {leased}
