-- part: set_columns
-- The columns of a labelled set.
name, questions, changed_at

-- name: lock_sets
-- Lock the labelled sets of a collection until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('labelled:' || :tenant || '/' || :collection, 0))

-- name: count_other_sets
-- Count the other labelled sets of a collection.
SELECT count(*) FROM labelled_sets WHERE tenant = :tenant AND collection = :collection AND name <> :name

-- name: save_set
-- Write a labelled set, replacing one of the same name.
INSERT INTO labelled_sets (tenant, collection, name, questions)
VALUES (:tenant, :collection, :name, CAST(:questions AS jsonb))
ON CONFLICT (tenant, collection, name) DO UPDATE SET questions = excluded.questions, changed_at = now()
RETURNING {set_columns}

-- name: get_set
-- Read a labelled set.
SELECT {set_columns} FROM labelled_sets WHERE tenant = :tenant AND collection = :collection AND name = :name

-- name: list_sets
-- List the labelled sets of a collection, without their questions.
SELECT name, jsonb_array_length(questions) AS questions, changed_at FROM labelled_sets
WHERE tenant = :tenant AND collection = :collection ORDER BY name

-- name: delete_set
-- Delete a labelled set.
DELETE FROM labelled_sets WHERE tenant = :tenant AND collection = :collection AND name = :name RETURNING name

-- name: count_documents
-- Count documents of a build by their names.
SELECT count(*) FROM documents
WHERE collection_id = :collection AND external_id = ANY(CAST(:ids AS text[])) AND {exists}

-- name: count_chunks
-- Count chunks of a build that queries see.
SELECT count(*) FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
WHERE c.id = ANY(CAST(CAST(:ids AS text[]) AS uuid[])) AND d.collection_id = :collection AND {exists:d}

-- name: erase_of_tenant
-- Delete some labelled sets of an erased tenant.
DELETE FROM labelled_sets
WHERE ctid = ANY(ARRAY(SELECT ctid FROM labelled_sets WHERE tenant = :tenant LIMIT :limit)) RETURNING 1

-- name: erase_of_part
-- Delete some labelled sets of an erased collection. No other collection has its name before the erasure has ended.
DELETE FROM labelled_sets WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM labelled_sets
    WHERE tenant = :tenant AND collection = CAST(:collection AS text) LIMIT :limit
)) RETURNING 1

-- name: count_under_name
-- Count labelled sets under the name of a collection that does not exist.
SELECT count(*) AS rows FROM labelled_sets s
WHERE s.tenant = :tenant AND s.collection = :collection
  AND NOT EXISTS (SELECT 1 FROM collections c WHERE c.tenant = s.tenant AND c.name = s.collection)
