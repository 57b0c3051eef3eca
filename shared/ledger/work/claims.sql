-- part: lost_leases
-- Number of ended leases of a row: the leases that earlier claims counted, and the lease that this claim takes over.
w.lost_leases + (w.leased_by IS NOT NULL)::int

-- part: lanes
-- The lanes in which tenants have open work, each found by one index lookup, without the lanes of paused jobs.
open_lanes{{argument}_suffix}(tenant, lane) AS (
    (SELECT w.tenant, w.lane FROM {{argument}_table} w WHERE {{argument}_is_open} ORDER BY w.tenant, w.lane LIMIT 1)
    UNION ALL
    SELECT n.tenant, n.lane FROM open_lanes{{argument}_suffix} p CROSS JOIN LATERAL (
        SELECT w.tenant, w.lane FROM {{argument}_table} w
        WHERE {{argument}_is_open} AND (w.tenant, w.lane) > (p.tenant, p.lane)
        ORDER BY w.tenant, w.lane LIMIT 1) n
), lanes{{argument}_suffix} AS (
    SELECT p.tenant, p.lane FROM open_lanes{{argument}_suffix} p
    WHERE {{argument}_claims} AND NOT {is_paused:p} AND {{argument}_lane_has_room}
)

-- part: may_be_claimed
-- A row that is due and not a suspect.
{{argument}_is_open} AND w.due_at <= now() AND {lost_leases} < {suspect_after}

-- part: held
-- The number of rows in progress of each tenant.
SELECT w.tenant, count(*) AS rows FROM {{argument}_table} w
WHERE {{argument}_is_open} AND w.leased_by IS NOT NULL AND w.due_at > now() GROUP BY w.tenant

-- part: held_by_worker
-- The number of items of each tenant that this worker holds, even if another worker may claim them.
SELECT h.tenant, h.rows FROM unnest(CAST(:holders AS text[]), CAST(:held AS bigint[])) AS h(tenant, rows)

-- part: held_by_lane
-- The same in the lanes that workers claim: the lines of batches, which may be 100,000, are not read.
SELECT p.tenant, sum(w.rows)::bigint AS rows FROM open_lanes{{argument}_suffix} p CROSS JOIN LATERAL (
    SELECT count(*) AS rows FROM {{argument}_table} w
    WHERE {{argument}_is_open} AND w.tenant = p.tenant AND w.lane = p.lane AND w.leased_by IS NOT NULL
      AND w.due_at > now()) w
WHERE {{argument}_claims} GROUP BY p.tenant

-- part: fair
-- Claimable rows of a queue, locked, fairest first. There are four candidates per requested row, because concurrent
-- claims skip each other's rows. Candidates are locked only when they are selected, because a lock is written to the
-- row's page.
{lanes:{argument}}, held{{argument}_suffix} AS (
    {{argument}_held}
), candidates{{argument}_suffix} AS (
    SELECT p.tenant, {priority:p} AS lane, w.*
    FROM lanes{{argument}_suffix} p {{argument}_served} CROSS JOIN LATERAL (
        SELECT w.ctid AS at, w.due_at FROM {{argument}_table} w
        WHERE {may_be_claimed:{argument}} AND w.tenant = p.tenant AND w.lane = p.lane AND {{argument}_only}
        ORDER BY w.due_at
        LIMIT least(4 * {{argument}_limit},
                    8 * {{argument}_limit} / (SELECT greatest(2 * count(DISTINCT tenant), count(*))::int
                                               FROM lanes{{argument}_suffix}) + 1)
    ) w
), ranked{{argument}_suffix} AS (
    SELECT c.*, coalesce(h.rows, 0) AS held,
           coalesce(h.rows, 0) + row_number() OVER (PARTITION BY c.tenant ORDER BY c.lane, c.due_at) AS position
    FROM candidates{{argument}_suffix} c LEFT JOIN held{{argument}_suffix} h ON h.tenant = c.tenant
), in_turn{{argument}_suffix} AS (
    SELECT c.at, c.position / coalesce(v.weight, 1) AS turn, c.lane, c.due_at
    FROM ranked{{argument}_suffix} c
    LEFT JOIN unnest(CAST(:tenants AS text[]), CAST(:weights AS float[]), CAST(:most AS bigint[]))
         AS v(tenant, weight, most) ON v.tenant = c.tenant
    WHERE c.position <= coalesce(v.most, CAST(:most_of_others AS bigint), c.position) AND {{argument}_fits}
    ORDER BY turn, c.lane, c.due_at
), due{{argument}_suffix} AS (
    SELECT w.*, c.turn, c.lane, c.due_at FROM in_turn{{argument}_suffix} c CROSS JOIN LATERAL (
        SELECT {{argument}_columns} FROM {{argument}_table} w
        WHERE w.ctid = c.at AND {may_be_claimed:{argument}} FOR UPDATE SKIP LOCKED) w
    LIMIT {{argument}_limit}
)

