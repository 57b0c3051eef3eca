-- name: insert
-- Insert a collection, unless it exists or the tenant has the maximum number.
INSERT INTO collections (id, tenant, name, build_state, options, embedding_model, index_name)
SELECT :id, :tenant, :name, {MAKE_COLLECTION.target}, CAST(:options AS jsonb), :embedding_model, :index_name
WHERE CAST(:most AS int) IS NULL
      OR (SELECT count(*) FROM collections WHERE tenant = :tenant AND {is_live}) < :most
ON CONFLICT DO NOTHING

-- name: hold_erasures
-- Prevent erasures of a tenant from starting until the transaction ends; many transactions may hold this lock.
SELECT pg_advisory_xact_lock_shared(hashtextextended(:tenant, 7065013))

-- name: hold_collections
-- Prevent collections of a tenant from being created until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended(:tenant, 7065013))

-- name: find_erasure
-- Find a running erasure of a tenant or of one of its collections.
SELECT id, collection FROM erasures
WHERE tenant = :tenant AND finished_at IS NULL AND scope <> 'documents'
  AND (collection IS NULL OR collection = :name)

-- name: lock
-- Lock a build of a collection while it is live. New documents wait, because each refers to the row.
SELECT {collection_columns} FROM collections WHERE id = :id AND {is_live} FOR UPDATE

-- name: has_documents
-- Return whether a collection has documents, including documents that are being deleted.
SELECT EXISTS (SELECT 1 FROM documents WHERE collection_id = :id)

-- name: has_points
-- Return whether a collection has points in Qdrant, or may still have some.
SELECT EXISTS (SELECT 1 FROM documents WHERE collection_id = :id)
       OR EXISTS (SELECT 1 FROM sweeps WHERE collection_id = :id)

-- name: set_embedding
-- Set another embedding of a locked collection; its calibration becomes invalid.
UPDATE collections SET embedding_model = :embedding_model, index_name = :index_name, calibration = NULL
WHERE id = :id RETURNING {collection_columns}

-- name: set_options
UPDATE collections SET options = CAST(:options AS jsonb) WHERE id = :id RETURNING {collection_columns}

-- name: set_description
-- Describe a locked collection.
UPDATE collections SET description = :description WHERE id = :id RETURNING {collection_columns}

-- name: find
-- Read a collection by its name: its live build.
-- plan: generic
SELECT {collection_columns} FROM collections WHERE tenant = :tenant AND name = :name AND {is_live}

-- name: names_near
-- List names of a tenant's collections before and after a name in their order, with the number of all.
(SELECT name, (SELECT count(*) FROM collections WHERE tenant = :tenant AND {is_live}) AS total
 FROM collections WHERE tenant = :tenant AND name >= :name AND {is_live} ORDER BY name LIMIT :limit)
UNION ALL
(SELECT name, (SELECT count(*) FROM collections WHERE tenant = :tenant AND {is_live}) AS total
 FROM collections WHERE tenant = :tenant AND name < :name AND {is_live} ORDER BY name DESC LIMIT :limit)

-- name: page
-- List a tenant's collections in order of name.
SELECT {collection_columns} FROM collections
WHERE tenant = :tenant AND name > :after AND {is_live} ORDER BY name LIMIT :limit

-- name: count
-- Count a tenant's collections.
SELECT count(*) AS total FROM collections WHERE tenant = :tenant AND {is_live}

-- name: index_names
-- List the collections of Qdrant.
SELECT DISTINCT index_name FROM collections ORDER BY index_name

-- name: counts
-- Count the documents of some collections of a tenant by state.
SELECT part, state, sum(rows)::bigint FROM {document_counts} t
WHERE part = ANY(CAST(:ids AS text[])) AND {exists} GROUP BY part, state HAVING sum(rows) <> 0

-- name: last_changes
-- Find when documents of a tenant's collections changed last, among the tenant's last changes.
SELECT collection_id, max(updated_at) AS at FROM (
    SELECT collection_id, updated_at FROM documents WHERE tenant = :tenant
    ORDER BY updated_at DESC LIMIT :limit) d
GROUP BY collection_id

-- name: confirmed_points
-- Count the points that Qdrant has confirmed for some chunks of live versions: of the text and of questions that
-- passed.
SELECT coalesce(sum(c.points), 0)::bigint AS points FROM (
    SELECT 1 + CASE WHEN c.state = {ChunkState.INDEXED} THEN c.questions_passed ELSE 0 END AS points
    FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.live_version
    WHERE d.collection_id = :collection AND {exists:d} AND c.points_token IS NOT NULL
      AND c.state IN ({ChunkState.GENERATING}, {ChunkState.GENERATED}, {ChunkState.INDEXED})
    LIMIT :limit) c

-- name: languages_of_texts
-- Count the languages of some texts of collections: of the first texts of any hundred documents each.
SELECT d.collection_id, t.content ->> 'language' AS language, count(*) AS texts
FROM unnest(CAST(:ids AS uuid[])) AS c (id)
CROSS JOIN LATERAL (
    SELECT id, collection_id, live_version FROM documents
    WHERE collection_id = c.id AND live_version IS NOT NULL AND {exists} LIMIT 100) d
CROSS JOIN LATERAL (
    SELECT id, version FROM chunks WHERE document_id = d.id AND version = d.live_version ORDER BY ordinal LIMIT 3) k
JOIN chunk_contents t ON t.chunk_id = k.id AND t.version = k.version
WHERE t.content ->> 'language' IS NOT NULL
GROUP BY d.collection_id, language
