-- part: next_queries
-- The next logged queries of a tenant, with texts that name a person in the question or the answer.
queries q
WHERE q.tenant = :tenant
  AND q.created_at > CAST(CAST(:after AS text) AS timestamptz)
  AND q.created_at <= CAST(CAST(:until AS text) AS timestamptz)
  AND (q.question ~ CAST(:pattern AS text) OR q.answer ~ CAST(:pattern AS text))

-- name: count_queries
-- Count some logged queries with texts that name a person, those in gaps, and those with feedback.
SELECT count(*) AS queries, count(q.gap_id) AS queries_in_gaps, count(q.helpful) AS feedback FROM {next_queries}

-- name: delete_queries
-- Delete some logged queries with texts that name a person.
DELETE FROM {next_queries}

-- part: next_accepted
-- The next accepted questions of all tenants, by id.
next AS MATERIALIZED (
    SELECT a.id, a.tenant = :tenant AND a.question ~ CAST(:pattern AS text) AS matches
    FROM accepted_questions a WHERE CAST(:after AS uuid) IS NULL OR a.id > CAST(:after AS uuid)
    ORDER BY a.id LIMIT :limit
)

-- part: last_accepted
-- The id of the last examined question.
(SELECT n.id FROM next n ORDER BY n.id DESC LIMIT 1) AS last

-- name: count_accepted
-- Count the next accepted questions with texts that name a person.
WITH {next_accepted}
SELECT count(*) AS rows, {last_accepted} FROM next n JOIN accepted_questions a ON a.id = n.id
WHERE n.matches AND {RETRACT.applies:a}

-- name: retract_accepted
-- Retract the next accepted questions with texts that name a person. Some that were retracted may still have points. A
-- running verification compares rows with older snapshots, so their documents are marked as changed.
WITH {next_accepted}, retracted AS (
    UPDATE accepted_questions a SET {RETRACT.sets} FROM next n
    WHERE n.matches AND a.id = n.id AND {RETRACT.applies:a} RETURNING a.document_id
), touched AS (
    UPDATE documents SET updated_at = now() WHERE id IN (SELECT document_id FROM retracted)
)
SELECT (SELECT count(*) FROM retracted) AS rows, EXISTS (SELECT 1 FROM next WHERE matches) AS waits, {last_accepted}
