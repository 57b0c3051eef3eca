-- The statements on pages. A settlement first locks the documents of its pages: the settlements of the last two pages
-- of a document could otherwise miss each other, and its document would wait for ever.

-- name: parse_pages
-- Record documents whose pages must be read.
UPDATE documents d
SET {PARSE_PAGES.sets}, leased_by = NULL, attempts = 0, lost_leases = 0, error = NULL, due_at = now(),
    updated_at = now()
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, token bigint)
WHERE d.id = v.id AND d.lease_token = v.token AND {PARSE_PAGES.applies:d}
RETURNING d.id

-- name: share_texts
-- Lock the texts of these keys until the transaction ends, because pages that need them are being inserted.
SELECT 1 FROM page_texts WHERE key = ANY(CAST(:keys AS bytea[])) ORDER BY key FOR KEY SHARE

-- name: insert_pages
INSERT INTO pages (id, document_id, version, number, tenant, lane, key, languages, state)
SELECT gen_random_uuid(), d.id, d.version, v.number, d.tenant, d.lane, v.key, v.languages, {insert_state}
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(document_id uuid, number int, key bytea, languages text)
JOIN documents d ON d.id = v.document_id
ON CONFLICT (document_id, version, number) DO NOTHING

-- name: texts
-- Read the pages of a version that wait for nothing, in order.
SELECT p.number, p.error, t.text, t.words, t.confidence
FROM pages p LEFT JOIN page_texts t ON t.key = p.key AND p.state = {PageState.READ}
WHERE p.document_id = :id AND p.version = :version AND NOT ({TO_READ:p})
ORDER BY p.number

-- name: upload
-- Return the name of a version's bytes.
SELECT upload FROM document_versions WHERE document_id = :id AND version = :version

-- name: lock_documents
-- Lock the documents of pages, and some others that wait for the same texts, in the lock order of all writers.
SELECT d.id FROM documents d
WHERE d.id IN (
    SELECT document_id FROM pages WHERE id = ANY(CAST(:ids AS uuid[]))
    UNION
    (SELECT document_id FROM pages WHERE key = ANY(CAST(:keys AS bytea[])) AND {TO_READ} LIMIT :limit))
ORDER BY d.id FOR NO KEY UPDATE

-- part: read_rows
-- Pages with their texts; null if the text exists.
jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(id uuid, token bigint, key bytea, tenant text, text text, words int, confidence float)

-- name: store_texts
-- Store texts, even if a claim has expired. A page needs the text, or nothing of its tenant was erased since the claim:
-- a late settlement must not restore erased data. Return the tenants of
-- the texts that were not stored before.
INSERT INTO page_texts (key, tenant, text, words, confidence)
SELECT v.key, v.tenant, v.text, v.words, v.confidence FROM {read_rows}
WHERE v.text IS NOT NULL
  AND (EXISTS (SELECT 1 FROM pages p WHERE p.key = v.key OFFSET 0)
       OR NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant = v.tenant AND e.last_token > v.token OFFSET 0))
ORDER BY v.key
ON CONFLICT DO NOTHING
RETURNING tenant

-- name: store_pictures
-- Store the pictures of stored texts, which are locked, because unused texts are deleted concurrently.
INSERT INTO page_pictures (key, picture)
SELECT v.key, v.picture
FROM (SELECT t.key FROM page_texts t WHERE t.key = ANY(CAST(:keys AS bytea[])) ORDER BY t.key FOR KEY SHARE) t
JOIN unnest(CAST(:keys AS bytea[]), CAST(:pictures AS bytea[])) AS v(key, picture) ON v.key = t.key
ON CONFLICT DO NOTHING

-- part: read
{SETTLE_READ.sets}, leased_by = NULL, attempts = 0, lost_leases = 0, error = NULL, settled_at = now()

-- name: settle_read
UPDATE pages p SET {read} FROM {read_rows}
WHERE p.id = v.id AND p.lease_token = v.token AND {SETTLE_READ.applies:p}

-- name: settle_same_text
-- Record other pages with the same texts in locked documents as read, claimed or not. OFFSET 0 keeps the planner from
-- reading whole tables.
UPDATE pages p SET {read}
WHERE p.key = ANY(CAST(:keys AS bytea[])) AND p.document_id = ANY(CAST(:documents AS uuid[]))
  AND {SETTLE_READ.applies:p} AND EXISTS (SELECT 1 FROM page_texts t WHERE t.key = p.key OFFSET 0)

-- name: fail_reading
-- Record failed attempts.
UPDATE pages p
SET {FAIL_READING.sets:v.dead}, error = v.error, attempts = p.attempts + v.burned,
    history = {history:p}, due_at = {next_attempt}, leased_by = NULL, lost_leases = {lost_leases:p},
    settled_at = CASE WHEN v.dead THEN now() END
FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS v(id uuid, token bigint, error text, dead boolean, after_seconds float, burned int)
WHERE p.id = v.id AND p.lease_token = v.token AND p.leased_by IS NOT NULL AND {FAIL_READING.applies:p}

-- part: today
(now() AT TIME ZONE 'UTC')::date

-- name: count
-- Add pages to the numbers of this day.
INSERT INTO pages_by_day AS b (tenant, day, pages)
SELECT tenant, {today}, pages FROM unnest(CAST(:tenants AS text[]), CAST(:pages AS int[])) AS v(tenant, pages)
ORDER BY tenant
ON CONFLICT (tenant, day) DO UPDATE SET pages = b.pages + excluded.pages

