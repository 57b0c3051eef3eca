-- name: compare
-- Compare the next documents of two builds. A document differs if its newest versions have different contents.
WITH names AS MATERIALIZED (
    SELECT external_id FROM (
     (SELECT external_id FROM documents d
      WHERE d.collection_id = :live AND {exists:d} AND d.external_id > :after
      ORDER BY external_id LIMIT :limit)
     UNION
     (SELECT external_id FROM documents d
      WHERE d.collection_id = :build AND {exists:d} AND d.external_id > :after
      ORDER BY external_id LIMIT :limit)) u
    ORDER BY external_id LIMIT :limit
), live AS (
    SELECT d.id, d.version, d.external_id, d.public_id, d.state, d.live_version, v.upload, v.content_hash
    FROM names JOIN documents d ON d.collection_id = :live AND d.external_id = names.external_id
    LEFT JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    WHERE {exists:d}
), build AS (
    SELECT d.id, d.version, d.external_id, d.public_id, d.state, d.live_version, v.upload, v.content_hash
    FROM names JOIN documents d ON d.collection_id = :build AND d.external_id = names.external_id
    LEFT JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    WHERE {exists:d}
), compared AS (
    SELECT external_id,
           b.external_id IS NULL AS missing,
           b.external_id = l.external_id AND (b.upload, b.content_hash, b.public_id)
               IS DISTINCT FROM (l.upload, l.content_hash, l.public_id) AS stale,
           l.external_id IS NULL AS orphaned,
           b.live_version IS NULL AND l.live_version IS NOT NULL AND b.state <> {DocumentState.FAILED} AS unindexed,
           b.state = {DocumentState.FAILED} AND l.state IS DISTINCT FROM {DocumentState.FAILED} AS failed,
           -- A chunk or a page is dead. Words that the build reports as missing did not arrive in the live build
           -- either.
           b.state = {DocumentState.DEGRADED} AND l.state = {DocumentState.READY}
               AND (EXISTS (SELECT 1 FROM chunks_ended c
                            WHERE c.document_id = b.id AND c.version = b.version AND c.state = {ChunkState.DEAD})
                    OR EXISTS (SELECT 1 FROM pages p
                               WHERE p.document_id = b.id AND p.version = b.version AND p.state = {PageState.DEAD}))
               AS degraded
    FROM live l FULL JOIN build b USING (external_id)
)
SELECT (SELECT max(external_id) FROM names) AS until,
       (SELECT count(*) FROM names) AS documents,
       coalesce(array_agg(external_id ORDER BY external_id) FILTER (WHERE missing), '{}') AS missing,
       coalesce(array_agg(external_id ORDER BY external_id) FILTER (WHERE stale), '{}') AS stale,
       coalesce(array_agg(external_id ORDER BY external_id) FILTER (WHERE orphaned), '{}') AS orphaned,
       count(*) FILTER (WHERE unindexed) AS unindexed,
       count(*) FILTER (WHERE failed) AS failed,
       count(*) FILTER (WHERE degraded) AS degraded
FROM compared
