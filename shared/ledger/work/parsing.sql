-- The settlements of parse workers. Each settlement compares the fencing token in its WHERE clause, so a stale
-- settlement changes nothing. A group of any size is one statement with one plan: its rows are one JSON array, whose
-- names match the columns (`rows`).

-- name: settle_parsed
-- Record documents as parsed.
-- plan: generic
WITH parsed AS (
    UPDATE documents d
    SET {SETTLE_PARSED.sets}, reader = v.reader, leased_by = NULL, attempts = 0, lost_leases = 0, error = NULL,
        due_at = now(), updated_at = now()
    FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS v(id uuid, token bigint, title text, media_type text, reader text, text_coverage real, missing jsonb)
    WHERE {is_given:d} AND d.id = v.id AND d.lease_token = v.token AND {SETTLE_PARSED.applies:d}
    RETURNING d.id, d.version, v.title, v.media_type, v.text_coverage, v.missing
)
UPDATE document_versions o
SET title = coalesce(o.title, p.title), media_type = coalesce(o.media_type, p.media_type),
    text_coverage = p.text_coverage, missing = p.missing
FROM parsed p WHERE o.document_id = p.id AND o.version = p.version
RETURNING p.id

-- name: add_languages
-- Add languages to the languages of a collection.
-- plan: generic
UPDATE collections
SET languages = ARRAY(SELECT DISTINCT l FROM unnest(languages || CAST(:languages AS text[])) l ORDER BY l)
WHERE id = :id AND NOT languages @> CAST(:languages AS text[])

-- name: add_fields
-- Add fields of metadata to the fields of a collection, up to a number.
-- plan: generic
UPDATE collections l SET metadata_fields = {more_fields}
WHERE l.id = :id AND {lacks_fields}

-- name: lock_parsing
-- Lock a document whose chunks are being inserted, if the claim holds, and extend the claim: other extensions skip
-- locked rows, and the row of a large document is locked nearly all the time.
-- plan: generic
UPDATE documents SET due_at = now() + :lease
WHERE id = :id AND lease_token = :token AND {SETTLE_PARSED.applies}
RETURNING id

-- name: insert_chunks
-- Insert the chunks of parsed documents with their contents. A chunk of an earlier attempt may have ended: a conflict
-- with another partition is not detected. Pictures do not wait for batches, whose lines are texts.
-- plan: generic
WITH v AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb))
        AS v(document_id uuid, id uuid, ordinal int, content jsonb, content_key bytea, ready_questions text[],
             picture bytea)
), inserted AS (
    INSERT INTO chunks (id, version, document_id, tenant, lane, ordinal, content_key, state, ready_made,
                        embedding_model)
    SELECT v.id, d.version, d.id, d.tenant,
           CASE WHEN v.picture IS NULL OR {is_live_lane:d} THEN d.lane ELSE {bulk_lane:d} END, v.ordinal, v.content_key,
           {INSERT_CHUNK.target}, v.ready_questions IS NOT NULL, l.embedding_model
    FROM v JOIN documents d ON d.id = v.document_id JOIN collections l ON l.id = d.collection_id
    WHERE NOT EXISTS (SELECT 1 FROM chunks e WHERE e.id = v.id AND e.version = d.version OFFSET 0)
    ON CONFLICT DO NOTHING
    RETURNING id, version
)
INSERT INTO chunk_contents (chunk_id, version, content, ready_questions, content_key, picture)
SELECT i.id, i.version, v.content, v.ready_questions, v.content_key, v.picture FROM inserted i JOIN v ON v.id = i.id

-- name: fail_documents
-- plan: generic
UPDATE documents t
SET {FAIL_PARSING.sets:v.dead}, reader = CASE WHEN v.dead THEN :reader ELSE t.reader END,
    error = v.error, attempts = t.attempts + v.burned,
    history = {history:t}, due_at = {next_attempt}, leased_by = NULL, lost_leases = {lost_leases:t}, updated_at = now()
{valid_failures} AND {FAIL_PARSING.applies:t}
RETURNING t.id, t.tenant, t.collection_id, t.state
