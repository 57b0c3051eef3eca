-- part: visible
-- The documents that a tenant sees.
SELECT {shown}, l.name AS collection
FROM documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
JOIN collections l ON l.id = d.collection_id
WHERE d.tenant = :tenant AND {exists:d} AND {is_live:l}

-- part: visible_after
-- A row contains the start time of its transaction, and becomes visible when the transaction ends: within 20 s, the
-- limit of every transaction.
interval '25 seconds'

-- name: get
{visible} AND d.public_id = :id

-- name: now
-- Read PostgreSQL's clock: times in rows are compared with no other one.
SELECT now()

-- name: changed
-- List the documents that may have changed, the latest change first.
{visible} AND d.updated_at > least(now(), CAST(:since AS timestamptz)) - {visible_after}
ORDER BY d.updated_at DESC LIMIT :limit

-- name: in_progress
-- List documents that are in progress, newest, or possibly just changed, latest change first.
{visible} AND d.id IN (
    ({newest})
    UNION ALL
    (SELECT d.id FROM documents d JOIN collections l ON l.id = d.collection_id
     WHERE d.tenant = :tenant AND {exists:d} AND {is_live:l}
       AND d.updated_at > now() - {visible_after}
     ORDER BY d.updated_at DESC LIMIT :limit))
ORDER BY d.updated_at DESC LIMIT :limit

-- name: pages
-- Count the pages without a text layer of the newest versions.
SELECT d.id, count(*) AS pages, count(*) FILTER (WHERE p.state = {PageState.READ}) AS pages_read,
       count(*) FILTER (WHERE p.state IN ({PageState.DEAD}, {PageState.DISCARDED})) AS pages_unread
FROM unnest(CAST(:ids AS uuid[])) AS i(id)
CROSS JOIN LATERAL (SELECT d.id, d.version FROM documents d WHERE d.id = i.id OFFSET 0) d
CROSS JOIN LATERAL (SELECT p.state FROM pages p WHERE p.document_id = d.id AND p.version = d.version OFFSET 0) p
GROUP BY d.id

-- name: progress
-- Count the chunks of the newest versions by state, with their costs, by one index lookup per document. For a million
-- documents the planner would read all chunks.
SELECT d.id, count(*) AS total,
       count(*) FILTER (
           WHERE c.state IN ({ChunkState.GENERATING}, {ChunkState.GENERATED}, {ChunkState.INDEXED})) AS searchable,
       count(*) FILTER (WHERE c.state IN ({ChunkState.GENERATED}, {ChunkState.INDEXED})) AS generated,
       count(*) FILTER (WHERE c.state = {ChunkState.INDEXED}) AS indexed,
       count(*) FILTER (WHERE c.state = {ChunkState.DEAD}) AS dead,
       count(*) FILTER (WHERE c.state = {ChunkState.DISCARDED}) AS discarded,
       sum(c.questions_passed)::int AS questions,
       sum(c.prompt_tokens)::int AS prompt_tokens,
       sum(c.completion_tokens)::int AS completion_tokens,
       sum(c.calls)::int AS calls, {tier_tokens} AS tier_tokens,
       min(c.error) FILTER (
           WHERE c.state IN ({ChunkState.PARSED}, {ChunkState.GENERATING}, {ChunkState.GENERATED})) AS waiting
FROM unnest(CAST(:ids AS uuid[])) AS i(id)
CROSS JOIN LATERAL (SELECT d.id, d.version FROM documents d WHERE d.id = i.id OFFSET 0) d
CROSS JOIN LATERAL (SELECT c.* FROM chunks c WHERE c.document_id = d.id AND c.version = d.version OFFSET 0) c
GROUP BY d.id
