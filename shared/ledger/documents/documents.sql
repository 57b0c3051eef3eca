-- name: lock
SELECT d.id, d.state, d.reader FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.public_id = :id AND d.tenant = :tenant AND {exists:d} AND {is_live:l} FOR UPDATE OF d

-- name: stored_content
-- Find the bytes of one version.
SELECT upload, size_bytes, filename, media_type FROM document_versions
WHERE document_id = :id AND version = :version

-- name: readers_of_versions
-- Read who reads the live and the newest version of a document, the newest first.
SELECT v.version, v.version IS NOT DISTINCT FROM d.live_version AS is_live, v.readable_by
FROM documents d JOIN collections l ON l.id = d.collection_id
JOIN document_versions v ON v.document_id = d.id AND v.version IN (d.version, d.live_version)
WHERE d.public_id = :id AND d.tenant = :tenant AND {exists:d} AND {is_live:l}
ORDER BY v.version DESC

-- name: readers
-- Read who reads one version.
SELECT readable_by FROM document_versions WHERE document_id = :id AND version = :version

-- name: page
-- Find a page without a text layer of one version, and its picture.
SELECT p.state, p.error, p.key, i.picture FROM pages p LEFT JOIN page_pictures i ON i.key = p.key
WHERE p.document_id = :id AND p.version = :version AND p.number = :number

-- name: newest_uploads
-- Find the bytes of the newest versions of documents in live builds.
SELECT d.public_id, v.upload FROM documents d JOIN collections l ON l.id = d.collection_id
JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND {exists:d} AND {is_live:l}

-- name: lock_in_builds
-- Lock documents in all builds, in the lock order of all writers.
SELECT d.id FROM documents d
WHERE d.public_id = ANY(CAST(:ids AS uuid[])) AND {exists:d}
ORDER BY d.id FOR UPDATE

-- name: replace_uploads
-- Point the versions of locked documents to the new location of their bytes.
UPDATE document_versions v SET upload = n.now
FROM unnest(CAST(:before AS text[]), CAST(:now AS text[])) AS n(before, now)
WHERE v.document_id = ANY(CAST(:ids AS uuid[])) AND v.upload = n.before
RETURNING v.document_id

-- name: replace_uploads_of_disabled
-- Rename the files of disabled questions likewise.
UPDATE disabled_questions o SET upload = n.now
FROM unnest(CAST(:before AS text[]), CAST(:now AS text[])) AS n(before, now)
WHERE o.document_id = ANY(CAST(:public AS uuid[])) AND o.upload = n.before

-- name: uploads_after
-- List the bytes of live and newest versions in live builds.
SELECT v.document_id, v.version, v.upload, d.tenant, l.name AS collection, d.external_id
FROM document_versions v JOIN documents d ON d.id = v.document_id AND v.version IN (d.version, d.live_version)
JOIN collections l ON l.id = d.collection_id
WHERE {exists:d} AND {is_live:l} AND (v.document_id, v.version) > (CAST(:document AS uuid), CAST(:version AS int))
ORDER BY v.document_id, v.version LIMIT :limit

-- name: live_chunk_ids
-- List the chunks of live versions by the external ids of their documents.
SELECT d.external_id, c.id
FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.live_version
WHERE d.collection_id = :collection AND d.tenant = :tenant AND {exists:d}
  AND d.external_id = ANY(CAST(:external_ids AS text[]))

-- name: lock_rows
-- Lock a document in the builds of its collection, and these builds, the live one first.
SELECT d.id FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.public_id = :id AND d.tenant = :tenant AND {exists:d}
ORDER BY {is_live:l} DESC, l.build FOR UPDATE OF d FOR KEY SHARE OF l

-- name: add_fields
-- Add fields of metadata to the builds that have a document.
UPDATE collections l SET metadata_fields = {more_fields} FROM documents d
WHERE l.id = d.collection_id AND d.public_id = :id AND d.tenant = :tenant AND {exists:d} AND {lacks_fields}

-- name: options
-- Read the options of the live build that has a document.
SELECT l.options FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.public_id = :id AND d.tenant = :tenant AND {exists:d} AND {is_live:l}

-- name: delete
-- Hide a document in all builds, because a build that was just filled may contain it, too. Its version number rises, so
-- that late writers are rejected.
UPDATE documents d SET {DELETE.sets}, {next_version}, {due_again}
FROM collections l
WHERE d.public_id = :id AND d.tenant = :tenant AND {exists:d} AND l.id = d.collection_id
RETURNING d.id, d.tenant, d.collection_id, l.index_name, d.version, d.live_version, {is_live:l} AS is_live

-- name: count_final
-- Count the documents of a build that are not being processed.
SELECT coalesce(sum(t.rows), 0)::bigint FROM {document_counts} t
WHERE t.part = :part AND {REINDEX.applies:t}

