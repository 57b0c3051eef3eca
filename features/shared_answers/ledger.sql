-- part: shown
-- The columns of a shared answer.
id, collection, question, answer, form, numbers, chunk_ids, shared_by_name, created_at, expires_at

-- part: visible
-- Chunks that are visible to queries, each with its document and its collection.
chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
    AND {exists:d}
JOIN collections l ON l.id = d.collection_id AND {is_live:l}

-- part: readable
-- The documents that principals read, in the versions that queries see.
documents d JOIN collections l ON l.id = d.collection_id AND {is_live:l}
JOIN document_versions v ON v.document_id = d.id AND v.version = d.live_version
    AND v.readable_by && CAST(:principals AS text[])
WHERE d.tenant = :tenant AND {exists:d}

-- name: logged_answer
-- Read a logged query with the digest of its answer, and the documents of its chunks; with a key, a query of this key. A
-- running erasure of one of the documents has not yet removed the digest. An erasure that starts later deletes the shared
-- answer of these documents.
SELECT q.question, q.chunk_ids, l.name AS collection,
       CASE WHEN NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = q.tenant AND e.finished_at IS NULL
                                                        AND e.chunk_ids && q.chunk_ids) THEN q.answer_sha256
       END AS answer_sha256,
       ARRAY(SELECT DISTINCT d.public_id FROM chunks c JOIN documents d ON d.id = c.document_id
             WHERE c.id = ANY(q.chunk_ids) AND d.tenant = q.tenant) AS document_ids
FROM queries q JOIN collections l ON l.id = q.collection_id
WHERE q.id = :query AND q.tenant = :tenant AND (CAST(:key AS uuid) IS NULL OR q.key_id = :key)

-- part: of_chunks
-- Some passages of a collection that are visible to queries, of documents that a person reads.
SELECT c.id AS chunk_id, d.public_id AS document_id, d.external_id, v.filename, t.content
FROM {visible}
JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
JOIN document_versions v ON v.document_id = d.id AND v.version = c.version
WHERE c.id = ANY(CAST(:chunks AS uuid[])) AND d.tenant = :tenant AND l.name = :collection
  AND (CAST(:principals AS text[]) IS NULL OR v.readable_by && CAST(:principals AS text[]))

-- name: passages
-- Read passages.
{of_chunks}

-- name: lock_passages
-- Read passages, and delay the deletion of their documents and of their collection until the transaction ends.
{of_chunks} ORDER BY d.id FOR SHARE OF d, l

-- name: same
-- Read the same answer, shared by the same key for about as long.
SELECT {shown} FROM shared_answers
WHERE tenant = :tenant AND collection = :collection AND shared_by IS NOT DISTINCT FROM CAST(:key AS uuid)
  AND chunk_ids = CAST(:chunks AS uuid[]) AND question = :question AND answer = :answer
  AND expires_at BETWEEN now() + CAST(:lasts AS interval) - interval '1 hour' AND now() + CAST(:lasts AS interval)
ORDER BY created_at DESC LIMIT 1

-- name: insert
-- Share an answer, unless the tenant or the key has the maximum number.
INSERT INTO shared_answers (id, tenant, collection, question, answer, form, numbers, chunk_ids, document_ids, shared_by,
                            shared_by_name, expires_at)
SELECT :id, :tenant, :collection, :question, :answer, :form, CAST(:numbers AS int[]), CAST(:chunks AS uuid[]),
       CAST(:documents AS uuid[]), CAST(:key AS uuid), CAST(:key_name AS text), now() + CAST(:lasts AS interval)
WHERE (SELECT count(*) FROM shared_answers WHERE tenant = :tenant) < :most
  AND (SELECT count(*) FROM shared_answers
       WHERE tenant = :tenant AND shared_by IS NOT DISTINCT FROM CAST(:key AS uuid)) < :most_of_key
RETURNING {shown}

