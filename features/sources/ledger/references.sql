-- name: waiting
-- List the uploads of a source among the documents that workers parse, and among the next ones in the queue.
-- plan: generic
SELECT v.upload
FROM (
    (SELECT w.id, w.version FROM documents w
     WHERE w.tenant = :tenant AND w.leased_by IS NOT NULL AND {TO_PARSE:w} LIMIT CAST(:searched AS int))
    UNION ALL
    (SELECT w.id, w.version FROM documents w
     WHERE w.tenant = :tenant AND {PARSE_QUEUE:w} AND w.leased_by IS NULL
     ORDER BY w.lane, w.due_at LIMIT CAST(:searched AS int))
) d
JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
WHERE split_part(v.upload, '#', 1) = :stored_in
LIMIT CAST(:most AS int)
