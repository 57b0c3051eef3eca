-- name: touch
-- Mark documents whose chunks have changed, for listeners. Once per 5 s suffices: a mark is read for 25 s, and a
-- transaction takes at most 20 s. Documents locked by another transaction are skipped.
-- plan: generic
UPDATE documents SET updated_at = now()
WHERE id IN (
    SELECT id FROM documents
    WHERE id = ANY(CAST(:ids AS uuid[])) AND {OPEN_DOCUMENTS}
      AND updated_at <= now() - interval '5 seconds'
    FOR NO KEY UPDATE SKIP LOCKED)
