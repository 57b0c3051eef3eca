-- part: is_of_document
-- Whether a finding f is about an erased document.
coalesce(f ->> 'document_id' = ANY(CAST(CAST(:public_ids AS uuid[]) || CAST(:document_ids AS uuid[]) AS text[])), false)

-- part: intended
-- The differences that a worker is repairing.
coalesce(CAST(request -> 'intended' AS jsonb), CAST('[]' AS jsonb))

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

-- name: erase_findings
-- Remove findings about an erased document from some verifications, which are jobs of its collection.
UPDATE jobs SET
  result = CAST((SELECT coalesce(jsonb_agg(f), CAST('[]' AS jsonb))
                 FROM jsonb_array_elements(CAST(result AS jsonb)) f WHERE NOT {is_of_document}) AS json),
  request = CAST(jsonb_set(CAST(request AS jsonb), ARRAY['intended'],
                           (SELECT coalesce(jsonb_agg(f), CAST('[]' AS jsonb))
                            FROM jsonb_array_elements({intended}) f WHERE NOT {is_of_document})) AS json)
WHERE id = ANY(ARRAY(
    SELECT id FROM jobs
    WHERE tenant = :tenant AND kind = {JobKind.VERIFICATION} AND CAST(:public_ids AS uuid[]) <> '{}'
      AND EXISTS (SELECT 1 FROM jsonb_array_elements(CAST(result AS jsonb) || {intended}) f WHERE {is_of_document})
    LIMIT :limit
)) RETURNING 1
