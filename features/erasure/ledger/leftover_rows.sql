-- name: tables
-- List the tables with the columns that may contain a tenant's name, and their numbers of pages.
SELECT t.table_name AS name,
       coalesce(array_agg(quote_ident(c.column_name)) FILTER (WHERE c.data_type = 'text'), '{}') AS texts,
       pg_relation_size(quote_ident(t.table_name)::regclass) / current_setting('block_size')::int AS pages
FROM information_schema.tables t JOIN information_schema.columns c USING (table_schema, table_name)
WHERE t.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
GROUP BY t.table_name ORDER BY t.table_name

-- name: collections
-- Find the ids that a tenant, or one of its collections, still has.
SELECT id FROM collections WHERE tenant = :tenant AND (CAST(:collection AS text) IS NULL OR name = :collection)

-- name: documents
-- Find the ids of a document's rows in all builds.
SELECT id FROM documents WHERE public_id = :id

-- name: job_claims_under_name
-- Count claims on jobs under the name of a collection that does not exist.
{under_name:job_claims}

-- name: jobs_under_name
-- Count jobs under the name of a collection that does not exist.
{under_name:jobs}

-- name: disabled_questions_under_name
-- Count disabled questions under the name of a collection that does not exist.
{under_name:disabled_questions}

-- name: contents_without_chunk
-- Count contents of deleted chunks in some pages.
SELECT count(*) AS rows FROM chunk_contents t
WHERE {slice} AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = t.chunk_id AND c.version = t.version)

-- name: questions_without_chunk
-- Count questions of deleted chunks in some pages.
SELECT count(*) AS rows FROM chunk_questions t
WHERE {slice} AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = t.chunk_id AND c.version = t.version)

-- name: packs
-- List the parts of packs that versions name.
SELECT array_agg(DISTINCT upload) AS parts FROM document_versions
WHERE strpos(upload, '#') > 0 AND NOT {is_reference} GROUP BY {stored_in} ORDER BY {stored_in}
