-- name: forget
-- Delete the ended checks of a tenant: their results are read at once.
DELETE FROM jobs WHERE tenant = :tenant AND kind = {JobKind.SOURCE_CHECK} AND ended_at < now() - interval '1 hour'

-- name: open
-- Open a check. It belongs to no collection, because a new source may create one.
INSERT INTO jobs (id, tenant, collection, collection_id, kind, state)
VALUES (:id, :tenant, '', :id, {JobKind.SOURCE_CHECK}, {OPEN_JOB.target})

-- name: insert
INSERT INTO source_checks (id, kind, uri, options, secret_name)
VALUES (:id, :kind, :uri, CAST(:options AS jsonb), :secret_name)

-- name: get
SELECT j.id, CASE WHEN c.id IS NOT NULL AND c.token IS NULL THEN {JobState.QUEUED} ELSE j.state END AS state, j.error,
       j.created_at, j.ended_at, k.seen, k.refused, k.complete, k.keys, k.refusal
FROM jobs j JOIN source_checks k ON k.id = j.id LEFT JOIN job_claims c ON c.id = j.id
WHERE j.tenant = :tenant AND j.id = :id

-- name: definition
-- Read the source of a claimed check.
SELECT k.id, k.kind, k.uri, k.options, k.secret_name, c.created_at
FROM source_checks k JOIN job_claims c ON c.id = k.id WHERE c.id = :id AND c.token = :token

-- name: save
UPDATE source_checks
SET seen = :seen, refused = :refused, complete = :complete, keys = CAST(:keys AS text[]), refusal = :refusal
WHERE id = :id
