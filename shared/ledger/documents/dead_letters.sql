-- part: is_dead
-- The selected dead chunks, of any document; a NULL filter matches everything.
c.tenant = :tenant AND c.state = {ChunkState.DEAD}
  AND (CAST(:letter_id AS uuid) IS NULL OR c.id = :letter_id)
  AND (CAST(:reason AS text) IS NULL OR c.error = :reason)

-- part: dead_chunks
-- The selected dead chunks in every build: failures in a build that is not live can be retried, too.
FROM chunks_ended c
JOIN documents d ON d.id = c.document_id AND d.version = c.version
JOIN collections l ON l.id = d.collection_id
WHERE {is_dead} AND NOT {is_dropping:l}
  AND (CAST(:document_id AS uuid) IS NULL OR d.public_id = :document_id)
  AND (CAST(:collection AS text) IS NULL OR l.name = :collection)

-- part: dead_pages
-- The selected dead pages. The letter of a failed document covers its pages.
FROM pages p
JOIN documents d ON d.id = p.document_id AND d.version = p.version
JOIN collections l ON l.id = d.collection_id
WHERE p.tenant = :tenant AND p.state = {PageState.DEAD} AND NOT ({has_failed:d}) AND NOT {is_dropping:l}
  AND (CAST(:letter_id AS uuid) IS NULL OR p.id = :letter_id)
  AND (CAST(:reason AS text) IS NULL OR p.error = :reason)
  AND (CAST(:document_id AS uuid) IS NULL OR d.public_id = :document_id)
  AND (CAST(:collection AS text) IS NULL OR l.name = :collection)

-- part: page_is_older
-- Pages that died before a call started.
(CAST(:until AS timestamptz) IS NULL OR p.settled_at <= :until)

-- part: failed_documents
FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.tenant = :tenant AND d.state = {DocumentState.FAILED}
  AND NOT {is_dropping:l}
  AND (CAST(:document_id AS uuid) IS NULL OR d.public_id = :document_id)
  AND (CAST(:letter_id AS uuid) IS NULL OR d.public_id = :letter_id)
  AND (CAST(:reason AS text) IS NULL OR d.error = :reason)
  AND (CAST(:collection AS text) IS NULL OR l.name = :collection)

-- part: chunk_is_older
-- Chunks that died before a call started: letters that die again meanwhile are not resolved twice.
(CAST(:until AS timestamptz) IS NULL OR c.settled_at <= :until)

-- part: document_is_older
-- Documents that failed before a call started.
(CAST(:until AS timestamptz) IS NULL OR d.updated_at <= :until)

-- part: of_locked_documents
-- The selected dead chunks whose documents are locked.
WHERE (c.id, c.version) IN (
    SELECT c.id, c.version {dead_chunks} AND d.id = ANY(CAST(:ids AS uuid[])) AND {chunk_is_older})
RETURNING c.document_id

-- name: page
-- List letters of all kinds, the newest first.
(SELECT 'chunk' AS kind, c.id, d.public_id AS document_id, d.external_id, l.name AS collection, c.ordinal,
        coalesce(c.error, '') AS reason, coalesce((c.history -> -1 ->> 'attempt')::int, 1) AS attempts,
        c.settled_at AS at, c.history
 {dead_chunks}
   AND (CAST(:at AS timestamptz) IS NULL OR (c.settled_at, c.id) < (:at, CAST(:after AS uuid)))
 ORDER BY c.settled_at DESC, c.id DESC LIMIT :limit)
UNION ALL
(SELECT 'document', d.public_id, d.public_id, d.external_id, l.name, NULL,
        coalesce(d.error, ''), coalesce((d.history -> -1 ->> 'attempt')::int, 1), d.updated_at, d.history
 {failed_documents}
   AND (CAST(:at AS timestamptz) IS NULL OR (d.updated_at, d.public_id) < (:at, CAST(:after AS uuid)))
 ORDER BY d.updated_at DESC, d.public_id DESC LIMIT :limit)
UNION ALL
(SELECT 'page', p.id, d.public_id, d.external_id, l.name, p.number,
        coalesce(p.error, ''), coalesce((p.history -> -1 ->> 'attempt')::int, 1), p.settled_at, p.history
 {dead_pages}
   AND (CAST(:at AS timestamptz) IS NULL OR (p.settled_at, p.id) < (:at, CAST(:after AS uuid)))
 ORDER BY p.settled_at DESC, p.id DESC LIMIT :limit)
