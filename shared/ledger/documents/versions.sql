-- name: insert_sweeps
-- Delete the points of versions after a while, and again when all leases on them have expired.
-- plan: generic
INSERT INTO sweeps (collection_id, tenant, index_name, document_id, obsolete_version, below_version, repeats, due_at)
SELECT d.collection_id, d.tenant, l.index_name, d.id, v.version, v.version + 1, true, now() + :after
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int)
JOIN documents d ON d.id = v.id JOIN collections l ON l.id = d.collection_id
RETURNING id

-- part: delete_contents
-- Delete the contents and questions of the chunks `deleted`.
contents AS (
    DELETE FROM chunk_contents t USING deleted c WHERE t.chunk_id = c.id AND t.version = c.version
), questions AS (
    DELETE FROM chunk_questions t USING deleted c WHERE t.chunk_id = c.id AND t.version = c.version
)

-- name: supersede
-- Mark versions that are neither live nor newest, delete their open chunks and pages, record their calls in flight, and
-- return the versions that may have points, or all that were live.
WITH obsolete AS (
    UPDATE document_versions v SET obsolete = true
    FROM documents d
    WHERE d.id = v.document_id AND d.id = ANY(CAST(:ids AS uuid[])) AND NOT v.obsolete AND v.version <> d.version
      AND (v.version IS DISTINCT FROM d.live_version OR NOT ({exists:d}))
    RETURNING v.document_id, v.version
), deleted AS (
    DELETE FROM chunks c USING obsolete o
    WHERE c.document_id = o.document_id AND c.version = o.version AND {OPEN_CHUNKS:c}
    RETURNING c.id, c.version, c.state, c.tenant, c.content_key, c.lease_token, c.leased_by, c.due_at
), {delete_contents}, unread AS (
    DELETE FROM pages p USING obsolete o
    WHERE p.document_id = o.document_id AND p.version = o.version AND {TO_READ:p}
), called AS (
    INSERT INTO abandoned_calls (lease_token, tenant, content_key, due_at)
    SELECT lease_token, tenant, content_key, due_at FROM deleted
    WHERE {TO_GENERATE} AND leased_by IS NOT NULL AND due_at > now()
    ON CONFLICT DO NOTHING
)
SELECT o.document_id AS id, o.version FROM obsolete o JOIN documents d ON d.id = o.document_id
WHERE {exists:d}
  AND (CAST(:were_live AS boolean)
       OR EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = o.document_id AND c.version = o.version))

-- name: find_obsolete
-- plan: generic
SELECT document_id, version FROM document_versions WHERE obsolete LIMIT :limit

-- name: lock_obsolete
-- Lock obsolete versions among these that no other process is deleting.
-- plan: generic
SELECT v.document_id, v.version FROM document_versions v
JOIN unnest(CAST(:ids AS uuid[]), CAST(:versions AS int[])) AS n(document_id, version)
  ON n.document_id = v.document_id AND n.version = v.version
WHERE v.obsolete ORDER BY v.document_id, v.version FOR UPDATE OF v SKIP LOCKED

-- part: versions
unnest(CAST(:ids AS uuid[]), CAST(:versions AS int[])) AS o(document_id, version)

-- name: delete_chunks
-- Delete chunks of these versions, up to a number of them.
WITH deleted AS (
    DELETE FROM chunks WHERE (id, version) IN (
        SELECT c.id, c.version FROM {versions} CROSS JOIN LATERAL (
            SELECT c.id, c.version FROM chunks c
            WHERE c.document_id = o.document_id AND c.version = o.version LIMIT :limit) c
        LIMIT :limit)
    RETURNING id, version
), {delete_contents}
SELECT 1 FROM deleted

-- name: delete_ended_calls
-- Delete calls whose workers must be dead.
-- plan: generic
DELETE FROM abandoned_calls WHERE due_at <= now()

-- name: delete
-- Delete the rows of these versions, and list the stored objects of their bytes, with their tenants and whether a
-- document was deleted permanently.
WITH deleted AS (
    DELETE FROM document_versions v USING {versions}
    WHERE v.document_id = o.document_id AND v.version = o.version
    RETURNING v.document_id, {stored_in} AS stored, {is_reference} AS is_reference
)
SELECT g.stored, d.tenant, bool_or(NOT ({exists:d})) AS deleted
FROM deleted g JOIN documents d ON d.id = g.document_id WHERE NOT g.is_reference GROUP BY g.stored, d.tenant

-- name: delete_disabled_without_text
-- Delete disabled questions of documents if no version contains their text or their file any more.
DELETE FROM disabled_questions o USING documents g
WHERE g.id = ANY(CAST(:ids AS uuid[])) AND o.document_id = g.public_id
  AND NOT EXISTS (SELECT 1 FROM documents d JOIN document_versions v ON v.document_id = d.id
                  WHERE d.public_id = o.document_id AND v.upload = o.upload)
  AND NOT EXISTS (SELECT 1 FROM documents d JOIN chunks c ON c.document_id = d.id
                  JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
                  WHERE d.public_id = o.document_id
                    AND sha256(convert_to(t.content ->> 'text', 'UTF8')) = o.text_hash)

-- name: record_outdated
-- Record objects that are to be deleted or, a little later, to be rewritten without some bytes.
INSERT INTO outdated_objects (name, tenant, due_at)
SELECT v.name, v.tenant, now() + CASE WHEN v.in_use THEN CAST(:later AS interval) ELSE interval '0' END
FROM unnest(CAST(:names AS text[]), CAST(:tenants AS text[]), CAST(:in_use AS boolean[])) AS v(name, tenant, in_use)
ORDER BY v.name
ON CONFLICT (name) DO UPDATE SET due_at = least(outdated_objects.due_at, excluded.due_at)

-- name: stored_in_use
-- Return the objects among these of which a version uses a part or the whole.
SELECT DISTINCT {stored_in} FROM document_versions WHERE {stored_in} = ANY(CAST(:stored AS text[]))

-- name: half_written
-- Find documents whose newest version has some chunks.
-- plan: generic
SELECT d.id FROM documents d
WHERE d.id = ANY(CAST(:ids AS uuid[]))
  AND EXISTS (SELECT 1 FROM chunks c WHERE c.document_id = d.id AND c.version = d.version)

-- part: copied
-- Started versions have the content of the version before.
copied AS (
    INSERT INTO document_versions (document_id, version, {content})
    SELECT b.id, b.version, {content}
    FROM started b JOIN document_versions v ON v.document_id = b.id AND v.version = b.newest
)
SELECT id, version FROM started

-- name: restart
-- Start the next version of claimed documents.
WITH newest AS (
    SELECT id, version FROM documents WHERE id = ANY(CAST(:ids AS uuid[]))
), started AS (
    UPDATE documents d SET {next_version} FROM newest n WHERE d.id = n.id
    RETURNING d.*, n.version AS newest
), {copied}

-- name: reindex
-- Start the next version of documents that are not in progress, in a lane of a job.
WITH newest AS (
    SELECT id, version FROM documents WHERE id = ANY(CAST(:ids AS uuid[]))
), started AS (
    UPDATE documents d SET {REINDEX.sets}, lane = :lane, job_id = :job, {due_again}, {next_version}
    FROM newest n WHERE d.id = n.id
    RETURNING d.*, n.version AS newest
), {copied}
