-- part: columns
-- The columns of a gate.
id, phase AS state, request, counts, report, error, created_at, ended_at

-- name: lock
-- Lock the gates of a build until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('gates:' || CAST(CAST(:build AS uuid) AS text), 0))

-- name: insert
-- Insert a queued gate.
INSERT INTO gates (id, tenant, collection, build_id, build, phase, request)
VALUES (:id, :tenant, :collection, :build, :number, {QUEUED}, CAST(:request AS json)) RETURNING {columns}

-- name: get_open
-- Read the open gate of a build.
SELECT {columns} FROM gates WHERE build_id = :build AND phase IN ({QUEUED}, {RUNNING})

-- name: get_newest
-- Read the newest gate of a build.
SELECT {columns} FROM gates WHERE build_id = :build ORDER BY created_at DESC, id DESC LIMIT 1

-- name: get
-- Read a gate.
SELECT {columns} FROM gates WHERE id = :id

-- name: delete_oldest
-- Delete the oldest finished gates of a build.
DELETE FROM gates WHERE id IN (
    SELECT id FROM gates WHERE build_id = :build ORDER BY created_at DESC, id DESC OFFSET :retained
) AND phase NOT IN ({QUEUED}, {RUNNING})

-- name: cancel
-- Cancel a gate.
UPDATE gates SET phase = {CANCELLED}, ended_at = now(), {clear} WHERE id = :id

-- name: get_request
-- Read the build and the questions of a claimed gate.
SELECT g.build_id, g.build, g.request FROM gates g JOIN runs r ON r.id = g.id WHERE g.id = :id AND r.token = :token

-- name: save_counts
-- Save the progress of a claimed gate.
UPDATE gates g SET counts = CAST(:counts AS jsonb) FROM runs r WHERE g.id = :id AND r.id = g.id AND r.token = :token

-- name: finish
-- Save the report of a claimed gate, which ends. Its last counts are in the report.
WITH {ended}
UPDATE gates g
SET phase = {DONE}, report = CAST(:report AS jsonb), ended_at = now(), {clear},
    counts = coalesce(CAST(:report AS jsonb) -> 'points', g.counts)
FROM ended WHERE g.id = ended.id RETURNING g.build_id

-- name: save_report
-- Store the report with its build.
UPDATE collections SET gate = CAST(:report AS jsonb) WHERE id = :build
