-- name: show_running
-- Show that a worker works on a run.
UPDATE {table} SET phase = {RUNNING}{without_reason} WHERE id = :id

-- name: show_waiting
-- Show that a run has given way to others.
UPDATE {table} SET phase = {QUEUED}{with_reason} WHERE id = :id

-- name: release
-- Release a claim, so that another worker may claim the run after a pause.
WITH released AS (
    UPDATE runs SET token = NULL, leased_by = NULL, leased_until = now() + CAST(:pause AS interval)
    WHERE id = :id AND token = :token RETURNING id)
UPDATE {table} t SET phase = {QUEUED} FROM released WHERE t.id = released.id

-- name: fail
-- End a run with the reason of its failure.
WITH {ended}
UPDATE {table} t SET phase = {FAILED}, error = :error, ended_at = now(), {clear} FROM ended WHERE t.id = ended.id
