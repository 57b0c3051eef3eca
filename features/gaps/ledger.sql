-- part: of_collection
-- Queries of a collection, with all its builds.
q.tenant = :tenant AND q.collection_id IN (SELECT id FROM collections WHERE tenant = :tenant AND name = :name)

-- part: resolving
-- Documents that queries of a collection can see, or will see.
documents d JOIN collections l ON l.id = d.collection_id AND {is_live:l} AND {exists:d}

-- name: leaders
-- Read the oldest question of each gap, of the gaps that were asked last.
SELECT gap_id, id, question, question_vector, question_embedding FROM (
    SELECT DISTINCT ON (q.gap_id) q.gap_id, q.id, q.question, q.question_vector, q.question_embedding,
           max(q.created_at) OVER (PARTITION BY q.gap_id) AS last_at
    FROM queries q WHERE {of_collection} AND q.gap_id IS NOT NULL
    ORDER BY q.gap_id, q.created_at, q.id) leaders
ORDER BY last_at DESC, gap_id LIMIT :limit

-- name: lock
-- Wait until no other process adds questions to the gaps of a collection.
SELECT pg_advisory_xact_lock(hashtextextended('gaps:' || CAST(:tenant AS text) || '/' || CAST(:name AS text), 0))

-- name: stored
-- Read the gaps that some queries store.
SELECT q.id, q.gap_id FROM queries q WHERE q.id = ANY(CAST(:ids AS uuid[])) AND {of_collection} AND q.gap_id IS NOT NULL

-- name: ungrouped
-- Find the queries of some that are in no gap yet.
SELECT q.id FROM queries q WHERE q.id = ANY(CAST(:ids AS uuid[])) AND {of_collection} AND q.gap_id IS NULL

-- name: assign
-- Store the gap and the vector of some queries.
UPDATE queries q SET gap_id = v.gap_id, question_vector = v.vector, question_embedding = :embedding
FROM unnest(CAST(:ids AS uuid[]), CAST(:gaps AS uuid[]), CAST(:vectors AS bytea[])) AS v(id, gap_id, vector)
WHERE q.id = v.id AND {of_collection}

-- name: carry
-- Copy the gap and the vector of a question to a newer query with it, before the older one expires.
UPDATE queries q
SET gap_id = o.gap_id, question_vector = o.question_vector, question_embedding = o.question_embedding
FROM unnest(CAST(:ids AS uuid[]), CAST(:older AS uuid[])) AS v(id, older) JOIN queries o ON o.id = v.older
WHERE q.id = v.id AND {of_collection} AND q.gap_id IS NULL AND o.gap_id IS NOT NULL

-- name: states
-- Read the assignments and resolutions of a collection. A resolution by a deleted document does not count.
SELECT g.id, g.assigned_to, d.public_id AS document_id, d.external_id, g.resolved_at
FROM gaps g LEFT JOIN ({resolving}) ON d.public_id = g.resolved_by AND l.tenant = g.tenant AND l.name = g.collection
WHERE g.tenant = :tenant AND g.collection = :name

-- name: passages
-- Find the documents of some chunks.
SELECT DISTINCT ON (c.id) c.id, d.public_id AS document_id, d.external_id
FROM chunks c JOIN ({resolving}) ON d.id = c.document_id
WHERE c.id = ANY(CAST(:ids AS uuid[])) AND d.tenant = :tenant AND l.name = :name

-- name: hold_document
-- Find a document of a collection, and delay the end of its deletion until the transaction ends.
SELECT d.id FROM {resolving}
WHERE d.public_id = :document AND d.tenant = :tenant AND l.name = :name FOR KEY SHARE OF d

-- name: change
-- Assign or resolve a gap, which must have a question; unset values stay.
INSERT INTO gaps (id, tenant, collection, assigned_to, resolved_by, resolved_at)
SELECT :id, :tenant, :name, CAST(:assigned_to AS text), CAST(:resolved_by AS uuid),
       CASE WHEN CAST(:resolved_by AS uuid) IS NOT NULL THEN now() END
WHERE EXISTS (SELECT 1 FROM queries q WHERE {of_collection} AND q.gap_id = :id)
ON CONFLICT (id) DO UPDATE
SET assigned_to = CASE WHEN CAST(:assigns AS boolean) THEN excluded.assigned_to ELSE gaps.assigned_to END,
    resolved_by = CASE WHEN CAST(:resolves AS boolean) THEN excluded.resolved_by ELSE gaps.resolved_by END,
    resolved_at = CASE WHEN CAST(:resolves AS boolean) THEN excluded.resolved_at ELSE gaps.resolved_at END
WHERE gaps.tenant = :tenant AND gaps.collection = :name
RETURNING id

-- name: delete_empty
-- Delete gaps whose questions have been deleted.
DELETE FROM gaps WHERE id = ANY(ARRAY(
    SELECT g.id FROM gaps g
    WHERE NOT EXISTS (SELECT 1 FROM queries q WHERE q.tenant = g.tenant AND q.gap_id = g.id) LIMIT :limit))
RETURNING id

-- name: erase_of_tenant
-- Delete some gaps of an erased tenant.
DELETE FROM gaps WHERE ctid = ANY(ARRAY(SELECT ctid FROM gaps WHERE tenant = :tenant LIMIT :limit)) RETURNING 1

-- name: erase_of_part
-- Delete some gaps of an erased collection. No other collection has its name before the erasure has ended.
DELETE FROM gaps WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM gaps
    WHERE tenant = :tenant AND collection = CAST(:collection AS text) LIMIT :limit
)) RETURNING 1

-- name: erase_resolutions
-- Reopen some gaps that erased documents resolved.
UPDATE gaps SET resolved_by = NULL, resolved_at = NULL WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM gaps WHERE tenant = :tenant AND resolved_by = ANY(CAST(:public_ids AS uuid[])) LIMIT :limit
)) RETURNING 1

-- name: count_resolutions
-- Count the gaps that each of some documents resolves.
SELECT resolved_by AS public_id, count(*) AS rows FROM gaps
WHERE tenant = :tenant AND resolved_by = ANY(CAST(:public_ids AS uuid[])) GROUP BY resolved_by

-- name: count_under_name
-- Count gaps under the name of a collection that does not exist.
SELECT count(*) AS rows FROM gaps g WHERE g.tenant = :tenant AND g.collection = :collection
AND NOT EXISTS (SELECT 1 FROM collections c WHERE c.tenant = g.tenant AND c.name = g.collection)
