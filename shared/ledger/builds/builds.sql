-- part: has_live_build
-- A collection that is being erased has no live build, and its other builds are invisible.
EXISTS (
    SELECT 1 FROM collections l WHERE l.tenant = :tenant AND l.name = :name AND {is_live:l})

-- name: list
-- List the builds of a collection in order of their numbers.
SELECT {collection_columns} FROM collections
WHERE tenant = :tenant AND name = :name AND {has_live_build} ORDER BY build

-- name: states
-- List the builds of some collections.
SELECT name, build, build_state FROM collections
WHERE tenant = :tenant AND name = ANY(CAST(:names AS text[])) ORDER BY name, build

-- name: get
SELECT {collection_columns} FROM collections
WHERE tenant = :tenant AND name = :name AND build = :number AND {has_live_build}

-- name: insert
INSERT INTO collections
    (id, tenant, name, build, build_state, filled_until, options, embedding_model, index_name)
VALUES (:id, :tenant, :name, :number, {START_BUILD.target}, '', CAST(:options AS jsonb), :embedding_model,
        :index_name)
RETURNING {collection_columns}

-- name: mark_followed
-- Record at the live build whether other builds follow it. If none does, uploads need not read other rows.
UPDATE collections SET followed = EXISTS (
    SELECT 1 FROM collections o
    WHERE o.tenant = :tenant AND o.name = :name AND {is_follower:o})
WHERE tenant = :tenant AND name = :name AND {is_live}

-- name: pause
UPDATE collections SET {PAUSE_FILL.sets} WHERE id = :id RETURNING {collection_columns}

-- name: resume
UPDATE collections SET {RESUME_FILL.sets} WHERE id = :id RETURNING {collection_columns}

-- name: find_filling
SELECT id, tenant, name FROM collections WHERE {FINISH_FILL.applies} ORDER BY random() LIMIT 1

-- name: lock_filling
-- Lock a build that is being filled, unless another process fills it.
SELECT filled_until FROM collections WHERE id = :id AND {FINISH_FILL.applies} FOR NO KEY UPDATE SKIP LOCKED

-- name: live_documents
SELECT d.id, d.external_id FROM documents d
WHERE d.collection_id = :live AND {exists:d} AND d.external_id > :after
ORDER BY d.external_id LIMIT :limit

-- name: lock_source
-- Lock the remaining documents in the lock order of all writers, so that none is edited or deleted before it is copied.
SELECT id FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND {exists} ORDER BY id FOR SHARE

-- name: save_fill_progress
UPDATE collections SET filled_until = :until WHERE id = :id

-- name: finish_fill
-- Finish the fill of a build: it has every document.
UPDATE collections SET filled_until = NULL, {FINISH_FILL.sets} WHERE id = :id

-- name: switch_from
-- Retire the live build. Cached queries may still use it for a while. The transaction may have waited for its locks.
UPDATE collections SET {SWITCH_FROM.sets}, live_until = clock_timestamp()
WHERE tenant = :tenant AND name = :name AND {is_live}
RETURNING description

-- name: switch_to
-- Make a build visible to queries, with the description of the collection.
UPDATE collections SET {SWITCH_TO.sets}, live_until = NULL, description = :description WHERE id = :id
RETURNING {collection_columns}

-- name: drop
-- Mark a build for deletion.
UPDATE collections SET {DROP_BUILD.sets}, filled_until = NULL WHERE id = :id RETURNING {collection_columns}

-- name: lock_dropping
-- Lock a build to delete if no query or upload can have it cached any more.
-- plan: generic
SELECT id FROM collections
WHERE {is_dropping} AND emptied_at IS NULL
  AND (live_until IS NULL OR live_until <= now() - CAST(:after AS interval))
ORDER BY random() LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED

-- name: delete_documents
-- Delete documents of a build. Accepted questions are deleted with their rows.
UPDATE documents d SET {DELETE.sets}, {next_version}, {due_again}
WHERE d.id = ANY(ARRAY(
    SELECT id FROM documents WHERE collection_id = :id AND {exists} LIMIT :limit FOR UPDATE))
RETURNING d.id

-- name: delete_document_rows
-- Delete the rows of a build's documents whose versions are deleted. Their points are deleted together with the build.
DELETE FROM documents WHERE id = ANY(ARRAY(
    SELECT d.id FROM documents d
    WHERE d.collection_id = :id AND NOT ({exists:d})
      AND NOT EXISTS (SELECT 1 FROM document_versions v WHERE v.document_id = d.id)
    LIMIT :limit))
RETURNING id

-- name: mark_emptied
-- Record that a build has no document left.
UPDATE collections SET emptied_at = now()
WHERE id = :id AND NOT EXISTS (SELECT 1 FROM documents WHERE collection_id = :id)
RETURNING id

-- name: list_emptied
-- List builds without documents and without possible writers.
SELECT {collection_columns} FROM collections WHERE emptied_at <= now() - CAST(:after AS interval)

-- name: move_cost_changes
-- Reassign a deleted build's costs to its collection.
UPDATE spent_changes SET collection_id = :live WHERE collection_id = :id

-- name: move_costs
-- Add a deleted build's daily costs to the costs of its collection.
WITH deleted AS (DELETE FROM spent_by_day WHERE tenant = :tenant AND collection_id = :id RETURNING *)
INSERT INTO spent_by_day AS d (tenant, collection_id, kind, model, day, tier, job_id, prompt_tokens, completion_tokens,
                               cached_tokens, cache_write_tokens, calls)
SELECT tenant, :live, kind, model, day, tier, job_id, prompt_tokens, completion_tokens, cached_tokens,
       cache_write_tokens, calls
FROM deleted
ON CONFLICT (tenant, collection_id, kind, model, day, tier, job_id) DO UPDATE
SET prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = d.completion_tokens + excluded.completion_tokens,
    cached_tokens = d.cached_tokens + excluded.cached_tokens,
    cache_write_tokens = d.cache_write_tokens + excluded.cache_write_tokens, calls = d.calls + excluded.calls

-- name: delete
-- Delete a build that has no document and no point left.
DELETE FROM collections WHERE id = :id AND {is_dropping}

-- name: counts
-- Count the documents of some builds of a tenant by state.
SELECT part, state, sum(rows)::bigint AS rows FROM {document_counts} t
WHERE part = ANY(CAST(:ids AS text[])) AND {exists} GROUP BY part, state HAVING sum(rows) <> 0
