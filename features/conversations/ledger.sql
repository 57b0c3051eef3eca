-- part: owned
-- The conversations of a key.
tenant = :tenant AND owner = :owner

-- part: was_erased
-- Whether data that a conversation c cites was erased, or is being erased. The documents of an erased collection or tenant
-- do not exist any more, even if there is a new one of its name.
(EXISTS (SELECT 1 FROM unnest(c.collections) AS n(name)
         WHERE NOT EXISTS (SELECT 1 FROM collections l
                           WHERE l.tenant = c.tenant AND l.name = n.name AND {is_live:l}))
 OR EXISTS (SELECT 1 FROM erasures e
            WHERE e.tenant = c.tenant
              AND (e.public_ids && c.document_ids
                   OR (e.scope = 'tenant' OR e.collection = ANY(c.collections))
                      AND EXISTS (SELECT 1 FROM unnest(c.document_ids) AS k(id)
                                  WHERE NOT EXISTS (SELECT 1 FROM documents d
                                                    WHERE d.public_id = k.id AND d.tenant = c.tenant
                                                      AND {exists:d})))))

-- name: lock
-- Wait until no other process stores a conversation of the key.
SELECT pg_advisory_xact_lock(
    hashtextextended('conversations:' || CAST(:tenant AS text) || '/' || CAST(:owner AS text), 0))

-- name: store
-- Store a conversation, unless a later change of it is stored. A clock that is ahead must not win for ever.
INSERT INTO conversations (tenant, owner, id, key_id, name, turns, collections, document_ids, changed_at)
VALUES (:tenant, :owner, :id, CAST(:key_id AS uuid), :name, :turns, CAST(:collections AS text[]),
        CAST(:documents AS uuid[]), least(CAST(:changed_at AS timestamptz), now()))
ON CONFLICT (tenant, owner, id) DO UPDATE
SET name = excluded.name, turns = excluded.turns, collections = excluded.collections,
    document_ids = excluded.document_ids, changed_at = excluded.changed_at, stored_at = now(), checked_at = now()
WHERE conversations.changed_at <= excluded.changed_at
RETURNING changed_at

-- name: changed_at
-- Read the time of the last change of a conversation.
SELECT changed_at FROM conversations WHERE {owned} AND id = :id

-- name: cites_erased
-- Return whether a conversation cites erased data.
SELECT {was_erased} FROM conversations c WHERE c.tenant = :tenant AND c.owner = :owner AND c.id = :id

-- name: delete_oldest
-- Delete all conversations of the key except the newest ones.
DELETE FROM conversations
WHERE {owned} AND id IN (SELECT id FROM conversations WHERE {owned} ORDER BY changed_at DESC, id DESC OFFSET :most)

-- name: page
-- List the conversations of the key, the newest first. Erased data is invisible as soon as its erasure starts.
SELECT id, name, turns, changed_at FROM conversations c
WHERE {owned} AND stored_at > now() - CAST(:age AS interval) AND NOT {was_erased}
  AND (CAST(:at AS timestamptz) IS NULL OR (changed_at, id) < (:at, CAST(:after AS text)))
ORDER BY changed_at DESC, id DESC LIMIT :limit

-- name: delete
-- Delete a conversation of the key, or all of them.
DELETE FROM conversations WHERE {owned} AND (CAST(:id AS text) IS NULL OR id = :id) RETURNING id

-- name: lock_due
-- Lock the conversations that were checked longest ago.
SELECT tenant, owner, id FROM conversations WHERE checked_at <= now() - CAST(:every AS interval)
ORDER BY checked_at LIMIT :limit FOR UPDATE SKIP LOCKED

-- part: is_due
-- Whether a conversation c is one of the locked ones.
(c.tenant, c.owner, c.id) IN (
    SELECT k.tenant, k.owner, k.id
    FROM unnest(CAST(:tenants AS text[]), CAST(:owners AS text[]), CAST(:ids AS text[])) AS k(tenant, owner, id))

-- name: delete_over
-- Delete the conversations whose retention is over, whose key was revoked or has expired, or which cite erased data.
DELETE FROM conversations c
WHERE {is_due}
  AND (c.stored_at <= now() - CAST(:age AS interval)
       OR c.key_id IS NOT NULL AND NOT EXISTS (
           SELECT 1 FROM api_keys k
           WHERE k.id = c.key_id AND k.tenant = c.tenant AND k.revoked_at IS NULL
             AND (k.expires_at IS NULL OR k.expires_at > now()))
       OR {was_erased})

-- name: record_check
-- Record that these conversations were checked.
UPDATE conversations c SET checked_at = now() WHERE {is_due}

-- name: erase_of_tenant
-- Delete some conversations of an erased tenant.
DELETE FROM conversations
WHERE ctid = ANY(ARRAY(SELECT ctid FROM conversations WHERE tenant = :tenant LIMIT :limit)) RETURNING 1

-- name: erase_of_part
-- Delete some conversations that cite erased documents, or whose questions were asked of an erased collection.
DELETE FROM conversations WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM conversations
    WHERE tenant = :tenant
      AND (document_ids && CAST(:public_ids AS uuid[]) OR CAST(:collection AS text) = ANY(collections))
    LIMIT :limit
)) RETURNING 1

-- name: count_by_document
-- Count the conversations that cite each of some documents.
SELECT k.id AS public_id, count(*) AS rows
FROM conversations c CROSS JOIN LATERAL unnest(c.document_ids) AS k(id)
WHERE c.tenant = :tenant AND k.id = ANY(CAST(:public_ids AS uuid[])) GROUP BY k.id

-- part: next_texts
-- The next conversations of a tenant, by their keys and ids, which a position contains with a space between them.
next AS MATERIALIZED (
    SELECT c.owner, c.id, c.name ~ CAST(:pattern AS text) OR c.turns ~ CAST(:pattern AS text) AS matches
    FROM conversations c
    WHERE c.tenant = :tenant
      AND (CAST(:after AS text) IS NULL
           OR (c.owner, c.id) > (split_part(CAST(:after AS text), ' ', 1),
                                 substr(CAST(:after AS text), position(' ' IN CAST(:after AS text)) + 1)))
    ORDER BY c.owner, c.id LIMIT :limit
), last AS (SELECT n.owner || ' ' || n.id AS position FROM next n ORDER BY n.owner DESC, n.id DESC LIMIT 1)

-- name: count_texts
-- Count the next conversations with texts that name a person.
WITH {next_texts}
SELECT count(*) AS rows, (SELECT position FROM last) AS last FROM next WHERE matches

-- name: erase_texts
-- Delete the next conversations with texts that name a person.
WITH {next_texts}, deleted AS (
    DELETE FROM conversations c USING next n
    WHERE n.matches AND c.tenant = :tenant AND c.owner = n.owner AND c.id = n.id RETURNING 1
)
SELECT (SELECT count(*) FROM deleted) AS rows, (SELECT position FROM last) AS last

-- name: count_under_name
-- Count conversations with questions to a collection that does not exist.
SELECT count(*) AS rows FROM conversations t WHERE t.tenant = :tenant AND CAST(:collection AS text) = ANY(t.collections)
AND NOT EXISTS (SELECT 1 FROM collections c WHERE c.tenant = t.tenant AND c.name = :collection)
