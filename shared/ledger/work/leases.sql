-- Extensions of leases. The rows of a worker's leases are also settled, edited and deleted, in other orders. An
-- extension that waited for them could cause a deadlock: PostgreSQL ends one of both transactions after a second, and
-- the leases may expire meanwhile. Therefore it skips locked rows. Each statement returns the tokens of all valid
-- leases, and whether they are extended.

-- name: extend_documents
-- plan: generic
{extended:documents}

-- name: extend_chunks
-- plan: generic
{extended:chunks_open}

-- name: extend_pages
{extended:pages}

-- part: valid_leases
-- The leases that still hold.
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint)
WHERE {is_given:t} AND t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL

-- name: release_documents
-- End leases on documents without an attempt.
-- plan: generic
UPDATE documents t SET {RELEASE_DOCUMENT.sets}, due_at = now(), leased_by = NULL {valid_leases}

-- name: release_chunks
-- End leases on chunks without an attempt.
-- plan: generic
UPDATE chunks_open t SET due_at = now(), leased_by = NULL {valid_leases}

-- name: expire_documents
-- End leases on documents as if their worker had died: the next claim counts them as lost.
-- plan: generic
UPDATE documents t SET due_at = now() {valid_leases}

-- name: expire_chunks
-- End leases on chunks in the same way.
-- plan: generic
UPDATE chunks_open t SET due_at = now() {valid_leases}