-- name: advance
-- Queue locked documents whose pages have all been read, or cannot be.
UPDATE documents d SET {PAGES_READ.sets}, error = NULL, due_at = now(), updated_at = now()
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {PAGES_READ.applies:d}
  AND NOT EXISTS (SELECT 1 FROM pages p WHERE p.document_id = d.id AND p.version = d.version AND {TO_READ:p})
RETURNING d.id

-- name: touch
-- Mark other locked documents whose pages have changed, for listeners, once per 5 s. Their pages do not wait for the
-- next day any more.
UPDATE documents d SET error = NULL, updated_at = now()
WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {PAGES_READ.applies:d}
  AND (d.error IS NOT NULL OR d.updated_at <= now() - interval '5 seconds')

-- part: midnight
-- The end of the day in UTC.
({today} + 1) AT TIME ZONE 'UTC'

-- part: has_reached_limit
-- Tenants that have read as many pages on this day as their limit allows.
SELECT b.tenant, coalesce(v.most, CAST(:most_of_others AS bigint)) AS most FROM pages_by_day b
LEFT JOIN unnest(CAST(:tenants AS text[]), CAST(:most AS bigint[])) AS v(tenant, most) ON v.tenant = b.tenant
WHERE b.day = {today} AND b.pages >= coalesce(v.most, CAST(:most_of_others AS bigint))

-- name: lock_limited
-- Lock some documents with due pages of tenants that have reached their limits.
SELECT d.id, r.most FROM ({has_reached_limit}) r JOIN documents d ON d.tenant = r.tenant
WHERE d.id IN (SELECT w.document_id FROM pages w
               WHERE {READ_QUEUE:w} AND w.tenant = r.tenant AND w.leased_by IS NULL AND w.due_at <= now() LIMIT :limit)
  AND {PAGES_READ.applies:d}
ORDER BY d.id FOR NO KEY UPDATE

-- name: defer_pages
-- Postpone the pages of locked documents until the end of the day.
UPDATE pages p SET due_at = {midnight}
WHERE p.document_id = ANY(CAST(:ids AS uuid[])) AND {TO_READ:p} AND p.leased_by IS NULL AND p.due_at <= now()

-- name: explain_deferral
-- Record why locked documents wait, and until when.
UPDATE documents d
SET updated_at = now(),
    error = format('The limit of %s pages per day is reached: its pages are read from %s UTC.', v.most,
                   to_char({today} + 1, 'YYYY-MM-DD "00:00"'))
FROM unnest(CAST(:ids AS uuid[]), CAST(:most AS bigint[])) AS v(id, most)
WHERE d.id = v.id AND {PAGES_READ.applies:d}

-- name: lock_deferred
-- Lock some documents whose pages wait for the end of the day, although their tenants have not reached their limits.
SELECT d.id FROM documents d
WHERE d.id IN (SELECT w.document_id FROM pages w
               WHERE {READ_QUEUE:w} AND w.leased_by IS NULL AND w.due_at = {midnight}
                 AND w.tenant NOT IN (SELECT r.tenant FROM ({has_reached_limit}) r) LIMIT :limit)
  AND {PAGES_READ.applies:d}
ORDER BY d.id FOR NO KEY UPDATE

-- name: readmit_pages
-- Make the pages of locked documents due that wait for the end of the day.
UPDATE pages p SET due_at = now()
WHERE p.document_id = ANY(CAST(:ids AS uuid[])) AND {TO_READ:p} AND p.leased_by IS NULL AND p.due_at = {midnight}

-- name: forget_deferral
-- Delete the reason why locked documents waited.
UPDATE documents SET error = NULL, updated_at = now() WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: lock_waiting
-- Lock some documents without an explanation whose pages have been due for two minutes, in languages that the worker
-- lacks. The number of examined pages is limited, because all pages of a large backlog may be explained already.
SELECT d.id FROM documents d
WHERE d.id IN (SELECT w.document_id
               FROM (SELECT w.document_id, w.languages FROM pages w
                     WHERE {READ_QUEUE:w} AND w.leased_by IS NULL AND w.due_at <= now() - interval '2 minutes'
                     LIMIT :examined) w
               WHERE NOT string_to_array(w.languages, '+') <@ CAST(:languages AS text[]))
  AND {PAGES_READ.applies:d} AND d.error IS NULL
ORDER BY d.id LIMIT :limit FOR NO KEY UPDATE

-- name: explain
-- Record why locked documents wait.
UPDATE documents SET error = :reason, updated_at = now() WHERE id = ANY(CAST(:ids AS uuid[]))

-- name: withdraw
-- Delete this explanation from some documents.
UPDATE documents SET error = NULL, updated_at = now()
WHERE id IN (SELECT d.id FROM documents d
             WHERE d.id IN (SELECT w.document_id FROM pages w WHERE {READ_QUEUE:w})
               AND {PAGES_READ.applies:d} AND d.error = :reason
             ORDER BY d.id LIMIT :limit FOR NO KEY UPDATE)

-- name: forget_days
-- Delete the numbers of earlier days.
DELETE FROM pages_by_day WHERE day < {today}

-- part: valid_leases
-- The leases that still hold.
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS v(id uuid, version int, token bigint)
WHERE p.id = v.id AND p.lease_token = v.token AND p.leased_by IS NOT NULL

-- name: release
-- End leases on pages without an attempt.
UPDATE pages p SET due_at = now(), leased_by = NULL {valid_leases}

-- name: expire
-- End leases on pages as if their worker had died: the next claim counts them as lost.
UPDATE pages p SET due_at = now() {valid_leases}
