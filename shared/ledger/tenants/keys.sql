-- part: key_columns
id, tenant, name, scopes, filter, created_at, expires_at, revoked_at, last_used_at, limits, key_prefix, now() AS read_at

-- name: find
-- Find keys by their hashes, including ended ones.
SELECT sha256, {key_columns} FROM api_keys WHERE sha256 = ANY(CAST(:hashes AS bytea[]))

-- name: page
-- List a tenant's keys, the newest first.
SELECT {key_columns} FROM api_keys
WHERE tenant = :tenant
  AND (CAST(:at AS timestamptz) IS NULL OR (created_at, id) < (:at, CAST(:after AS uuid)))
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: lock
-- Lock the keys of a tenant until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('api_keys:' || :tenant, 0))

-- name: delete_ended
-- Delete a tenant's keys that ended long ago.
DELETE FROM api_keys
WHERE tenant = :tenant AND least(revoked_at, expires_at) < now() - CAST(:age AS interval)

-- name: count
SELECT count(*) FROM api_keys WHERE tenant = :tenant

-- name: insert
-- Insert a key; return no row if a key that is not revoked has the name.
INSERT INTO api_keys (id, tenant, name, sha256, key_prefix, scopes, filter, limits, expires_at)
VALUES (:id, :tenant, :name, :sha256, :key_prefix, CAST(:scopes AS text[]), CAST(:filter AS jsonb), CAST(:limits AS jsonb),
        now() + CAST(:lasts AS interval))
ON CONFLICT (tenant, name) WHERE revoked_at IS NULL DO NOTHING
RETURNING {key_columns}

-- name: lock_one
-- Lock a key of a tenant until the transaction ends.
SELECT {key_columns} FROM api_keys WHERE tenant = :tenant AND id = :id FOR UPDATE

-- name: change
-- Set the limits and the end of a key.
UPDATE api_keys SET limits = CAST(:limits AS jsonb), expires_at = :expires_at WHERE id = :id RETURNING {key_columns}

-- name: revoke
-- Revoke a key; the first time counts.
UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE tenant = :tenant AND id = :id

-- name: record_use
-- Record that keys were used, unless another process has just done so.
UPDATE api_keys SET last_used_at = now()
WHERE id = ANY(CAST(:ids AS uuid[]))
  AND (last_used_at IS NULL OR last_used_at <= now() - CAST(:every AS interval))