ORDER BY at DESC, id DESC LIMIT :limit

-- name: count_by_reason
-- Count letters by their reason, the most frequent first. Dead chunks need one lookup per document: one per chunk took
-- half a second at 60,000 chunks, and the planner would read all documents instead.
SELECT reason, sum(documents)::int AS documents, sum(chunks)::int AS chunks, sum(pages)::int AS pages,
       array_agg(DISTINCT collection ORDER BY collection) AS collections
FROM (SELECT c.reason, 0 AS documents, c.chunks, 0 AS pages, l.name AS collection
      FROM (SELECT c.document_id, c.version, coalesce(c.error, '') AS reason, count(*) AS chunks
            FROM chunks_ended c WHERE {is_dead} GROUP BY c.document_id, c.version, c.error OFFSET 0) c
      CROSS JOIN LATERAL (
          SELECT d.collection_id, d.public_id FROM documents d
          WHERE d.id = c.document_id AND d.version = c.version OFFSET 0) d
      JOIN collections l ON l.id = d.collection_id AND l.tenant = :tenant AND NOT {is_dropping:l}
      WHERE (CAST(:document_id AS uuid) IS NULL OR d.public_id = :document_id)
        AND (CAST(:collection AS text) IS NULL OR l.name = :collection)
      UNION ALL
      SELECT coalesce(d.error, ''), 1, 0, 0, l.name {failed_documents}
      UNION ALL
      SELECT coalesce(p.error, ''), 0, 0, 1, l.name {dead_pages}) letters
GROUP BY reason ORDER BY sum(documents + chunks + pages) DESC, reason LIMIT :limit

-- name: find_document
SELECT 1 FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.public_id = :id AND d.tenant = :tenant AND {exists:d} AND {is_live:l}

-- name: now
SELECT now()

-- name: count_in_progress
-- Count the selected dead chunks and pages whose documents are being processed.
SELECT (SELECT count(*) {dead_chunks} AND d.state <> {DocumentState.DEGRADED} AND {chunk_is_older})
       + (SELECT count(*) {dead_pages} AND d.state <> {DocumentState.DEGRADED} AND {page_is_older})

-- name: revive_documents
-- Queue failed documents of a choice again, the oldest first. Their dead pages are read again.
WITH failed AS (
    SELECT d.id {failed_documents} AND {document_is_older}
    ORDER BY d.updated_at, d.id LIMIT :limit FOR UPDATE OF d
), dead AS (
    DELETE FROM pages p USING failed f, documents d
    WHERE d.id = f.id AND p.document_id = d.id AND p.version = d.version AND p.state = {PageState.DEAD}
)
UPDATE documents d
SET {REVIVE_DOCUMENT.sets}, error = NULL, due_at = now(), updated_at = now(), {UNCLAIMED}
FROM failed WHERE d.id = failed.id
RETURNING d.id

-- part: live_is_incomplete
-- The live version of a document has dead chunks or pages, or its file was not read completely.
(EXISTS (SELECT 1 FROM chunks_ended c
         WHERE c.document_id = d.id AND c.version = d.live_version AND c.state = {ChunkState.DEAD})
 OR EXISTS (SELECT 1 FROM pages p
            WHERE p.document_id = d.id AND p.version = d.live_version AND p.state = {PageState.DEAD})
 OR EXISTS (SELECT 1 FROM document_versions v
            WHERE v.document_id = d.id AND v.version = d.live_version AND v.missing IS NOT NULL))

-- part: live_has_open
-- The live version of a document still has chunks in progress: it was edited before its questions were generated.
EXISTS (SELECT 1 FROM chunks_open c
        WHERE c.document_id = d.id AND c.version = d.live_version)

-- part: discard
-- Restore the live version of locked documents, and delete documents that never had one. Never reuse the discarded
-- number: a worker whose lease expired may still write under it. The reader of the live version is not known any more.
UPDATE documents d
SET {discard_state},
    version = coalesce(d.live_version, greatest(d.version, d.discarded_version) + 1),
    discarded_version = greatest(d.version, d.discarded_version),
    reader = NULL, error = NULL, due_at = now(), updated_at = now(), {UNCLAIMED}
