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

-- part: run_columns
-- The columns of a run.
id, labelled_set, questions, phase AS state, strategy, done, total, error, created_at, ended_at

-- part: of_collection
-- The rows of a collection.
tenant = :tenant AND collection = :collection

-- name: insert_run
-- Insert a queued run.
INSERT INTO evaluations (id, tenant, collection, labelled_set, questions, request, phase)
VALUES (:id, :tenant, :collection, :labelled_set, :questions, CAST(:request AS json), {QUEUED})
RETURNING {run_columns}, NULL AS results

-- name: delete_oldest_runs
-- Delete the oldest finished runs of a collection.
DELETE FROM evaluations WHERE id IN (
    SELECT id FROM evaluations WHERE {of_collection} ORDER BY created_at DESC, id DESC OFFSET :retained
) AND phase NOT IN ({QUEUED}, {RUNNING})

-- name: get_request
-- Read the questions and the strategies of a claimed run.
SELECT e.request FROM evaluations e JOIN runs r ON r.id = e.id WHERE e.id = :id AND r.token = :token

-- name: save_progress
-- Save the progress of a claimed run.
UPDATE evaluations e SET strategy = :strategy, done = :done, total = :total
FROM runs r WHERE e.id = :id AND r.id = e.id AND r.token = :token

-- name: finish_run
-- Save the results of a claimed run, which ends.
WITH {ended}
UPDATE evaluations e
SET phase = {DONE}, results = CAST(:results AS json), rows = CAST(:rows AS json), done = :queries, total = :queries,
    ended_at = now(), request = NULL
FROM ended WHERE e.id = ended.id

-- name: get_run
-- Read a run.
SELECT {run_columns}, results FROM evaluations WHERE {of_collection} AND id = :id

-- name: list_runs
-- List the runs of a collection, newest first, with their summary rows.
SELECT {run_columns}, json_build_object('rows', rows) AS results FROM evaluations
WHERE {of_collection} ORDER BY created_at DESC, id DESC

-- name: delete_run
-- Delete a run.
DELETE FROM evaluations WHERE {of_collection} AND id = :id RETURNING id
