-- part: shown
-- The columns of a document with the content of its newest version.
{document_columns}, v.filename, v.title, v.media_type,
CASE WHEN CAST(:metadata AS boolean) THEN v.metadata END AS metadata, v.readable_by, v.size_bytes, v.content_hash,
v.text_coverage, v.missing, l.name AS collection

-- part: with_content
-- Documents with the content of their newest versions.
documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
JOIN collections l ON l.id = d.collection_id

-- part: has_words
(CAST(CAST(:words AS text) AS tsquery) IS NULL OR v.words @@ CAST(CAST(:words AS text) AS tsquery))

-- part: rest
-- The conditions of documents that are not read by a walk.
d.tenant = :tenant AND {exists:d} AND {of_tenant} AND {is_named} AND {follows}
  AND d.state = ANY(CAST(:states AS text[]))

-- part: first
-- The ids of the first documents in this order.
{walk} ORDER BY {by} LIMIT :most

-- name: listed
-- List documents among the first in this order.
SELECT {shown} FROM {with_content} WHERE d.id IN ({first}) AND {has_words} ORDER BY {by} LIMIT :limit

-- name: count
-- Count the first documents in this order.
SELECT count(*) FROM ({first}) f

-- name: with_ids
SELECT {shown} FROM {with_content} {joined}
WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND {has_words} AND {rest}
ORDER BY {by} LIMIT :limit

-- part: found
-- The documents whose newest version has the words. The index of words is read first, then each document by its id.
-- OFFSET 0 keeps the planner from reading all documents of the tenant, whatever its estimates are.
(SELECT * FROM document_versions WHERE words @@ CAST(CAST(:words AS text) AS tsquery) OFFSET 0) v
CROSS JOIN LATERAL (
    SELECT d.* FROM documents d WHERE d.id = v.document_id AND d.version = v.version OFFSET 0) d
JOIN collections l ON l.id = d.collection_id

-- name: hits
-- Count the documents that a search finds, at most :most.
SELECT count(*) FROM (
    SELECT 1 FROM {found} {joined} WHERE {rest} LIMIT :most) f

-- name: with_words
SELECT {shown} FROM {found} {joined}
WHERE {rest}
ORDER BY {by} LIMIT :limit
