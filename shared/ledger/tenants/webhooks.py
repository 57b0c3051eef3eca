"""Webhooks and their deliveries.

A trigger inserts a delivery for each webhook that subscribes to an event, in the transaction of the event, so messages
are sent exactly for events that happened. A delivery is due like other work, and is claimed for the time of an attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import RowMapping, text

from shared.domain.errors import Conflict, NotFound
from shared.domain.webhooks import Attempt, Delivery, DueDelivery, EventType, Webhook
from shared.ledger.postgres.database import Database, again_after_collision

MOST = 20  # of a tenant

# Pauses before the retries: two and a half days in total.
PAUSES = (
    timedelta(seconds=5),
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=18),
    timedelta(hours=24),
)
_DISABLED_AFTER = timedelta(days=5)  # of failures alone
_GONE = 410  # the receiver wants no more, by Standard Webhooks

_WEBHOOK = "id, tenant, url, events, created_at, failing_since, disabled_at"
_DELIVERY = "id, webhook_id, type, data, created_at, due_at, attempts, status, response, error, delivered_at"

# Lock the webhooks of a tenant until the transaction ends.
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('webhooks:' || :tenant, 0))")

# Count a tenant's webhooks.
_COUNT = text("SELECT count(*) FROM webhooks WHERE tenant = :tenant")

# Write a webhook.
_MAKE = text(f"""
    INSERT INTO webhooks (id, tenant, url, secret, events)
    VALUES (:id, :tenant, :url, :secret, CAST(:events AS text[])) RETURNING {_WEBHOOK}
""")

# List a tenant's webhooks, the oldest first.
_LIST = text(f"SELECT {_WEBHOOK} FROM webhooks WHERE tenant = :tenant ORDER BY created_at, id")

# Read a webhook.
_GET = text(f"SELECT {_WEBHOOK} FROM webhooks WHERE tenant = :tenant AND id = :id")

# Use a webhook again that was disabled.
_RESUME = text(f"""
    UPDATE webhooks SET disabled_at = NULL, failing_since = NULL WHERE tenant = :tenant AND id = :id
    RETURNING {_WEBHOOK}
""")

# Delete a webhook.
_DELETE = text("DELETE FROM webhooks WHERE tenant = :tenant AND id = :id RETURNING id")

# Delete the deliveries of a webhook.
_DELETE_DELIVERIES = text("DELETE FROM webhook_deliveries WHERE webhook_id = :id")

# List the deliveries of a webhook, the newest first.
_PAGE = text(f"""
    SELECT {_DELIVERY} FROM webhook_deliveries
    WHERE tenant = :tenant AND webhook_id = :webhook_id
      AND (CAST(:at AS timestamptz) IS NULL OR (created_at, id) < (:at, CAST(:after AS uuid)))
    ORDER BY created_at DESC, id DESC LIMIT :limit
""")

# Make a delivery due at once, with all its attempts.
_SEND_AGAIN = text(f"""
    UPDATE webhook_deliveries SET due_at = now(), attempts = 0, delivered_at = NULL
    WHERE tenant = :tenant AND webhook_id = :webhook_id AND id = :id RETURNING {_DELIVERY}
""")

# Claim due deliveries, the oldest of some webhooks; a single one of a failing webhook, as a probe. The number of
# attempts and the end of the claim are the token of the claim: a delivery that is sent again starts at attempt 1.
_CLAIM = text(f"""
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
    RETURNING {", ".join(f"t.{name}" for name in _DELIVERY.split(", "))}, due.url, due.secret
""")

# Record the result of an attempt, unless a later attempt has started.
_SETTLE = text("""
    UPDATE webhook_deliveries
    SET due_at = now() + CAST(:pause AS interval), delivered_at = CASE WHEN :succeeded THEN now() END,
        status = :status, response = :response, error = :error
    WHERE id = :id AND attempts = :attempts AND due_at = :claimed_until RETURNING id
""")

# Record since when a webhook fails, and disable it after a long time; return whether it was just disabled.
_NOTE = text("""
    UPDATE webhooks
    SET failing_since = CASE WHEN :succeeded THEN NULL ELSE coalesce(failing_since, now()) END,
        disabled_at = CASE WHEN :gone OR NOT :succeeded AND failing_since < now() - CAST(:disabled_after AS interval)
                           THEN now() END
    WHERE id = :id AND disabled_at IS NULL
      AND (:gone OR NOT :succeeded OR failing_since IS NOT NULL)
    RETURNING disabled_at IS NOT NULL AS disabled
""")

# Delete some deliveries that ended long ago or whose webhook is deleted.
_FORGET = text("""
    DELETE FROM webhook_deliveries WHERE id = ANY(ARRAY(
        SELECT d.id FROM webhook_deliveries d
        WHERE d.created_at < now() - CAST(:age AS interval)
           OR NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = d.webhook_id)
        LIMIT :limit
    )) RETURNING id
