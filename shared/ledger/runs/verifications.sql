-- part: columns
-- The columns of a verification, with its findings after a number of them.
id, repair, phase AS state, part, after, counts, error, created_at, ended_at,
(SELECT coalesce(jsonb_agg(f.value ORDER BY f.number), CAST('[]' AS jsonb))
 FROM jsonb_array_elements(findings) WITH ORDINALITY AS f (value, number) WHERE f.number > :seen) AS findings

-- part: of_collection
-- The rows of a collection.
tenant = :tenant AND collection = :collection

-- name: lock
-- Lock the verifications of a collection until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('verifications:' || :tenant || '/' || :collection, 0))

-- name: insert
-- Insert a queued verification.
INSERT INTO verifications (id, tenant, collection, phase, repair, part, after)
VALUES (:id, :tenant, :collection, {QUEUED}, :repair, :part, :after) RETURNING {columns}

-- name: get_open
-- Read the open verification of a collection.
SELECT {columns} FROM verifications WHERE {of_collection} AND phase IN ({QUEUED}, {RUNNING})

-- name: get_newest
-- Read the newest verification of a collection.
SELECT {columns} FROM verifications WHERE {of_collection} ORDER BY created_at DESC, id DESC LIMIT 1

-- name: get
-- Read a verification.
SELECT {columns} FROM verifications WHERE id = :id

-- name: delete_oldest
-- Delete the oldest finished verifications of a collection.
DELETE FROM verifications WHERE id IN (
    SELECT id FROM verifications WHERE {of_collection} ORDER BY created_at DESC, id DESC OFFSET :retained
) AND phase NOT IN ({QUEUED}, {RUNNING})

-- name: cancel
-- Cancel a verification.
UPDATE verifications SET phase = {CANCELLED}, ended_at = now(), {clear} WHERE id = :id

-- name: get_saved
-- Read the saved work of a claimed verification.
SELECT v.repair, v.part, v.after, v.counts, jsonb_array_length(v.findings) AS findings, v.intended, v.reopened
FROM verifications v JOIN runs r ON r.id = v.id WHERE v.id = :id AND r.token = :token

-- name: save
-- Save the work of a claimed verification. Progress proves that the run does not kill its workers.
WITH held AS (
    UPDATE runs SET lost_leases = CASE WHEN CAST(:advanced AS boolean) THEN 0 ELSE lost_leases END
    WHERE id = :id AND token = :token RETURNING id)
UPDATE verifications v
SET part = :part, after = :after, counts = CAST(:counts AS jsonb), findings = findings || CAST(:findings AS jsonb),
    intended = CAST(:intended AS jsonb), reopened = CAST(:reopened AS jsonb)
FROM held WHERE v.id = held.id RETURNING v.id

-- name: finish
-- End a claimed verification.
WITH {ended}
UPDATE verifications v SET phase = {DONE}, ended_at = now(), {clear} FROM ended WHERE v.id = ended.id