-- name: count_outdated
-- Count the documents of a tenant's live builds, or of one build, that are not in progress and that another reader than
-- today's has read: all documents minus the documents of the current readers.
SELECT l.id, l.name, sum(c.rows)::bigint AS documents
FROM collections l JOIN (
    SELECT t.part, t.rows FROM {document_counts} t WHERE {REINDEX.applies:t}
    UNION ALL
    SELECT t.part, -t.rows FROM {reader_counts} t WHERE t.state = ANY(CAST(:readers AS text[]))
) c ON c.part = l.id::text
WHERE l.tenant = :tenant AND {is_live:l} AND (CAST(:collection AS uuid) IS NULL OR l.id = :collection)
GROUP BY l.id, l.name HAVING sum(c.rows) > 0 ORDER BY l.name

-- name: start_reindex
UPDATE collections SET reindexed_until = '', reindexes_outdated = :outdated WHERE id = :id

-- name: lock_reindexing
-- Lock a collection that is being reindexed, unless its job is paused, and read its job. A reindex that an earlier
-- release started has none.
SELECT l.id, l.reindexed_until, l.reindexes_outdated, j.id AS job_id, coalesce(j.number, 0) AS job_number
FROM collections l LEFT JOIN jobs j ON j.tenant = l.tenant AND j.kind = {JobKind.REINDEX} AND j.ended_at IS NULL
    AND j.idempotency_key = l.id::text
WHERE l.reindexed_until IS NOT NULL AND (CAST(:collection AS uuid) IS NULL OR l.id = :collection)
  AND coalesce(j.state = {JobState.RUNNING}, true)
ORDER BY random() LIMIT 1 FOR NO KEY UPDATE OF l SKIP LOCKED

-- name: save_reindex_progress
-- Record the progress of a reindex; null when complete.
UPDATE collections SET reindexed_until = :until WHERE id = :collection

-- name: lock_final
-- Lock documents that are in no worker's hands, in the order of their external ids.
SELECT id, external_id, state, reader FROM documents
WHERE collection_id = :collection AND {exists} AND external_id > :after AND {REINDEX.applies}
ORDER BY external_id LIMIT :limit FOR UPDATE

-- name: row_ids
-- Find the rows that documents have in one build.
SELECT public_id, id FROM documents
WHERE public_id = ANY(CAST(:ids AS uuid[])) AND collection_id = :collection AND {exists}

-- name: shown_versions
-- Return the version that queries see of these documents; null if a document is deleted, or if principals are given and
-- do not read the version that was found. Only documents of which another version was found are returned, documents
-- that these do not read, and documents that have replaced a version lately, with its age.
-- plan: generic
SELECT v.id, CASE WHEN d.id IS NOT NULL THEN coalesce(d.live_version, d.version) END AS shown,
       extract(epoch FROM now() - s.since)::float8 AS age_seconds
FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS int[])) AS v(id, version)
LEFT JOIN documents d ON d.id = v.id AND {exists:d}
    AND (CAST(:principals AS text[]) IS NULL
         OR (SELECT r.readable_by FROM document_versions r WHERE r.document_id = v.id AND r.version = v.version)
            && CAST(:principals AS text[]))
CROSS JOIN LATERAL (SELECT max(s.obsolete_since) AS since FROM sweeps s
                    WHERE s.document_id = v.id AND s.obsolete_version < d.live_version) s
WHERE d.id IS NULL OR v.version <> coalesce(d.live_version, d.version) OR s.since IS NOT NULL

-- name: changed_unreadable
-- Find the documents of a build whose points may have older readers, and that principals do not read.
SELECT d.id FROM documents d
WHERE d.description_due_at IS NOT NULL AND d.collection_id = :collection AND {exists:d}
  AND (SELECT r.readable_by FROM document_versions r
       WHERE r.document_id = d.id AND r.version = coalesce(d.live_version, d.version))
      && CAST(:principals AS text[]) IS NOT TRUE
ORDER BY d.description_due_at LIMIT :limit

-- name: readable_chunks
-- Find the chunks among these that queries see, of documents that principals read.
SELECT c.id FROM chunks c JOIN documents d ON d.id = c.document_id AND {exists:d}
    AND c.version = coalesce(d.live_version, d.version)
JOIN document_versions r ON r.document_id = d.id AND r.version = c.version
WHERE c.id = ANY(CAST(:chunks AS uuid[])) AND d.tenant = :tenant AND r.readable_by && CAST(:principals AS text[])

-- name: ids_of_names
-- Find the documents of a collection that have these external ids.
SELECT d.public_id FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.tenant = :tenant AND l.name = :name AND {is_live:l} AND {exists:d}
  AND d.external_id = ANY(CAST(:names AS text[]))
ORDER BY d.external_id

-- name: count_of_names
-- Count the documents of a collection that have these external ids.
SELECT count(*) FROM documents d
WHERE d.collection_id = :collection AND {exists:d} AND d.external_id = ANY(CAST(:names AS text[]))

-- name: existing_names
-- List the external ids among these that documents of a collection have.
SELECT d.external_id FROM documents d
WHERE d.collection_id = :collection AND {exists:d} AND d.external_id = ANY(CAST(:names AS text[]))

-- name: counts
-- Count the documents of a tenant's live builds by state.
SELECT state, sum(rows)::bigint FROM {document_counts} t
WHERE part IN (SELECT l.id::text FROM collections l WHERE l.tenant = :tenant AND {is_live:l})
GROUP BY state HAVING sum(rows) <> 0
