-- name: save_report
-- Store the report of a gate with its build.
UPDATE collections SET gate = CAST(:report AS jsonb) WHERE id = (SELECT collection_id FROM jobs WHERE id = :id)
