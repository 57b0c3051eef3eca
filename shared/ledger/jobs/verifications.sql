-- name: save
-- Save the work of a claimed verification. Progress proves that it does not kill its workers. Findings are added, so
-- that a finding which an erasure has removed does not return.
WITH job AS (SELECT id FROM jobs WHERE id = :id FOR NO KEY UPDATE), held AS (
    UPDATE job_claims c SET lost_leases = CASE WHEN CAST(:advanced AS boolean) THEN 0 ELSE c.lost_leases END
    FROM job WHERE c.id = job.id AND c.token = :token RETURNING c.id)
UPDATE jobs j SET request = CAST(:request AS json), progress = CAST(:progress AS json),
  result = CASE WHEN CAST(:findings AS text) IS NULL THEN j.result
                ELSE CAST(CAST(j.result AS jsonb) || CAST(CAST(:findings AS text) AS jsonb) AS json) END
FROM held WHERE j.id = held.id RETURNING j.id