-- part: suspects
-- Suspects of a queue, locked, the longest waiting first.
WITH due AS (
    SELECT {{argument}_columns} FROM {{argument}_table} w
    WHERE {{argument}_is_open} AND w.lost_leases > 0 AND {lost_leases} >= {suspect_after} AND w.due_at <= now()
      AND NOT {is_paused:w} AND {{argument}_only} AND {{argument}_only_suspects}
    ORDER BY w.due_at LIMIT {limit}
    FOR UPDATE SKIP LOCKED
)

-- part: leased
-- The columns that a claim sets.
due_at = now() + :lease, lease_token = nextval('fencing'), leased_by = :worker, lost_leases = {lost_leases}

-- part: lease_documents
-- Lease the due documents. They are looked up by an array, as the rows of the other claims: a kept plan expects ten
-- elements in it. Of a limit it expects a tenth of all waiting rows, for which it would read the whole table.
UPDATE documents w
SET {CLAIM_DOCUMENT.sets}, {leased}, updated_at = now()
FROM collections c, document_versions v
WHERE w.id = ANY(ARRAY(SELECT id FROM due)) AND c.id = w.collection_id AND v.document_id = w.id AND v.version = w.version
RETURNING w.id, w.version, w.lease_token, w.tenant, w.collection_id, c.options, c.languages, v.upload, v.filename,
          v.title, v.media_type, v.metadata, v.ready_questions, w.attempts, w.lost_leases, w.live_version,
          EXISTS (SELECT 1 FROM pages p WHERE p.document_id = w.id AND p.version = w.version) AS has_pages,
          v.traceparent

-- name: claim_documents
-- Claim documents to be parsed.
-- plan: generic
WITH RECURSIVE {fair:parse}
{lease_documents}

-- name: claim_suspect_documents
-- Claim suspects among the documents to be parsed.
-- plan: generic
{suspects:parse}
{lease_documents}

-- part: page_is_free
-- No worker is reading a page with the same text. OFFSET 0 keeps the lookups from becoming joins.
NOT EXISTS (SELECT 1 FROM pages o
            WHERE o.key = w.key AND {TO_READ:o} AND o.leased_by IS NOT NULL AND o.id <> w.id OFFSET 0)

-- part: languages_are_installed
-- The worker has the data of all languages of a page, or they are unknown.
coalesce(string_to_array({argument}.languages, '+') <@ CAST(:languages AS text[]), TRUE)

-- part: read_today
-- The number of pages that were read for a tenant on this day.
coalesce((SELECT b.pages FROM pages_by_day b
          WHERE b.tenant = {argument}.tenant AND b.day = (now() AT TIME ZONE 'UTC')::date), 0)

-- part: day_has_room
-- The pages that were read for a candidate's tenant on this day, with the pages in progress, are within its limit.
c.position + {read_today:c} <= coalesce(v.most, CAST(:most_of_others AS bigint))

-- part: day_has_room_for_suspect
-- The same for a suspect.
(SELECT count(*) FROM pages h
 WHERE {TO_READ:h} AND h.tenant = w.tenant AND h.leased_by IS NOT NULL AND h.due_at > now()) + {read_today:w}
    < coalesce((SELECT v.most FROM unnest(CAST(:tenants AS text[]), CAST(:most AS bigint[])) AS v(tenant, most)
                WHERE v.tenant = w.tenant), CAST(:most_of_others AS bigint))

-- part: lease_pages
-- Lease the due pages; a claim takes each text once.
, once AS (
    SELECT DISTINCT ON (key) id FROM due ORDER BY key, id
)
UPDATE pages w
SET {leased}
FROM documents d, document_versions v
WHERE w.id = ANY(ARRAY(SELECT id FROM once)) AND d.id = w.document_id AND v.document_id = w.document_id
  AND v.version = w.version
RETURNING w.id, w.version, w.lease_token, w.document_id, w.tenant, d.collection_id, v.upload, w.number, w.key,
          w.languages, w.attempts, w.lost_leases, v.traceparent,
          EXISTS (SELECT 1 FROM page_texts t WHERE t.key = w.key OFFSET 0) AS has_text

-- name: claim_pages
-- Claim pages to be read.
-- plan: generic
WITH RECURSIVE {fair:read}
{lease_pages}

-- name: claim_suspect_pages
-- Claim suspects among the pages to be read.
-- plan: generic
{suspects:read}
{lease_pages}

-- part: content_row
-- The content of a claimed chunk: one index lookup per row, whatever the statistics are.
FROM chunk_contents t WHERE t.chunk_id = w.id AND t.version = w.version

