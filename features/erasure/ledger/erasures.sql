-- part: is_in_scope
-- The builds of a collection, or of a whole tenant.
tenant = :tenant AND (CAST(:collection AS text) IS NULL OR name = :collection)

-- part: documents_left
-- The number of rows of an erasure's documents that are left.
(SELECT count(*) FROM documents d WHERE d.collection_id = ANY(e.collection_ids) OR d.id = ANY(e.document_ids))

-- name: find_open
-- Find a running erasure with the same scope.
SELECT {erasure_columns} FROM erasures
WHERE tenant = :tenant AND finished_at IS NULL AND scope <> 'documents'
  AND collection IS NOT DISTINCT FROM CAST(:collection AS text)

-- name: are_open
SELECT EXISTS (SELECT 1 FROM erasures WHERE finished_at IS NULL)

-- name: lock_builds
-- Lock the builds of a collection, or of a whole tenant, in the lock order of all writers.
SELECT id FROM collections WHERE {is_in_scope} ORDER BY name, {is_live} DESC, build FOR UPDATE

-- name: erase_builds
-- Drop all builds at once, including the live one.
UPDATE collections
SET {ERASE_BUILD.sets}, followed = false, filled_until = NULL, reindexed_until = NULL, live_until = NULL
WHERE id = ANY(CAST(:ids AS uuid[])) AND {ERASE_BUILD.applies}

-- name: drop_at_once
-- Drop builds without waiting for cached queries.
UPDATE collections SET live_until = NULL WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: has_live
-- Return whether a tenant has a live collection.
SELECT EXISTS (SELECT 1 FROM collections WHERE {is_in_scope} AND {is_live})

-- name: insert
-- Start an erasure.
INSERT INTO erasures (id, tenant, scope, collection, public_ids, texts, collection_ids, document_ids, chunk_ids,
                      build_ids, deleted)
VALUES (:id, :tenant, :scope, :collection, CAST(:public_ids AS uuid[]), CAST(:texts AS text[]),
        CAST(:collection_ids AS uuid[]), CAST(:document_ids AS uuid[]), CAST(:chunk_ids AS uuid[]),
        CAST(:build_ids AS uuid[]), CAST(:deleted AS jsonb))
RETURNING {erasure_columns}

-- name: lock_batches
-- Wait until no process adds lines to a batch, or moves them to another one.
SELECT id FROM batches b WHERE b.tenant = :tenant AND {OPEN_BATCHES:b} ORDER BY id FOR UPDATE

-- name: cancel_batches
-- Cancel the batches that contain a line of these builds or documents. The lease of a process that works on one of them
-- continues.
UPDATE batches b SET cancelled_at = now(), due_at = CASE WHEN b.leased_by IS NULL THEN now() ELSE b.due_at END
WHERE b.tenant = :tenant AND b.cancelled_at IS NULL AND {OPEN_BATCHES:b}
  AND EXISTS (SELECT 1 FROM batch_lines l
              WHERE l.batch_id = b.id AND (l.collection_id = ANY(CAST(:collection_ids AS uuid[]))
                                           OR l.document_id = ANY(CAST(:document_ids AS uuid[]))))

-- name: count_documents
-- Count the rows of documents in builds.
SELECT count(*) FROM documents WHERE collection_id = ANY(CAST(:ids AS uuid[]))

-- name: find_owner
SELECT d.tenant FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.public_id = :id AND {exists:d} AND {is_live:l}

-- name: find_same
-- Find a running erasure of the same documents and texts.
SELECT {erasure_columns} FROM erasures
WHERE tenant = :tenant AND finished_at IS NULL AND scope = 'documents'
  AND public_ids = CAST(:ids AS uuid[]) AND texts = CAST(:texts AS text[])

-- name: lock_documents
-- Lock the rows of documents in all builds, and these builds, in the lock order of all writers, because an edit may be
-- finishing. Return the public ids.
SELECT d.public_id FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND d.tenant = :tenant AND {exists:d}
ORDER BY d.public_id, {is_live:l} DESC, l.build FOR UPDATE OF d FOR KEY SHARE OF l

-- name: find_erasures_of
-- Find the erasures, finished or not, that cover some of these documents, the newest first.
SELECT {erasure_columns} FROM erasures
WHERE tenant = :tenant AND scope = 'documents' AND public_ids && CAST(:ids AS uuid[])
ORDER BY started_at DESC

-- name: logged
-- Return the ids of documents' chunks, and of the builds whose logged queries may contain them.
SELECT ARRAY(SELECT DISTINCT c.id FROM documents d JOIN chunks c ON c.document_id = d.id
             WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND d.tenant = :tenant) AS chunk_ids,
       ARRAY(SELECT DISTINCT d.collection_id FROM documents d
             WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND d.tenant = :tenant AND {exists:d}) AS build_ids

