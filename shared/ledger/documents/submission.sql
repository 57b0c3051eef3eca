-- part: submitted
-- The submitted documents in the lock order of all writers.
SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS n(
    position int, id uuid, external_id text, lane smallint, job_id uuid, filename text, title text, media_type text,
    metadata jsonb, readable_by text[], ready_questions jsonb, upload text, size_bytes bigint, content_hash bytea, traceparent text)
ORDER BY external_id, position

-- part: insert_content
-- The content of versions that start, for `d`: documents that the same statement writes from `n`, the submitted ones.
INSERT INTO document_versions (document_id, version, {content})
SELECT d.id, d.version, n.filename, n.title, n.media_type, n.metadata, n.readable_by, n.ready_questions, n.upload,
       n.size_bytes, n.content_hash, n.traceparent
FROM d JOIN n ON n.id = d.id RETURNING *

-- part: inserted
-- New documents in the build `l`.
n AS MATERIALIZED (
    {submitted}
), d AS (
    INSERT INTO documents (id, public_id, tenant, collection_id, external_id, lane, job_id, state)
    SELECT n.id, n.id, :tenant, l.id, n.external_id, n.lane, n.job_id, {SUBMIT.target} FROM l, n
    ON CONFLICT (collection_id, external_id) WHERE {exists} DO NOTHING
    RETURNING *
), v AS (
    {insert_content}
)
SELECT {shown} FROM d JOIN v ON v.document_id = d.id

-- name: insert
-- Insert new documents into a build that stays unchanged until the transaction ends; return no row for a document whose
-- external id exists in its collection.
WITH l AS (
    SELECT l.id FROM collections l WHERE l.id = :collection_id FOR KEY SHARE
), {inserted}

-- name: insert_alone
-- Insert new documents into a live build without followers; otherwise return no row. PostgreSQL reads the build's row
-- again if it had to wait for it.
-- plan: generic
WITH l AS (
    SELECT l.id FROM collections l WHERE l.id = :collection_id AND {is_live:l} AND NOT l.followed FOR KEY SHARE
), {inserted}

-- name: lock_same_names
-- Lock the documents that have external ids, and the builds that their collection has.
SELECT d.id FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.collection_id = :collection_id AND d.external_id = ANY(CAST(:external_ids AS text[]))
  AND {exists:d}
ORDER BY d.external_id FOR UPDATE OF d FOR KEY SHARE OF l

-- name: get_locked
SELECT {shown} FROM documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
WHERE d.id = ANY(CAST(:ids AS uuid[]))

-- name: replace_references
-- Point unchanged documents in all builds to other bytes with the same content, unless their bytes are stored.
UPDATE document_versions v SET upload = n.upload
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS n(external_id text, upload text, content_hash bytea),
     documents d JOIN collections l ON l.id = d.collection_id
WHERE l.tenant = :tenant AND l.name = :name AND d.external_id = n.external_id AND {exists:d}
  AND v.document_id = d.id AND v.content_hash = n.content_hash AND v.upload <> n.upload AND {is_reference}

-- name: replace
-- Start the next version of a locked document with other content.
WITH n AS MATERIALIZED (
    {submitted}
), d AS (
    UPDATE documents d SET {REPLACE.sets}, {next_version}, lane = n.lane, job_id = n.job_id, {due_again}
    FROM n WHERE d.id = n.id RETURNING d.*
), v AS (
    {insert_content}
)
SELECT {shown} FROM d JOIN v ON v.document_id = d.id