FROM locked WHERE d.id = locked.id
RETURNING d.id

-- name: discard_documents
-- Discard failed documents of a choice in live builds, the oldest first. Another build's copy of a document follows the
-- live one, and these builds stay live until the transaction ends.
WITH locked AS (
    SELECT d.id {failed_documents} AND {document_is_older} AND {is_live:l}
    ORDER BY d.updated_at, d.id LIMIT :limit FOR UPDATE OF d FOR KEY SHARE OF l
)
{discard}

-- name: discard_queued
-- Discard queued documents of a job in a live build, and documents with pages in progress: documents that the job
-- added, or whose live version remains. A document that failed before the job is neither, and finishes.
WITH locked AS (
    SELECT d.id FROM jobs j JOIN documents d ON d.id IN (
        SELECT q.id FROM documents q WHERE {is_in_job_lane:q j} AND q.state = {DocumentState.QUEUED}
        UNION ALL
        SELECT w.document_id FROM pages w WHERE {is_in_job_lane:w j} AND {READ_QUEUE:w}
    ) AND d.state IN ({DocumentState.QUEUED}, {DocumentState.READING}) AND d.job_id = j.id
    JOIN collections l ON l.id = d.collection_id
    WHERE j.id = :job AND {is_live:l}
      AND (d.live_version IS NOT NULL OR j.kind = {JobKind.LOAD} AND d.version = 1)
    LIMIT :limit FOR UPDATE OF d FOR KEY SHARE OF l
)
{discard}

-- name: degraded_documents
-- Find documents with dead chunks of a choice, the longest dead first.
SELECT DISTINCT document_id
FROM (SELECT c.document_id {dead_chunks} AND d.state = {DocumentState.DEGRADED} AND {chunk_is_older}
      ORDER BY c.settled_at LIMIT :limit) dead

-- name: lock
-- Lock documents that no worker holds, in one order, so that two calls cannot deadlock.
SELECT id FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND state = {DocumentState.DEGRADED}
ORDER BY id FOR UPDATE

-- name: revive_chunks
-- Reopen dead chunks at the first stage: a paid chunk finds its completion when it is claimed, so it needs no call. Its
-- version is live, so its points stay visible while they are rewritten.
UPDATE chunks c
SET {REVIVE_CHUNK.sets}, error = NULL, due_at = now(), settled_at = NULL, {UNCLAIMED}
{of_locked_documents}

-- name: reopen
-- Return documents with revived chunks to processing.
UPDATE documents
SET {REOPEN.sets}, error = NULL, due_at = now(), updated_at = now(), {UNCLAIMED}
WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: discard_chunks
UPDATE chunks c SET {DISCARD_CHUNK.sets} {of_locked_documents}

-- name: unread_documents
-- Find documents with dead pages of a choice, the longest dead first.
SELECT DISTINCT document_id
FROM (SELECT p.document_id {dead_pages} AND d.state = {DocumentState.DEGRADED} AND {page_is_older}
      ORDER BY p.settled_at LIMIT :limit) dead

-- name: count_pages
-- Count the selected dead pages of locked documents.
SELECT count(*) {dead_pages} AND d.id = ANY(CAST(:ids AS uuid[])) AND {page_is_older}

-- name: discard_pages
UPDATE pages SET {DISCARD_PAGE.sets}
WHERE id IN (SELECT p.id {dead_pages} AND d.id = ANY(CAST(:ids AS uuid[])) AND {page_is_older})
RETURNING document_id

-- name: make_ready
-- Make documents ready that have no dead chunk or page left, and whose files were read completely.
UPDATE documents d SET {DISCARD_LAST.sets}, updated_at = now()
WHERE d.id = ANY(CAST(:ids AS uuid[]))
  AND NOT EXISTS (SELECT 1 FROM chunks_ended c
                  WHERE c.document_id = d.id AND c.version = d.version AND c.state = {ChunkState.DEAD})
  AND NOT EXISTS (SELECT 1 FROM pages p
                  WHERE p.document_id = d.id AND p.version = d.version AND p.state = {PageState.DEAD})
  AND NOT EXISTS (SELECT 1 FROM document_versions v
                  WHERE v.document_id = d.id AND v.version = d.version AND v.missing IS NOT NULL)