""")


class Webhooks:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def make(self, tenant: str, url: str, secret: str, events: Sequence[EventType]) -> Webhook:
        """Write a webhook.

        Raises:
            Conflict: the tenant has as many as it may have.
        """
        parameters = {"id": uuid4(), "tenant": tenant, "url": url, "secret": secret, "events": list(events)}
        async with self._database.begin() as connection:
            await connection.execute(_LOCK, {"tenant": tenant})
            if (await connection.execute(_COUNT, {"tenant": tenant})).scalar_one() >= MOST:
                raise Conflict(f"There are {MOST} webhooks already: delete one first.")
            return _webhook((await connection.execute(_MAKE, parameters)).mappings().one())

    async def list(self, tenant: str) -> Sequence[Webhook]:
        """List a tenant's webhooks, the oldest first."""
        return [_webhook(row) for row in await self._database.rows(_LIST, {"tenant": tenant})]

    async def get(self, tenant: str, webhook_id: UUID) -> Webhook:
        """Return a webhook.

        Raises:
            NotFound: the tenant has none of that id.
        """
        return _webhook(_one(await self._database.rows(_GET, {"tenant": tenant, "id": webhook_id}), webhook_id))

    async def resume(self, tenant: str, webhook_id: UUID) -> Webhook:
        """Enable a disabled webhook again; its waiting messages are sent, however old they are.

        Raises:
            NotFound: the tenant has no webhook of that id.
        """
        return _webhook(_one(await self._database.rows(_RESUME, {"tenant": tenant, "id": webhook_id}), webhook_id))

    @again_after_collision
    async def delete(self, tenant: str, webhook_id: UUID) -> None:
        """Delete a webhook with its deliveries.

        Raises:
            NotFound: the tenant has none of that id.
        """
        async with self._database.begin() as connection:
            found = await connection.execute(_DELETE, {"tenant": tenant, "id": webhook_id})
            _one(found.mappings().all(), webhook_id)
            await connection.execute(_DELETE_DELIVERIES, {"id": webhook_id})

    async def page(
        self, tenant: str, webhook_id: UUID, *, after: tuple[datetime, UUID] | None = None, limit: int = 50
    ) -> Sequence[Delivery]:
        """List the deliveries of a webhook, the newest first.

        Raises:
            NotFound: the tenant has no webhook of that id.
        """
        await self.get(tenant, webhook_id)
        at, last = after or (None, None)
        parameters = {"tenant": tenant, "webhook_id": webhook_id, "at": at, "after": last, "limit": limit}
        return [_delivery(row) for row in await self._database.rows(_PAGE, parameters)]

    async def send_again(self, tenant: str, webhook_id: UUID, delivery_id: UUID) -> Delivery:
        """Send a delivery again at once, under the same id.

        Raises:
            NotFound: the webhook has no delivery of that id.
        """
        parameters = {"tenant": tenant, "webhook_id": webhook_id, "id": delivery_id}
        rows = await self._database.rows(_SEND_AGAIN, parameters)
        if not rows:
            raise NotFound(f"There is no delivery {delivery_id} of this webhook: they are kept for a while.")
        return _delivery(rows[0])

    async def claim(self, *, webhooks: int, of_one: int, lease: timedelta) -> Sequence[DueDelivery]:
        """Claim due deliveries; each is due again after the lease, unless it is settled.

        Args:
            webhooks: maximum number of webhooks.
            of_one: maximum number of deliveries per webhook; 1 for a failing webhook.
            lease: duration of the claim, longer than an attempt may take.
        """
        rows = await self._database.rows(_CLAIM, {"webhooks": webhooks, "of_one": of_one, "lease": lease})
        return [DueDelivery(_delivery(row), row["url"], row["secret"]) for row in rows]

    @again_after_collision
    async def settle(self, delivery: Delivery, attempt: Attempt) -> bool:
        """Record the result of a claimed delivery's attempt; return whether this disabled its webhook."""
        outcome = {
            "id": delivery.id,
            "attempts": delivery.attempts,
            "claimed_until": delivery.due_at,
            "pause": None if attempt.succeeded else _pause_after(delivery.attempts),
            "succeeded": attempt.succeeded,
            "status": attempt.status,
            "response": attempt.response,
            "error": attempt.error,
        }
        async with self._database.begin() as connection:
            if (await connection.execute(_SETTLE, outcome)).one_or_none() is None:
                return False
            noted = await connection.execute(
                _NOTE,
                {
                    "id": delivery.webhook_id,
                    "succeeded": attempt.succeeded,
                    "gone": attempt.status == _GONE,
                    "disabled_after": _DISABLED_AFTER,
                },
            )
            return bool(noted.scalar_one_or_none())

    async def forget(self, age: timedelta) -> bool:
        """Delete some deliveries that are older; return whether more may wait."""
        limit = 1_000
        return len(await self._database.rows(_FORGET, {"age": age, "limit": limit})) == limit


def _pause_after(attempts: int) -> timedelta | None:
    return PAUSES[attempts - 1] if attempts <= len(PAUSES) else None


def _one(rows: Sequence[RowMapping], webhook_id: UUID) -> RowMapping:
    if not rows:
        raise NotFound(f"There is no webhook {webhook_id}. GET /v1/webhooks lists those that exist.")
    return rows[0]


def _webhook(row: RowMapping) -> Webhook:
    return Webhook(**{name: row[name] for name in Webhook.__dataclass_fields__})


def _delivery(row: RowMapping) -> Delivery:
    return Delivery(**{name: row[name] for name in Delivery.__dataclass_fields__})
