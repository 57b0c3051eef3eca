"""Webhooks and their deliveries.

A trigger inserts a delivery for each webhook that subscribes to an event, in the transaction of the event, so messages
are sent exactly for events that happened. A delivery is due like other work, and is claimed for the time of an attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from features.webhooks.domain import Delivery, DeliveryAttempt, DueDelivery, EventType, Webhook
from shared.domain.errors import Conflict, NotFound
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
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
_UNSUBSCRIBED = 410  # the receiver wants no more messages, by Standard Webhooks

SQL = statements.load(__file__)
DELIVERIES_ARE_DUE = SQL.are_deliveries_due

ERASED_TABLES = (
    ErasedTable(
        name="webhook_deliveries",
        of_tenant=SQL.erase_deliveries_of_tenant,
        of_part=SQL.erase_deliveries_of_part,
    ),
    ErasedTable(name="webhooks", of_tenant=SQL.erase_webhooks_of_tenant),
)


class Webhooks:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def make(self, tenant: str, url: str, secret: str, events: Sequence[EventType]) -> Webhook:
        """Write a webhook.

        Raises:
            Conflict: the tenant has the maximum number of webhooks.
        """
        parameters = {"id": uuid4(), "tenant": tenant, "url": url, "secret": secret, "events": list(events)}
        async with self._database.begin() as connection:
            await connection.execute(SQL.lock, {"tenant": tenant})
            if (await connection.execute(SQL.count, {"tenant": tenant})).scalar_one() >= MOST:
                raise Conflict(f"There are {MOST} webhooks already: delete one first.")
            return _webhook((await connection.execute(SQL.insert, parameters)).one())

    async def list(self, tenant: str) -> Sequence[Webhook]:
        """List a tenant's webhooks, the oldest first."""
        return [_webhook(row) for row in await self._database.rows(SQL.list, {"tenant": tenant})]

    async def get(self, tenant: str, webhook_id: UUID) -> Webhook:
        """Return a webhook.

        Raises:
            NotFound: the tenant has no webhook of that id.
        """
        return _webhook(_one(await self._database.rows(SQL.get, {"tenant": tenant, "id": webhook_id}), webhook_id))

    async def resume(self, tenant: str, webhook_id: UUID) -> Webhook:
        """Enable a disabled webhook again; all its waiting messages are sent.

        Raises:
            NotFound: the tenant has no webhook of that id.
        """
        return _webhook(_one(await self._database.rows(SQL.resume, {"tenant": tenant, "id": webhook_id}), webhook_id))

    @again_after_collision
    async def delete(self, tenant: str, webhook_id: UUID) -> None:
        """Delete a webhook with its deliveries.

        Raises:
            NotFound: the tenant has no webhook of that id.
        """
        async with self._database.begin() as connection:
            found = await connection.execute(SQL.delete, {"tenant": tenant, "id": webhook_id})
            _one(found.all(), webhook_id)
            await connection.execute(SQL.delete_deliveries, {"id": webhook_id})

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
        return [_delivery(row) for row in await self._database.rows(SQL.page, parameters)]

    async def send_again(self, tenant: str, webhook_id: UUID, delivery_id: UUID) -> Delivery:
        """Send a delivery again at once, under the same id.

        Raises:
            NotFound: the webhook has no delivery of that id.
        """
        parameters = {"tenant": tenant, "webhook_id": webhook_id, "id": delivery_id}
        rows = await self._database.rows(SQL.send_again, parameters)
        if not rows:
            raise NotFound(
                f"There is no delivery {delivery_id} of this webhook: deliveries are retained for a limited time."
            )
        return _delivery(rows[0])

    async def claim(self, *, webhooks: int, of_one: int, lease: timedelta) -> Sequence[DueDelivery]:
        """Claim due deliveries; each is due again after the lease, unless it is settled.

        Args:
            webhooks: maximum number of webhooks.
            of_one: maximum number of deliveries per webhook; 1 for a failing webhook.
            lease: duration of the claim, longer than an attempt may take.
        """
        rows = await self._database.rows(SQL.claim, {"webhooks": webhooks, "of_one": of_one, "lease": lease})
        return [DueDelivery(_delivery(row), row["url"], row["secret"], row["claimed_at"]) for row in rows]

    @again_after_collision
    async def settle(self, delivery: Delivery, attempt: DeliveryAttempt) -> bool:
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
            if (await connection.execute(SQL.settle, outcome)).one_or_none() is None:
                return False
            failing = await connection.execute(
                SQL.record_failing,
                {
                    "id": delivery.webhook_id,
                    "succeeded": attempt.succeeded,
                    "unsubscribed": attempt.status == _UNSUBSCRIBED,
                    "disabled_after": _DISABLED_AFTER,
                },
            )
            return bool(failing.scalar_one_or_none())

    async def forget(self, age: timedelta) -> bool:
        """Delete some deliveries that are older; return whether more may wait."""
        limit = 1_000
        return len(await self._database.rows(SQL.forget, {"age": age, "limit": limit})) == limit


def _pause_after(attempts: int) -> timedelta | None:
    return PAUSES[attempts - 1] if attempts <= len(PAUSES) else None


def _one(rows: Sequence[Row], webhook_id: UUID) -> Row:
    if not rows:
        raise NotFound(f"There is no webhook {webhook_id}. GET /v1/webhooks lists the webhooks.")
    return rows[0]


def _webhook(row: Row) -> Webhook:
    return Webhook(**{name: row[name] for name in Webhook.__dataclass_fields__})


def _delivery(row: Row) -> Delivery:
    return Delivery(**{name: row[name] for name in Delivery.__dataclass_fields__})
