-- name: builds
-- List the builds of a collection that contain its submitted documents, the live one first.
SELECT {collection_columns}, {is_live} AS is_live FROM collections
WHERE tenant = :tenant AND name = :name AND NOT {is_dropping}
ORDER BY {is_live} DESC, build

-- part: builds_of_name
SELECT 1 FROM collections WHERE tenant = :tenant AND name = :name

-- name: find_live
-- Find a collection, unless it is being erased: then none of its builds is live, nor will be.
{builds_of_name} AND {is_live}

-- name: lock_live
-- Lock the live build of a collection for a change of the set of builds; return no row if it was replaced meanwhile.
{builds_of_name} AND {is_live} FOR UPDATE

-- name: lock_all
{builds_of_name} ORDER BY build FOR UPDATE

-- name: share_live
-- Keep the live build of a collection as it is; return none if it was replaced meanwhile.
{builds_of_name} AND {is_live} FOR KEY SHARE

-- name: share_all
-- Keep all builds of a collection as they are.
{builds_of_name} ORDER BY build FOR KEY SHARE

-- name: insert_copies
-- Insert the documents that a build lacks, in the version that queries see, because the newest one may fail. The
-- build's work on them comes after uploads.
WITH source AS (
    SELECT *, coalesce(live_version, version) AS source_version FROM documents
    WHERE id = ANY(CAST(:ids AS uuid[])) AND {exists}
), started AS (
    INSERT INTO documents (id, public_id, tenant, collection_id, external_id, version, lane, state, created_at)
    SELECT gen_random_uuid(), public_id, tenant, CAST(:build AS uuid), external_id, source_version, 1,
           {SUBMIT.target}, created_at
    FROM source ORDER BY external_id
    ON CONFLICT (collection_id, external_id) WHERE {exists} DO NOTHING
    RETURNING id, version, external_id
)
INSERT INTO document_versions (document_id, version, {content})
SELECT b.id, b.version, {content}
FROM started b JOIN (SELECT id, external_id, source_version FROM source) s ON s.external_id = b.external_id
JOIN document_versions v ON v.document_id = s.id AND v.version = s.source_version

-- name: lock_copies
-- Lock a build's copies of documents of the live one.
SELECT o.id FROM documents d JOIN documents o ON o.external_id = d.external_id AND o.collection_id = :build
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {exists:d} AND {exists:o}
ORDER BY o.id FOR UPDATE OF o

-- name: next_versions
-- Find the next versions of documents of other builds, if these differ from their newest ones: first the version that
-- queries see in the live build, unless they have shown it or failed at it, then the newest version; or the newest
-- version at once.
SELECT o.id, d.id AS source, d.public_id, w.version, w.version = d.version AS newest
FROM documents o JOIN collections b ON b.id = o.collection_id
JOIN collections l ON l.tenant = b.tenant AND l.name = b.name
JOIN documents d ON d.collection_id = l.id AND d.external_id = o.external_id
JOIN document_versions ov ON ov.document_id = o.id AND ov.version = o.version
LEFT JOIN document_versions ol ON ol.document_id = o.id AND ol.version = o.live_version
LEFT JOIN document_versions dl ON dl.document_id = d.id AND dl.version = d.live_version
CROSS JOIN LATERAL (
    SELECT CASE WHEN NOT CAST(:newest AS boolean) AND dl.upload IS NOT NULL AND ol.upload IS DISTINCT FROM dl.upload
                     AND NOT ({has_failed:o} AND ov.upload = dl.upload)
           THEN d.live_version ELSE d.version END AS version) w
JOIN document_versions v ON v.document_id = d.id AND v.version = w.version
WHERE o.id = ANY(CAST(:copies AS uuid[])) AND {exists:o} AND {exists:d}
  AND {is_follower:b} AND {is_live:l}
  AND (v.upload, d.public_id) <> (ov.upload, o.public_id)

-- name: lagging
-- List documents in progress of a build whose newest content differs from the live build's.
SELECT o.id
FROM documents o JOIN document_versions ov ON ov.document_id = o.id AND ov.version = o.version
JOIN collections b ON b.id = o.collection_id
JOIN collections l ON l.tenant = b.tenant AND l.name = b.name AND {is_live:l}
JOIN documents d ON d.collection_id = l.id AND d.external_id = o.external_id
JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
WHERE o.collection_id = :build AND {UNFINISHED_DOCUMENTS:o}
  AND {exists:d} AND (v.upload, d.public_id) <> (ov.upload, o.public_id)

-- name: lock_documents
-- Lock documents in the lock order of all writers.
SELECT id FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR UPDATE

-- name: replace_copies
-- Start the next versions of documents with the content of these versions of the live build. A version that was deleted
-- since it was found is left out: a newer one follows, and a version without content would wait for ever.
WITH next AS (
    SELECT * FROM unnest(CAST(:copies AS uuid[]), CAST(:public_ids AS uuid[]), CAST(:sources AS uuid[]),
                         CAST(:versions AS int[])) AS n(id, public_id, source, source_version)
), started AS (
    UPDATE documents d
    SET {REPLACE.sets}, {next_version}, public_id = n.public_id, lane = 1, job_id = NULL, {due_again}
    FROM next n JOIN document_versions v ON v.document_id = n.source AND v.version = n.source_version
    WHERE d.id = n.id
    RETURNING d.id, d.version, n.source, n.source_version
)
INSERT INTO document_versions (document_id, version, {content})
SELECT b.id, b.version, {content}
FROM started b JOIN document_versions v ON v.document_id = b.source AND v.version = b.source_version

-- name: other_builds
-- Find the other builds of the documents of live ones.
SELECT b.id AS build, array_agg(d.id) AS ids
FROM documents d JOIN collections l ON l.id = d.collection_id
JOIN collections b ON b.tenant = l.tenant AND b.name = l.name
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {is_follower:b}
GROUP BY b.id, b.build ORDER BY b.build

-- name: delete_copies
-- Delete the copies in other builds of documents that the live one deletes. The version number rises, so that late
-- writers are rejected.
UPDATE documents d SET {DELETE.sets}, {next_version}, {due_again}
FROM documents g
WHERE g.id = ANY(CAST(:ids AS uuid[])) AND NOT ({exists:g})
  AND d.public_id = g.public_id AND {exists:d}
RETURNING d.id

-- name: delete_accepted
-- Delete the accepted questions of documents that are being deleted.
DELETE FROM accepted_questions WHERE document_id = ANY(CAST(:ids AS uuid[]))

-- name: delete_disabled
-- Delete the disabled questions of documents that are being deleted in all builds.
DELETE FROM disabled_questions
WHERE document_id IN (SELECT public_id FROM documents WHERE id = ANY(CAST(:ids AS uuid[])))
