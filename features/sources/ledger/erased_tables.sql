-- part: erased
-- The sources of an erased collection. Until the erasure has ended there is no other collection of that name.
tenant = :tenant AND collection = CAST(:collection AS text)

-- name: items_of_tenant
-- Delete some items of an erased tenant, whose rows name no tenant.
DELETE FROM source_items WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM source_items WHERE source_id = ANY(ARRAY(SELECT id FROM sources WHERE tenant = :tenant))
    LIMIT :limit
)) RETURNING 1

-- name: items_of_part
-- Delete some items of an erased collection.
DELETE FROM source_items WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM source_items WHERE source_id = ANY(ARRAY(SELECT id FROM sources WHERE {erased})) LIMIT :limit
)) RETURNING 1

-- name: syncs_of_tenant
-- Delete some syncs of an erased tenant.
DELETE FROM syncs
WHERE ctid = ANY(ARRAY(SELECT ctid FROM syncs WHERE tenant = :tenant LIMIT :limit)) RETURNING 1

-- name: syncs_of_part
-- Delete some syncs of an erased collection.
DELETE FROM syncs WHERE ctid = ANY(ARRAY(SELECT ctid FROM syncs WHERE {erased} LIMIT :limit)) RETURNING 1

-- name: syncs_under_name
-- Count syncs under the name of a collection that does not exist.
SELECT count(*) AS rows FROM syncs t WHERE t.tenant = :tenant AND t.collection = :collection
AND NOT EXISTS (SELECT 1 FROM collections c WHERE c.tenant = t.tenant AND c.name = t.collection)

-- name: sources_of_tenant
-- Delete some sources of an erased tenant.
DELETE FROM sources
WHERE ctid = ANY(ARRAY(SELECT ctid FROM sources WHERE tenant = :tenant LIMIT :limit)) RETURNING 1

-- name: sources_of_part
-- Delete some sources of an erased collection.
DELETE FROM sources WHERE ctid = ANY(ARRAY(SELECT ctid FROM sources WHERE {erased} LIMIT :limit)) RETURNING 1

-- name: sources_under_name
-- Count sources under the name of a collection that does not exist.
SELECT count(*) AS rows FROM sources t WHERE t.tenant = :tenant AND t.collection = :collection
AND NOT EXISTS (SELECT 1 FROM collections c WHERE c.tenant = t.tenant AND c.name = t.collection)