-- name: find
-- Read a shared answer that has not expired, by the time that the sharer chose or by the age that the settings allow.
-- With principals, only if they read the documents of all passages: the model may have used one without citing it.
SELECT {shown} FROM shared_answers
WHERE id = :id AND tenant = :tenant AND expires_at > now() AND created_at > now() - CAST(:age AS interval)
  AND (CAST(:principals AS text[]) IS NULL OR (
      SELECT count(*) FROM {readable} AND d.public_id = ANY(document_ids)) = cardinality(document_ids))

-- name: count_readable
-- Count the documents among these that principals read.
SELECT count(*) FROM {readable} AND d.public_id = ANY(CAST(:documents AS uuid[]))

-- name: delete
-- Delete a shared answer; with a key, only an answer of this key.
DELETE FROM shared_answers
WHERE id = :id AND tenant = :tenant AND (CAST(:key AS uuid) IS NULL OR shared_by = :key)
RETURNING id

-- name: lock_due
-- Lock the shared answers that were checked longest ago.
SELECT id FROM shared_answers WHERE checked_at <= now() - CAST(:every AS interval)
ORDER BY checked_at LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: delete_expired
-- Delete the shared answers that cannot be opened: they have expired, or a cited passage was deleted.
DELETE FROM shared_answers s
WHERE s.id = ANY(CAST(:ids AS uuid[]))
  AND (s.expires_at <= now() OR s.created_at <= now() - CAST(:age AS interval) OR EXISTS (
      SELECT 1 FROM unnest(s.chunk_ids) AS k(id)
      WHERE NOT EXISTS (SELECT 1 FROM {visible} WHERE c.id = k.id AND d.tenant = s.tenant AND l.name = s.collection)))

-- name: record_check
-- Record that these shared answers were checked.
UPDATE shared_answers SET checked_at = now() WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: erase_of_tenant
-- Delete some shared answers of an erased tenant.
DELETE FROM shared_answers
WHERE ctid = ANY(ARRAY(SELECT ctid FROM shared_answers WHERE tenant = :tenant LIMIT :limit)) RETURNING 1

-- name: erase_of_part
-- Delete some shared answers that quote erased documents, or documents of an erased collection. No other
-- collection has its name before the erasure has ended.
DELETE FROM shared_answers WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM shared_answers
    WHERE tenant = :tenant
      AND (document_ids && CAST(:public_ids AS uuid[]) OR collection = CAST(:collection AS text))
    LIMIT :limit
)) RETURNING 1

-- name: count_by_document
-- Count the shared answers that quote each of some documents.
SELECT k.id AS public_id, count(*) AS rows
FROM shared_answers s CROSS JOIN LATERAL unnest(s.document_ids) AS k(id)
WHERE s.tenant = :tenant AND k.id = ANY(CAST(:public_ids AS uuid[])) GROUP BY k.id

-- part: next_texts
-- The next shared answers of a tenant, by their ids. A tenant has few enough to sort them.
next AS MATERIALIZED (
    SELECT s.id, s.question ~ CAST(:pattern AS text) OR s.answer ~ CAST(:pattern AS text) AS matches
    FROM shared_answers s
    WHERE s.tenant = :tenant AND (CAST(:after AS text) IS NULL OR CAST(s.id AS text) > CAST(:after AS text))
    ORDER BY CAST(s.id AS text) LIMIT :limit
)

-- name: count_texts
-- Count the next shared answers with texts that name a person.
WITH {next_texts}
SELECT count(*) FILTER (WHERE matches) AS rows, max(CAST(id AS text)) AS last FROM next

-- name: erase_texts
-- Delete the next shared answers with texts that name a person.
WITH {next_texts}, deleted AS (
    DELETE FROM shared_answers s USING next n WHERE n.matches AND s.id = n.id RETURNING 1
)
SELECT (SELECT count(*) FROM deleted) AS rows, max(CAST(id AS text)) AS last FROM next

-- name: count_under_name
-- Count shared answers under the name of a collection that does not exist.
SELECT count(*) AS rows FROM shared_answers s
WHERE s.tenant = :tenant AND s.collection = :collection
  AND NOT EXISTS (SELECT 1 FROM collections c WHERE c.tenant = s.tenant AND c.name = s.collection)
