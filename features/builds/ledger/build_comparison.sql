-- name: accepted_questions
-- List users' accepted questions with the documents that answer them, the newest first.
SELECT a.question, array_agg(DISTINCT d.external_id) AS answers
FROM accepted_questions a JOIN documents d ON d.id = a.document_id
WHERE a.collection_id = :collection AND {RETRACT.applies:a} AND {exists:d}
GROUP BY a.question ORDER BY max(a.created_at) DESC, a.question LIMIT :limit

-- name: logged_questions
-- List questions that users have put to a collection lately, each once.
SELECT DISTINCT question FROM (
    SELECT collection_id, question FROM queries ORDER BY created_at DESC LIMIT :logged) q
WHERE collection_id = :collection ORDER BY question LIMIT :limit