-- name: get
-- Read an erasure, and how many rows of its documents are left.
SELECT {erasure_columns}, {documents_left} AS documents_left FROM erasures e
WHERE e.id = :id AND (CAST(:tenant AS text) IS NULL OR e.tenant = :tenant)

-- name: draw_fence
-- Draw the tokens of erasures whose documents are deleted: settlements with smaller tokens do not restore erased data
-- from now on, and objects with smaller tokens may contain it.
-- plan: generic
WITH drawn AS (
    SELECT e.id, nextval('fencing') AS token
    FROM (SELECT e.id FROM erasures e
          WHERE e.finished_at IS NULL AND e.fence IS NULL
            AND NOT EXISTS (SELECT 1 FROM collections l WHERE l.id = ANY(e.collection_ids))
            AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = ANY(e.document_ids))
          FOR NO KEY UPDATE SKIP LOCKED) e
)
UPDATE erasures e SET fence = d.token, last_token = d.token, fenced_at = clock_timestamp()
FROM drawn d WHERE e.id = d.id
RETURNING e.id

-- name: lock_due
-- Lock an erasure whose documents are deleted with their points and bytes, after all calls that were running when they
-- were deleted. Later calls and objects of the tenant contain none of its data: a tenant that is never idle delays no
-- erasure. Batches without its documents continue.
-- plan: generic
SELECT {erasure_columns}, e.search, e.build_ids FROM erasures e
WHERE e.finished_at IS NULL AND e.fenced_at <= now() - CAST(:writers_end_after AS interval)
  AND NOT EXISTS (SELECT 1 FROM sweeps s
                  WHERE s.collection_id = ANY(e.collection_ids) OR s.document_id = ANY(e.document_ids))
  AND NOT EXISTS (SELECT 1 FROM outdated_objects o WHERE o.tenant = e.tenant AND coalesce(o.token, 0) < e.fence)
  AND NOT EXISTS (SELECT 1 FROM abandoned_calls a WHERE a.tenant = e.tenant AND a.lease_token < e.fence
                  AND NOT EXISTS (SELECT 1 FROM batch_lines l WHERE l.token = a.lease_token))
  AND NOT EXISTS (SELECT 1 FROM batches b
                  WHERE b.tenant = e.tenant AND b.cancelled_at <= e.started_at AND {OPEN_BATCHES:b})
ORDER BY random() LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED

-- name: save
-- Save the position of an erasure, and count the deleted rows.
UPDATE erasures SET deleted = CAST(:deleted AS jsonb), search = CAST(:search AS jsonb) WHERE id = :id
RETURNING {erasure_columns}

-- name: finish
-- Finish an erasure; its points are deleted again later.
UPDATE erasures
SET finished_at = now(), recheck_at = now() + CAST(:recheck_after AS interval), search = NULL, chunk_ids = '{}',
    build_ids = '{}', texts = '{}'
WHERE id = :id RETURNING {erasure_columns}

-- name: due_rechecks
-- List finished erasures whose points are to be deleted again, longest due first.
SELECT {erasure_columns} FROM erasures WHERE recheck_at <= now() ORDER BY recheck_at LIMIT :limit

-- name: settle_rechecks
-- Delete the points of these erasures again after as long a time as since their end, until that is long enough.
UPDATE erasures
SET recheck_at = CASE WHEN finished_at > now() - CAST(:recheck_for AS interval)
                      THEN now() + greatest(CAST(:recheck_after AS interval), now() - finished_at) END
WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: postpone_rechecks
-- Repeat the deletion soon, because Qdrant did not confirm it.
UPDATE erasures SET recheck_at = now() + CAST(:recheck_after AS interval) WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: list
-- List erasures by scope, newest first. A tenant's erasure covers its collections and documents.
SELECT {erasure_columns} FROM erasures
WHERE (CAST(:tenant AS text) IS NULL OR tenant = :tenant)
  AND (CAST(:collection AS text) IS NULL OR collection = :collection)
  AND (CAST(:document_id AS uuid) IS NULL OR CAST(:document_id AS uuid) = ANY(public_ids))
ORDER BY started_at DESC

-- name: page
-- List the erasures of a tenant, the newest first, with the rows of documents that are left.
SELECT {erasure_columns}, {documents_left} AS documents_left FROM erasures e
WHERE tenant = :tenant AND (CAST(:at AS timestamptz) IS NULL OR (started_at, id) < (:at, CAST(:after AS uuid)))
ORDER BY started_at DESC, id DESC LIMIT :limit
