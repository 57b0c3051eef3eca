-- part: webhook_columns
-- The columns of a webhook.
id, tenant, url, events, created_at, failing_since, disabled_at

-- part: delivery_columns
-- The columns of a delivery.
id, webhook_id, type, data, created_at, due_at, attempts, status, response, error, delivered_at

-- name: lock
-- Lock the webhooks of a tenant until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('webhooks:' || :tenant, 0))

-- name: count
-- Count a tenant's webhooks.
SELECT count(*) FROM webhooks WHERE tenant = :tenant

-- name: insert
-- Write a webhook.
INSERT INTO webhooks (id, tenant, url, secret, events)
VALUES (:id, :tenant, :url, :secret, CAST(:events AS text[])) RETURNING {webhook_columns}

-- name: list
-- List a tenant's webhooks, the oldest first.
SELECT {webhook_columns} FROM webhooks WHERE tenant = :tenant ORDER BY created_at, id

-- name: get
-- Read a webhook.
SELECT {webhook_columns} FROM webhooks WHERE tenant = :tenant AND id = :id

-- name: resume
-- Enable a disabled webhook again.
UPDATE webhooks SET disabled_at = NULL, failing_since = NULL WHERE tenant = :tenant AND id = :id
RETURNING {webhook_columns}

-- name: delete
-- Delete a webhook.
DELETE FROM webhooks WHERE tenant = :tenant AND id = :id RETURNING id

-- name: delete_deliveries
-- Delete the deliveries of a webhook.
DELETE FROM webhook_deliveries WHERE webhook_id = :id

-- name: page
-- List the deliveries of a webhook, the newest first.
SELECT {delivery_columns} FROM webhook_deliveries
WHERE tenant = :tenant AND webhook_id = :webhook_id
  AND (CAST(:at AS timestamptz) IS NULL OR (created_at, id) < (:at, CAST(:after AS uuid)))
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: send_again
-- Make a delivery due at once, with all its attempts.
UPDATE webhook_deliveries SET due_at = now(), attempts = 0, delivered_at = NULL
WHERE tenant = :tenant AND webhook_id = :webhook_id AND id = :id RETURNING {delivery_columns}

-- name: are_deliveries_due
SELECT EXISTS (
    SELECT 1 FROM webhooks w
    WHERE disabled_at IS NULL
      AND EXISTS (SELECT 1 FROM webhook_deliveries WHERE webhook_id = w.id AND due_at <= now()))

-- name: claim
-- Claim due deliveries, the oldest of some webhooks; a single one of a failing webhook, as a probe. The number of
-- attempts and the end of the claim are the token of the claim: a delivery that is sent again starts at attempt 1.
-- plan: generic
WITH chosen AS (
    SELECT id, url, secret, failing_since FROM webhooks w
    WHERE disabled_at IS NULL
      AND EXISTS (SELECT 1 FROM webhook_deliveries WHERE webhook_id = w.id AND due_at <= now())
    ORDER BY random() LIMIT :webhooks
), due AS (
    SELECT d.id, s.url, s.secret
    FROM chosen s CROSS JOIN LATERAL (
        SELECT id FROM webhook_deliveries
        WHERE webhook_id = s.id AND due_at <= now() ORDER BY due_at
        LIMIT CASE WHEN s.failing_since IS NULL THEN :of_one ELSE 1 END FOR UPDATE SKIP LOCKED
    ) d
)
UPDATE webhook_deliveries t SET due_at = now() + CAST(:lease AS interval), attempts = t.attempts + 1
FROM due WHERE t.id = due.id
RETURNING t.id, t.webhook_id, t.type, t.data, t.created_at, t.due_at, t.attempts, t.status, t.response, t.error,
          t.delivered_at, due.url, due.secret, now() AS claimed_at

-- name: settle
-- Record the result of an attempt, unless a later attempt has started.
UPDATE webhook_deliveries
SET due_at = now() + CAST(:pause AS interval), delivered_at = CASE WHEN :succeeded THEN now() END,
    status = :status, response = :response, error = :error
WHERE id = :id AND attempts = :attempts AND due_at = :claimed_until RETURNING id

-- name: record_failing
-- Record since when a webhook fails, and disable it after a long time; return whether it was just disabled.
UPDATE webhooks
SET failing_since = CASE WHEN :succeeded THEN NULL ELSE coalesce(failing_since, now()) END,
    disabled_at = CASE WHEN :unsubscribed OR NOT :succeeded AND failing_since < now() - CAST(:disabled_after AS interval)
                       THEN now() END
WHERE id = :id AND disabled_at IS NULL
  AND (:unsubscribed OR NOT :succeeded OR failing_since IS NOT NULL)
RETURNING disabled_at IS NOT NULL AS disabled

-- name: forget
-- Delete some deliveries that ended long ago or whose webhook is deleted.
DELETE FROM webhook_deliveries WHERE id = ANY(ARRAY(
    SELECT d.id FROM webhook_deliveries d
    WHERE d.created_at < now() - CAST(:age AS interval)
       OR NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = d.webhook_id)
    LIMIT :limit
)) RETURNING id

-- name: erase_deliveries_of_tenant
-- Delete some deliveries of an erased tenant.
DELETE FROM webhook_deliveries
WHERE ctid = ANY(ARRAY(SELECT ctid FROM webhook_deliveries WHERE tenant = :tenant LIMIT :limit)) RETURNING 1

-- name: erase_deliveries_of_part
-- Delete some deliveries about an erased collection or document.
DELETE FROM webhook_deliveries WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM webhook_deliveries
    WHERE collection_id = ANY(CAST(:ids AS uuid[])) OR document_id = ANY(CAST(:public_ids AS uuid[])) LIMIT :limit
)) RETURNING 1

-- name: erase_webhooks_of_tenant
-- Delete some webhooks of an erased tenant.
DELETE FROM webhooks WHERE ctid = ANY(ARRAY(SELECT ctid FROM webhooks WHERE tenant = :tenant LIMIT :limit)) RETURNING 1
