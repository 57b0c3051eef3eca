-- Extensions of leases. The rows of a worker's leases are also settled, edited and deleted, in other orders. An
-- extension that waited for them could cause a deadlock: PostgreSQL ends one of both transactions after a second, and
-- the leases may expire meanwhile. Therefore it skips locked rows. Each statement returns the tokens of all valid
-- leases, and whether they are extended.

-- name: extend_documents
-- plan: generic
WITH valid AS MATERIALIZED (
    SELECT t.id, t.version, v.token AS lease_token
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint)
    JOIN documents t ON t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
    WHERE {is_given:t}
), free AS MATERIALIZED (
    SELECT t.id, t.version
    FROM valid v
    JOIN documents t
      ON t.id = v.id AND t.version = v.version AND t.lease_token = v.lease_token AND t.leased_by IS NOT NULL
    WHERE {is_given:t}
    FOR NO KEY UPDATE OF t SKIP LOCKED
), extended AS (
    UPDATE documents t SET due_at = now() + :lease FROM free f
    WHERE {is_given:t} AND t.id = f.id AND t.version = f.version
)
SELECT v.lease_token, f.id IS NOT NULL AS is_extended FROM valid v LEFT JOIN free f USING (id, version)

-- name: extend_chunks
-- plan: generic
WITH valid AS MATERIALIZED (
    SELECT t.id, t.version, v.token AS lease_token
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint)
    JOIN chunks_open t ON t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
    WHERE {is_given:t}
), free AS MATERIALIZED (
    SELECT t.id, t.version
    FROM valid v
    JOIN chunks_open t
      ON t.id = v.id AND t.version = v.version AND t.lease_token = v.lease_token AND t.leased_by IS NOT NULL
    WHERE {is_given:t}
    FOR NO KEY UPDATE OF t SKIP LOCKED
), extended AS (
    UPDATE chunks_open t SET due_at = now() + :lease FROM free f
    WHERE {is_given:t} AND t.id = f.id AND t.version = f.version
)
SELECT v.lease_token, f.id IS NOT NULL AS is_extended FROM valid v LEFT JOIN free f USING (id, version)

-- name: extend_pages
WITH valid AS MATERIALIZED (
    SELECT t.id, t.version, v.token AS lease_token
    FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint)
    JOIN pages t ON t.id = v.id AND t.version = v.version AND t.lease_token = v.token AND t.leased_by IS NOT NULL
    WHERE {is_given:t}
), free AS MATERIALIZED (
    SELECT t.id, t.version
    FROM valid v
    JOIN pages t
      ON t.id = v.id AND t.version = v.version AND t.lease_token = v.lease_token AND t.leased_by IS NOT NULL
    WHERE {is_given:t}
    FOR NO KEY UPDATE OF t SKIP LOCKED
), extended AS (
    UPDATE pages t SET due_at = now() + :lease FROM free f
    WHERE {is_given:t} AND t.id = f.id AND t.version = f.version
)
SELECT v.lease_token, f.id IS NOT NULL AS is_extended FROM valid v LEFT JOIN free f USING (id, version)

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
