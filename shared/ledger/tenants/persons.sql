-- name: record_view
-- Record that the author of the transaction views documents as a person.
INSERT INTO audit_log (id, tenant, created_at, actor, actor_name, actor_key_id, action, object, object_name, changes)
SELECT gen_random_uuid(), :tenant, clock_timestamp(), a.author ->> 'kind', a.author ->> 'name',
       CAST(a.author ->> 'key_id' AS uuid), 'view as', 'person', :person,
       jsonb_build_object('groups', jsonb_build_array(NULL, audited_value('groups', CAST(:groups AS jsonb))))
FROM (SELECT CAST(current_setting('foreask.actor') AS jsonb) AS author) a

-- name: see_groups
-- Record groups that persons have now.
INSERT INTO groups_seen (tenant, name)
SELECT * FROM unnest(CAST(:tenants AS text[]), CAST(:names AS text[])) AS n(tenant, name)
ON CONFLICT (tenant, name) DO UPDATE SET seen_at = now()

-- name: forget_groups
DELETE FROM groups_seen WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM groups_seen WHERE seen_at < now() - CAST(:age AS interval) LIMIT :limit)) RETURNING 1

-- name: erase_of_tenant
-- Delete some groups of an erased tenant.
DELETE FROM groups_seen
WHERE ctid = ANY(ARRAY(SELECT ctid FROM groups_seen WHERE tenant = :tenant LIMIT :limit)) RETURNING 1

-- name: readers
-- Count the documents of live builds by the readers of their newest versions.
SELECT c.reader, c.documents, g.seen_at
FROM (
    SELECT r.reader, count(*) AS documents
    FROM documents d JOIN collections l ON l.id = d.collection_id
    JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    CROSS JOIN LATERAL unnest(CASE WHEN v.readable_by = '{}' THEN ARRAY[{nobody}] ELSE v.readable_by END) AS r(reader)
    WHERE d.tenant = :tenant AND {exists:d} AND {is_live:l}
      AND (CAST(:collection AS text) IS NULL OR l.name = :collection)
    GROUP BY r.reader
) c
LEFT JOIN groups_seen g ON g.tenant = :tenant AND 'group:' || g.name = c.reader
ORDER BY c.reader = ANY(CAST(:first AS text[])) DESC, c.documents DESC, c.reader LIMIT :limit
