-- name: add_page
-- Add a page to visit. A page that is known already keeps its rank, and remembers its first 16 parents.
INSERT INTO pages (address, digest, pattern, rank, hops, parents)
VALUES (:address, :digest, :pattern, :rank, :hops, :parent)
ON CONFLICT (address) DO UPDATE SET
    has_more_parents = has_more_parents OR (length(pages.parents) >= :most_parents AND excluded.parents <> ''),
    parents = CASE WHEN length(pages.parents) < :most_parents THEN pages.parents || excluded.parents
                   ELSE pages.parents END,
    is_stored = is_stored AND (has_more_parents OR excluded.parents = '')

-- name: next_page
-- Return the page to visit next.
SELECT p.address, p.digest, p.pattern, p.rank, p.hops, k.note
FROM pages p LEFT JOIN known k USING (address)
WHERE p.outcome IS NULL ORDER BY p.rank, p.address LIMIT 1

-- name: record
-- Record the outcome of a visit.
UPDATE pages SET outcome = :outcome, reason = :reason, text_hash = :text_hash, canonical = :canonical, note = :note,
    size_bytes = :size_bytes, media_type = :media_type, title = :title, is_stored = 0
WHERE address = :address

-- name: restore
-- Add a page that this run has found before, in another process.
INSERT OR REPLACE INTO pages (address, digest, pattern, rank, hops, parents, has_more_parents, outcome, text_hash,
                              canonical, note, size_bytes, is_stored)
VALUES (:address, :digest, :pattern, :rank, :hops, :parents, :has_more_parents, :outcome, :text_hash, :canonical, :note,
        :size_bytes, 1)

-- name: to_store
-- Return the pages that changed since they were stored.
SELECT address, rank, hops, parents, has_more_parents, outcome, text_hash, size_bytes, note FROM pages
WHERE NOT is_stored ORDER BY address

-- name: visits_by_pattern
-- Count the visits of this run.
SELECT pattern, count(*) FROM pages WHERE outcome IS NOT NULL AND outcome <> 'trapped' GROUP BY pattern

-- name: outdated
-- Return the keys of pages of other runs that this run has not replaced.
SELECT key FROM outdated WHERE key > :after ORDER BY key LIMIT :most

-- name: parents_of
SELECT address, note, parents, has_more_parents FROM pages WHERE note IS NOT NULL AND address > :after
ORDER BY address LIMIT :most

-- name: children_in_memory
-- Return the pages to which a page linked at its last visit.
SELECT address FROM known_links WHERE parent = :digest ORDER BY address

-- name: linked_by_more
-- Return pages with a text in the previous run whose parents are not all known, and that were not found in this run.
SELECT address FROM known
WHERE has_more_parents AND text_hash IS NOT NULL AND address NOT IN (SELECT address FROM pages) ORDER BY address

-- name: add_unvisited
-- Add the pages with a text in the previous run that this run, which has reached its limit, did not find.
INSERT INTO pages (address, digest, pattern, rank, hops)
SELECT address, '', '', 0, 0 FROM known
WHERE text_hash IS NOT NULL AND address NOT IN (SELECT address FROM pages)

-- name: refuse_unvisited
-- Refuse the pages that had a text in the previous run and not visited by this one: they may still exist.
UPDATE pages SET outcome = 'refused', reason = :reason,
    text_hash = (SELECT text_hash FROM known k WHERE k.address = pages.address),
    note = (SELECT note FROM known k WHERE k.address = pages.address)
WHERE (outcome IS NULL OR outcome = 'trapped')
  AND address IN (SELECT address FROM known WHERE text_hash IS NOT NULL)

-- name: prefer_canonical
-- A page whose canonical address is a listed page, which does not name another one itself, is not a document.
UPDATE pages SET outcome = 'canonical'
WHERE outcome = 'listed' AND canonical IS NOT NULL AND EXISTS (
    SELECT 1 FROM pages target
    WHERE target.digest = pages.canonical AND target.outcome = 'listed' AND target.canonical IS NULL)

-- name: prefer_first
-- Of the pages with the same text, only the first is a document. A refused page keeps the text of its last visit.
UPDATE pages SET outcome = 'duplicate'
WHERE outcome = 'listed' AND address > (
    SELECT min(first.address) FROM pages first
    WHERE first.text_hash = pages.text_hash AND first.outcome IN ('listed', 'refused'))

-- name: entries
SELECT address, text_hash, size_bytes, reason FROM pages
WHERE outcome IN ('listed', 'refused') AND address > :after ORDER BY address LIMIT :most

-- name: forgotten
-- Return the notes whose pages were not found again.
SELECT address FROM known k
WHERE address > :after AND NOT EXISTS (SELECT 1 FROM pages p WHERE p.address = k.address AND p.note IS NOT NULL)
ORDER BY address LIMIT :most

-- name: earlier_page_with_text
SELECT address FROM known WHERE text_hash = :text_hash AND address < :address LIMIT 1
