-- name: page
SELECT address, note FROM source_notes
WHERE source_id = :source AND address > CAST(:after AS text) COLLATE "C" ORDER BY address LIMIT :limit

-- name: write
-- Store notes of a source, unless it was removed.
INSERT INTO source_notes (source_id, address, note)
SELECT s.id, n.address, n.note
FROM sources s, unnest(CAST(:addresses AS text[]), CAST(:notes AS bytea[])) AS n(address, note)
WHERE s.id = :source ORDER BY n.address COLLATE "C"
ON CONFLICT (source_id, address) DO UPDATE SET note = excluded.note

-- name: record_progress
-- Record that the workers of a source's open jobs do not die without progress.
UPDATE job_claims SET lost_leases = 0 WHERE lost_leases > 0 AND id IN (SELECT y.id FROM syncs y WHERE y.source_id = :source)

-- name: delete
DELETE FROM source_notes WHERE source_id = :source AND address = ANY(CAST(:addresses AS text[]))
