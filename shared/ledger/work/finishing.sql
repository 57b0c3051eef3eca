-- Documents whose texts are all stored, or whose chunks have all ended.

-- part: is_incomplete
-- A chunk or a page of a document's newest version is dead, or its file was not read completely.
((EXISTS (SELECT 1 FROM chunks_ended c
          WHERE c.document_id = d.id AND c.version = d.version AND c.state = {ChunkState.DEAD})
  OR EXISTS (SELECT 1 FROM pages p
             WHERE p.document_id = d.id AND p.version = d.version AND p.state = {PageState.DEAD}))
 OR EXISTS (SELECT 1 FROM document_versions v
            WHERE v.document_id = d.id AND v.version = d.version AND v.missing IS NOT NULL))

-- part: is_complete
-- A document's newest version may become live: every text is stored, or cannot be.
{SHOW.applies:d} AND NOT EXISTS (SELECT 1 FROM chunks_open c WHERE c.document_id = d.id AND c.version = d.version
                                 AND {TO_INDEX_TEXT:c})

-- part: is_finished
-- A document's chunks have all ended.
{FINISH.applies:d} AND NOT EXISTS (SELECT 1 FROM chunks_open c WHERE c.document_id = d.id AND c.version = d.version
                                   AND {OPEN_CHUNKS:c})

-- part: may_advance
({is_complete} OR {is_finished})

-- name: check_open
-- Find open documents that can advance because their workers died, longest due first. All checked documents are due
-- again after a quarter of their age or a minute: a document waits for hours while a model is slow, and the settlement
-- of its last chunk names it.
WITH due AS (
    SELECT id FROM documents WHERE {ENDING_QUEUE} AND due_at <= now()
    ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
), checked AS (
    UPDATE documents d
    SET due_at = now() + least(greatest((now() - d.updated_at) / 4 - interval '1 second', '0'), '1 minute')
    FROM due WHERE d.id = due.id
    RETURNING d.id, {may_advance} AS may_advance
)
SELECT id FROM checked WHERE may_advance

-- name: lock_advancing
-- Lock documents among these that may advance, in one order; return whether their texts are not shown yet.
-- plan: generic
SELECT d.id, {SHOW.applies:d} AS opening FROM documents d
WHERE d.id IN (SELECT d.id FROM documents d WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {may_advance})
ORDER BY d.id FOR UPDATE

-- name: show
-- Make the newest version of locked documents live and searchable if all its texts are stored and its points visible:
-- either Qdrant has shown this version, or they were written visible, because the document has no live version.
-- plan: generic
UPDATE documents d SET {SHOW.sets}, live_version = d.version, due_at = now(), updated_at = now()
FROM documents o
WHERE o.id = d.id AND d.id = ANY(CAST(:ids AS uuid[])) AND {is_complete}
  AND (d.live_version IS NULL
       OR EXISTS (SELECT 1 FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int)
                  WHERE v.id = d.id AND v.version = d.version))
RETURNING d.id, o.live_version IS NOT NULL AS replaces, {follows}

-- name: hidden_versions
-- Find the complete versions of locked documents whose points are hidden.
-- plan: generic
SELECT d.id AS document_id, d.version, d.collection_id, d.tenant, l.index_name
FROM documents d JOIN collections l ON l.id = d.collection_id
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {is_complete}

-- part: follows
-- A document belongs to a build that follows the live one, or to a live one with followers.
EXISTS (SELECT 1 FROM collections l WHERE l.id = d.collection_id AND {is_follower:l})
AS follows,
EXISTS (SELECT 1 FROM collections l WHERE l.id = d.collection_id AND l.followed AND {is_live:l})
AS leads

-- name: finish
-- Finish locked documents that show their newest version in Qdrant too.
-- plan: generic
UPDATE documents d
SET {finish_state}, updated_at = now()
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {is_finished}
RETURNING d.id, d.tenant, d.collection_id, d.state, {follows}
