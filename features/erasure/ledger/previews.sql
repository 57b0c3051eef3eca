-- name: next_documents
-- Return the next documents of a tenant's live builds, or of one collection, by build and external id.
SELECT d.collection_id, d.external_id, d.public_id
FROM (SELECT id FROM collections
      WHERE tenant = :tenant AND {is_live} AND (CAST(:collection AS text) IS NULL OR name = :collection)
        AND id >= CAST(:build AS uuid)
      ORDER BY id) l
CROSS JOIN LATERAL (
    SELECT * FROM documents d
    WHERE d.collection_id = l.id AND {exists:d}
      AND (l.id > CAST(:build AS uuid) OR d.external_id > CAST(:after AS text))
    ORDER BY d.external_id LIMIT :limit) d
ORDER BY l.id, d.external_id LIMIT :limit

-- part: rows_of
-- The rows of some documents in all builds.
documents d WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND d.tenant = :tenant AND {exists:d}

-- name: find_texts
-- Find the parts of documents in which texts that name a person occur, each with an excerpt. The chunks of all versions
-- are read, except versions that are being deleted. The text of a picture is a model's description.
SELECT DISTINCT ON (d.public_id, w.part) d.public_id, w.part,
       substring(w.text FROM CAST(:excerpt AS text)) AS excerpt
FROM (SELECT d.id, d.public_id, d.external_id FROM {rows_of}) d
CROSS JOIN LATERAL (
    SELECT 'external_id' AS part, 0 AS rank, d.external_id AS text
    UNION ALL
    SELECT f.part, 0, f.text
    FROM document_versions v
    CROSS JOIN LATERAL (VALUES ('title', v.title), ('filename', v.filename), ('metadata', CAST(v.metadata AS text)),
                               ('questions', CAST(v.ready_questions AS text))) AS f(part, text)
    WHERE v.document_id = d.id AND NOT v.obsolete
    UNION ALL
    SELECT f.part, c.ordinal, f.text
    FROM chunks c
    JOIN document_versions v ON v.document_id = c.document_id AND v.version = c.version AND NOT v.obsolete
    JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
    LEFT JOIN completions p ON t.content ->> 'picture' IS NOT NULL AND p.content_key = c.content_key
    CROSS JOIN LATERAL (
        VALUES ('text', concat_ws(E'\n', nullif(t.content ->> 'heading_path', '[]'), t.content ->> 'text', p.text)),
               ('questions', array_to_string(t.ready_questions, E'\n'))) AS f(part, text)
    WHERE c.document_id = d.id) w
WHERE w.text ~ CAST(:pattern AS text)
ORDER BY d.public_id, w.part, w.rank

-- name: documents
-- Read documents with the names of their collections, and the numbers of rows that an erasure deletes.
SELECT l.public_id, l.collection, l.external_id, l.title, l.filename, l.state, s.versions, s.chunks, s.questions,
       s.accepted_questions
FROM (SELECT DISTINCT ON (d.public_id) d.public_id, b.name AS collection, d.external_id, v.title, v.filename, d.state
      FROM documents d JOIN collections b ON b.id = d.collection_id AND {is_live:b}
      JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
      WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND d.tenant = :tenant AND {exists:d}) l
JOIN (SELECT d.public_id, sum(v.versions)::bigint AS versions, sum(c.chunks)::bigint AS chunks,
             coalesce(sum(c.questions), 0)::bigint AS questions, sum(a.accepted)::bigint AS accepted_questions
      FROM (SELECT d.id, d.public_id FROM {rows_of}) d
      CROSS JOIN LATERAL (SELECT count(*) AS versions FROM document_versions v WHERE v.document_id = d.id) v
      CROSS JOIN LATERAL (SELECT count(*) AS chunks, sum(c.questions_passed) AS questions
                          FROM chunks c WHERE c.document_id = d.id) c
      CROSS JOIN LATERAL (SELECT count(*) AS accepted FROM accepted_questions a WHERE a.document_id = d.id) a
      GROUP BY d.public_id) s ON s.public_id = l.public_id
ORDER BY l.collection, l.external_id
