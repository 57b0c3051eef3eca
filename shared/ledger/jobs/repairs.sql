-- part: may_be_checked
-- Collections without known damage whose last repair is over for long enough.
damage IS NULL AND (repair_due_at IS NULL OR repair_due_at <= now())

-- name: noted_server
-- plan: generic
SELECT system, timeline FROM servers ORDER BY id DESC LIMIT 1

-- name: get_server
-- Read the server that answered last, and whether it did for the first time a moment ago.
SELECT system, timeline, first_seen_at > now() - CAST(:late AS interval) AS is_new FROM servers
ORDER BY id DESC LIMIT 1

-- name: insert_server
-- Record the server that answers now.
INSERT INTO servers (system, timeline) VALUES (:system, :timeline)

-- name: suspect_all
-- Repair every collection now, and again after the late writers of lost claims have stopped. A build that is not live
-- is repaired when it becomes live.
UPDATE collections SET damage = '{FAILOVER}', damaged_at = now(), repair_due_at = now(), repair_id = NULL,
       repair_after = now() + CAST(:late AS interval)

-- name: mark_lost
-- Repair collections that have lost points, unless they are being repaired.
UPDATE collections SET damage = '{LOST_POINTS}', damaged_at = now(), repair_due_at = now(), repair_after = now()
WHERE id = ANY(CAST(:ids AS uuid[])) AND {may_be_checked}
RETURNING tenant, name

-- name: due
-- List collections whose repair is due.
SELECT {collection_columns} FROM collections
WHERE damage IS NOT NULL AND repair_id IS NULL AND repair_due_at <= now() AND {is_live}
ORDER BY repair_due_at LIMIT :limit

-- name: note_start
-- Record the verification that repairs a collection.
UPDATE collections SET repair_id = :verification WHERE id = :id AND damage IS NOT NULL AND repair_id IS NULL RETURNING id

-- name: postpone
-- Start the repair of a collection later.
UPDATE collections SET repair_id = NULL, repair_due_at = now() + CAST(:pause AS interval) WHERE id = :id AND repair_id IS NOT DISTINCT FROM CAST(:verification AS uuid) RETURNING id

-- name: ended
-- List collections whose repair has ended, with its counts, when the points that were missing are written again.
SELECT c.id, c.repair_id, c.tenant, c.name, c.damage, v.state, v.created_at >= c.repair_after AS is_last,
       greatest(c.repair_after - now(), CAST('0' AS interval)) AS pause, v.progress -> 'counts' AS counts
FROM collections c LEFT JOIN jobs v ON v.id = c.repair_id
WHERE c.damage IS NOT NULL AND c.repair_id IS NOT NULL AND (v.id IS NULL OR v.ended_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM documents d JOIN chunks_open k ON k.document_id = d.id AND k.version = d.live_version
                  WHERE d.collection_id = c.id AND d.state = {DocumentState.SEARCHABLE} AND d.updated_at <= v.ended_at
                    AND k.state = {ChunkState.GENERATED})
LIMIT :limit

-- name: clear
-- Forget the damage of a repaired collection. Its points are not checked before a pause is over.
UPDATE collections SET damage = NULL, damaged_at = NULL, repair_due_at = now() + CAST(:pause AS interval),
       repair_after = NULL, repair_id = NULL
WHERE id = :id AND repair_id = :verification RETURNING id

-- name: count
-- Count damaged collections of all tenants.
SELECT count(*) FROM collections WHERE damage IS NOT NULL AND {is_live}

-- name: of_tenant
-- List a tenant's damaged collections.
SELECT {collection_columns} FROM collections WHERE tenant = :tenant AND damage IS NOT NULL AND {is_live} ORDER BY name

-- name: builds_after
-- List some collections whose points may be checked, in order of their ids.
SELECT {collection_columns} FROM collections
WHERE {may_be_checked} AND {is_live} AND (CAST(:after AS uuid) IS NULL OR id > :after)
ORDER BY id LIMIT :limit

-- name: newest
-- List the documents of a collection that changed last and are finished.
SELECT id, public_id, external_id, state, version, live_version, updated_at FROM (
    SELECT * FROM documents WHERE tenant = :tenant ORDER BY updated_at DESC LIMIT :most) d
WHERE d.collection_id = :collection AND {FINAL_DOCUMENTS:d} AND d.live_version IS NOT NULL
ORDER BY d.updated_at DESC LIMIT :limit
