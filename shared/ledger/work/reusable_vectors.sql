-- name: versions_with_points
-- Find the versions that may have points of documents: the live and the newest one, in each build with the same
-- embedding and the same Qdrant collection. Builds that extend the texts that they embed come last.
SELECT d.id AS document_id, o.id, o.collection_id, v.version
FROM documents d JOIN collections l ON l.id = d.collection_id
JOIN documents o ON o.public_id = d.public_id AND {exists:o}
JOIN collections b ON b.id = o.collection_id AND b.tenant = l.tenant AND b.name = l.name
                      AND b.embedding_model = l.embedding_model AND b.index_name = l.index_name
CROSS JOIN LATERAL (VALUES (o.live_version), (nullif(o.version, o.live_version))) AS v(version)
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND v.version IS NOT NULL
ORDER BY coalesce('true' IN (b.options ->> 'prepend_questions', b.options ->> 'context'), false), b.build, v.version

-- name: chunks_with_points
-- Return the chunks among these whose points exist, with the results of the question filter. OFFSET limits it to one
-- index lookup per chunk.
SELECT s.token, c.id, c.version, {questions} AS questions, q.reasons
FROM unnest(CAST(:tokens AS bigint[]), CAST(:ids AS uuid[]), CAST(:versions AS int[])) WITH ORDINALITY
     AS s(token, id, version, position)
CROSS JOIN LATERAL (
    SELECT c.id, c.version FROM chunks c
    WHERE c.id = s.id AND c.version = s.version AND c.points_token IS NOT NULL OFFSET 0) c
LEFT JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
ORDER BY s.position