-- part: content_is_free
-- No other worker is paying for the content of a chunk, even for a version that was discarded meanwhile. OFFSET keeps the
-- lookups of such workers from becoming joins: a few rows need one index lookup each.
NOT EXISTS (
    SELECT 1 FROM chunks o
    WHERE o.content_key = w.content_key AND o.state = {ChunkState.GENERATING} AND o.leased_by IS NOT NULL
      AND (o.id, o.version) <> (w.id, w.version)
    OFFSET 0)
AND NOT {is_called:w w.content_key}

-- part: rooms
-- The number of chunks that the budgets of each tenant have room for, as far as known: the claim then reserves exactly.
-- A claim of more chunks would lease and release them. A budget of a collection or a job without room excludes only its
-- chunks.
rooms AS MATERIALIZED (
    SELECT b.tenant, min({budget_calls:b}) AS chunks
    FROM (SELECT DISTINCT tenant FROM lanes) t JOIN budgets b ON b.tenant = t.tenant
    WHERE b.collection IS NULL AND b.job_id IS NULL OR NOT ({budget_has_no_room:b})
    GROUP BY b.tenant
)

-- part: tenant_has_room
-- The budgets of a candidate's tenant have room for it.
c.position - c.held <= coalesce((SELECT r.chunks FROM rooms r WHERE r.tenant = c.tenant), c.position)

-- part: suspect_has_room
-- The budgets of a suspect's tenant have room.
NOT EXISTS (SELECT 1 FROM budgets b
            WHERE b.tenant = w.tenant AND b.collection IS NULL AND b.job_id IS NULL AND {budget_has_no_room:b})

-- part: lease_to_generate
-- Lease the due chunks; a claim takes each content once.
, once AS (
    SELECT DISTINCT ON (content_key) id, version FROM due ORDER BY content_key, id
)
UPDATE chunks w
SET {leased}
FROM once, documents d JOIN collections l ON l.id = d.collection_id
WHERE w.id = ANY(ARRAY(SELECT id FROM once)) AND (w.id, w.version) = (once.id, once.version) AND d.id = w.document_id
RETURNING w.id, w.version, w.lease_token, w.document_id, w.tenant, d.collection_id, d.job_id, l.options,
          (SELECT t.content {content_row}) AS content, (SELECT t.picture {content_row}) AS picture, w.content_key,
          w.attempts, w.lost_leases, w.prompt_tokens,
          w.completion_tokens, w.calls, w.tier_tokens,
          (SELECT p.replies FROM paid_replies p WHERE p.content_key = w.content_key) AS replies,
          EXISTS (SELECT 1 FROM budgets) AS has_budgets,
          (SELECT v.traceparent FROM document_versions v
           WHERE v.document_id = w.document_id AND v.version = w.version) AS traceparent

-- name: claim_to_generate
-- Claim chunks to generate.
-- plan: generic
WITH RECURSIVE {fair:generate}, {rooms}
{lease_to_generate}

-- name: claim_suspects_to_generate
-- Claim suspects among the chunks to generate.
-- plan: generic
{suspects:generate}
{lease_to_generate}

-- name: claim_to_batch
-- Claim chunks of a tenant in the batch lane for a batch.
WITH RECURSIVE {lanes:batch}, due AS (
    SELECT w.* FROM lanes_of_batches p CROSS JOIN LATERAL (
        SELECT {generate_columns} FROM chunks w
        WHERE {may_be_claimed:generate} AND w.tenant = p.tenant AND w.lane = p.lane AND {generate_only}
        ORDER BY w.due_at LIMIT {limit} FOR UPDATE SKIP LOCKED) w
    WHERE p.tenant = :tenant LIMIT {limit}
)
{lease_to_generate}

-- part: is_text_only
-- A chunk has no questions yet: its text is indexed first.
NOT w.ready_made
AND NOT EXISTS (SELECT 1 FROM completions p WHERE p.content_key = w.content_key OFFSET 0)

-- part: limit
-- The maximum number of rows of a claim.
CAST(:limit AS int)

-- part: limit_of_questions
-- A quarter of a claim is reserved for chunks with questions; they also get the slots that texts leave.
greatest({limit} / 4, {limit} - (SELECT count(*)::int FROM due_texts))

-- part: no_other_is_live
-- No other version of a chunk's document is live. Questions of a next version wait until it is: written earlier, their
-- points would be hidden, and so would be the point of the text, which is written with them. A version that became live
-- meanwhile would lose the text.
NOT EXISTS (SELECT 1 FROM documents h
            WHERE h.id = {argument}.document_id AND h.live_version <> {argument}.version OFFSET 0)

