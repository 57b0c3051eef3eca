-- name: page
-- List notes after an address.
SELECT address, note FROM source_notes
WHERE source_id = :source AND address > CAST(:after AS text) COLLATE "C" ORDER BY address LIMIT :limit

-- name: write
-- Store notes of a source, unless it was removed.
INSERT INTO source_notes (source_id, address, note)
SELECT s.id, n.address, n.note
FROM sources s, unnest(CAST(:addresses AS text[]), CAST(:notes AS bytea[])) AS n(address, note)
WHERE s.id = :source ORDER BY n.address COLLATE "C"
ON CONFLICT (source_id, address) DO UPDATE SET note = excluded.note

-- name: delete
-- Delete notes.
DELETE FROM source_notes WHERE source_id = :source AND address = ANY(CAST(:addresses AS text[]))
