-- part: finished
-- The documents and chunks that finished in each minute.
SELECT tenant, date_trunc('minute', at, 'UTC') AS minute,
       coalesce(sum(change) FILTER (WHERE counted = 'chunks' AND state = {ChunkState.INDEXED}), 0)::int AS chunks,
       coalesce(sum(change) FILTER (WHERE counted = 'chunks' AND state = {ChunkState.DEAD}), 0)::int AS dead_chunks,
       coalesce(sum(change) FILTER (WHERE counted = 'documents'
                                    AND state IN ({DocumentState.READY}, {DocumentState.DEGRADED})), 0)::int
           AS documents,
       coalesce(sum(change) FILTER (WHERE counted = 'documents'
                                    AND state = {DocumentState.FAILED}), 0)::int AS failed_documents

-- part: are_finished
WHERE change > 0
  AND state IN ({ChunkState.INDEXED}, {ChunkState.DEAD},
                {DocumentState.READY}, {DocumentState.DEGRADED}, {DocumentState.FAILED})
GROUP BY tenant, minute

-- name: add_up
-- Add up changes that are older than an age, the oldest first.
WITH deleted AS (
    DELETE FROM tally_changes WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM tally_changes WHERE at <= now() - CAST(:age AS interval)
        ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED))
    RETURNING tenant, counted, part, state, change, at
), ended AS (
    INSERT INTO ended_by_minute AS e (tenant, minute, chunks, dead_chunks, documents, failed_documents)
    {finished} FROM deleted {are_finished} ORDER BY tenant, minute
    ON CONFLICT (tenant, minute) DO UPDATE
    SET chunks = e.chunks + excluded.chunks, dead_chunks = e.dead_chunks + excluded.dead_chunks,
        documents = e.documents + excluded.documents,
        failed_documents = e.failed_documents + excluded.failed_documents
), added AS (
    INSERT INTO tallies AS t (tenant, counted, part, state, rows)
    SELECT tenant, counted, part, state, sum(change) FROM deleted
    GROUP BY tenant, counted, part, state ORDER BY tenant, counted, part, state
    ON CONFLICT (tenant, counted, part, state) DO UPDATE SET rows = t.rows + excluded.rows
)
SELECT count(*) FROM deleted

-- name: history
-- Sum up a tenant's finished documents and chunks in each of the last minutes, including this one; 0 for minutes
-- without any.
WITH finished AS (
    SELECT tenant, minute, chunks, dead_chunks, documents, failed_documents FROM ended_by_minute
    WHERE tenant = :tenant
    UNION ALL
    {finished} FROM (SELECT * FROM tally_changes WHERE tenant = :tenant) c {are_finished}
), minutes AS (
    SELECT generate_series(date_trunc('minute', now(), 'UTC') - make_interval(mins => CAST(:minutes AS int) - 1),
                           now(), interval '1 minute') AS minute
)
SELECT m.minute, coalesce(sum(k.chunks), 0)::int AS chunks, coalesce(sum(k.dead_chunks), 0)::int AS dead_chunks,
       coalesce(sum(k.documents), 0)::int AS documents,
       coalesce(sum(k.failed_documents), 0)::int AS failed_documents
FROM minutes m LEFT JOIN finished k ON k.minute = m.minute GROUP BY m.minute ORDER BY m.minute

-- name: delete_minutes
DELETE FROM ended_by_minute WHERE minute <= now() - CAST(:age AS interval)

-- name: delete_changes
-- Delete the changes of a build without documents.
DELETE FROM tally_changes WHERE tenant = :tenant AND counted IN ('documents', 'readers') AND part = :part

-- name: delete_counters
-- Delete the counters of a build without documents: the sums are 0.
DELETE FROM tallies WHERE tenant = :tenant AND counted IN ('documents', 'readers') AND part = :part