-- part: accepted
-- Users' questions for a chunk.
FROM accepted_questions a
WHERE a.chunk_id = w.id AND a.state IN ({AcceptedState.WAITING}, {AcceptedState.INDEXED}) ORDER BY a.id

-- part: lease_to_index
-- Lease the due chunks. The update is a separate statement. If it were joined, tables of a new ledger, without
-- statistics, would be joined by version before chunk: every due chunk with every document. While an older version is
-- live, every point of the newest one stays hidden.
, claimed AS (
    UPDATE chunks w
    SET {leased}, may_have_points = due.may_have_points OR NOT due.text_only
    FROM due WHERE w.id = ANY(ARRAY(SELECT id FROM due)) AND (w.id, w.version) = (due.id, due.version)
    RETURNING w.*, due.may_have_points AS had_points, due.text_only
)
SELECT w.id, w.version, w.lease_token, w.document_id, w.tenant, {priority:w} AS lane, d.collection_id,
       d.job_id, w.embedding_model, l.index_name, l.options, d.public_id, d.external_id, v.filename, v.metadata, w.ordinal,
       (SELECT CASE WHEN p.text IS NULL THEN t.content ELSE {described} END
        FROM chunk_contents t LEFT JOIN completions p ON p.content_key = t.content_key
        WHERE t.chunk_id = w.id AND t.version = w.version) AS content,
       coalesce(d.live_version <> w.version, false) AS hidden,
       l.followed OR NOT ({is_live:l}) AS of_several_builds,
       w.ready_made,
       coalesce((SELECT t.ready_questions {content_row} AND w.ready_made),
                (SELECT p.questions FROM completions p WHERE p.content_key = w.content_key AND w.error IS NULL),
                '{}') AS questions,
       ARRAY(SELECT a.id {accepted}) AS accepted_ids,
       ARRAY(SELECT a.question {accepted}) AS accepted_questions,
       w.error, w.attempts, w.lost_leases, d.created_at, w.had_points AS may_have_points,
       w.text_only, w.points_token IS NOT NULL AS has_text, w.questions_passed, v.traceparent
FROM claimed w
JOIN documents d ON d.id = w.document_id JOIN collections l ON l.id = d.collection_id
JOIN document_versions v ON v.document_id = w.document_id AND v.version = w.version

-- name: claim_to_index
-- Claim chunks to index with their questions, if these exist, and with users' questions.
-- plan: generic
WITH RECURSIVE {fair:texts}, {fair:questions}, due AS (
    (SELECT id, version, may_have_points, text_only FROM due_texts ORDER BY turn, lane, due_at
     LIMIT {limit} - (SELECT count(*)::int FROM due_questions))
    UNION ALL
    SELECT id, version, may_have_points, text_only FROM due_questions
)
{lease_to_index}

-- name: claim_suspects_to_index
-- Claim suspects among the chunks to index.
-- plan: generic
{suspects:index}
{lease_to_index}

-- part: oldest_in_lane
-- The due time of the row that has been due longest, in each lane and part of a queue. Deferred rows are not read one
-- by one. The order keeps the planner on the index, whatever its statistics are.
WITH RECURSIVE {lanes:{argument}}
SELECT {priority:p} AS lane, w.due_at FROM lanes{{argument}_suffix} p {{argument}_models} CROSS JOIN LATERAL (
    SELECT w.due_at FROM {{argument}_table} w
    WHERE {{argument}_is_open} AND w.tenant = p.tenant AND w.lane = p.lane AND {{argument}_of_model}
      AND w.due_at <= now()
    ORDER BY w.due_at LIMIT 1) w

-- name: oldest
-- Return the waiting times of the oldest due rows of all tenants, with one index lookup each.
SELECT stage, lane, now() - min(due_at) AS age FROM (
    SELECT 'parse' AS stage, f.lane, f.due_at FROM ({oldest_in_lane:parse}) f
    UNION ALL
    SELECT 'read' AS stage, f.lane, f.due_at FROM ({oldest_in_lane:read}) f
    UNION ALL
    SELECT 'generate' AS stage, f.lane, f.due_at FROM ({oldest_in_lane:generate}) f
    UNION ALL
    SELECT 'index' AS stage, f.lane, f.due_at FROM ({oldest_in_lane:texts}) f
    UNION ALL
    SELECT 'index' AS stage, f.lane, f.due_at FROM ({oldest_in_lane:questions}) f
) o GROUP BY stage, lane

-- name: due
-- Return the stages with claimable rows.
-- plan: generic
SELECT EXISTS ({oldest_in_lane:parse}) AS parse, EXISTS ({oldest_in_lane:read}) AS read,
       EXISTS ({oldest_in_lane:generate}) AS generate,
       EXISTS ({oldest_in_lane:texts}) OR EXISTS ({oldest_in_lane:questions}) AS index
