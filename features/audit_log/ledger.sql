-- name: page
-- List recorded changes, the newest first: of a tenant, or by operators and commands for any tenant.
SELECT id, tenant, created_at, actor, actor_name, actor_key_id, action, object, object_name, changes FROM audit_log
WHERE (tenant = :tenant OR CAST(:tenant AS text) IS NULL AND actor = ANY(CAST(:actors AS text[])))
  AND (CAST(:object AS text) IS NULL OR object = :object)
  AND (CAST(:object_name AS text) IS NULL OR object_name = :object_name)
  AND (CAST(:actor_name AS text) IS NULL OR actor_name = :actor_name)
  AND (CAST(:at AS timestamptz) IS NULL OR (created_at, id) < (:at, CAST(:after AS uuid)))
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: forget
-- Delete some changes that were recorded long ago, or before an erasure of their tenant by an older release.
DELETE FROM audit_log WHERE id = ANY(ARRAY(
    SELECT a.id FROM audit_log a
    WHERE a.created_at < now() - CAST(:age AS interval)
       OR EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = a.tenant AND e.scope = 'tenant'
                    AND e.finished_at >= a.created_at)
    LIMIT :limit
)) RETURNING id

-- name: erase_of_tenant
-- Delete some changes of an erased tenant.
DELETE FROM audit_log
WHERE ctid = ANY(ARRAY(SELECT ctid FROM audit_log WHERE tenant = :tenant LIMIT :limit)) RETURNING 1
