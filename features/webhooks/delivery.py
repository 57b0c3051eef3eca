"""Deliveries: due messages are sent, and sent again later after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from features.webhooks.domain import Delivery, DeliveryAttempt, DueDelivery
from features.webhooks.ledger import Webhooks
from shared.ledger.postgres import alone

if TYPE_CHECKING:
    from features.webhooks.sender import Sender

_WEBHOOKS = 20  # concurrently: hanging ones delay the others by at most one attempt
_OF_ONE = 20
_LEASE = timedelta(minutes=1)  # longer than an attempt: a scheduler that died in one sends it again

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Deliverer:
    """Sends the messages of webhooks.

    Args:
        webhooks: the messages.
        sender: returns the sender, which is made for the first message: most deployments have no webhooks.
    """

    webhooks: Webhooks
    sender: Callable[[], Sender]

    async def deliver(self) -> bool:
        """Send a slice of the due messages; return whether more may be left.

        A message whose result could not be recorded is sent again, under the same id.

        Raises:
            Unavailable: the ledger is unavailable.
        """
        due = await self.webhooks.claim(webhooks=_WEBHOOKS, of_one=_OF_ONE, lease=_LEASE)
        await asyncio.gather(*map(self._deliver, due))
        return bool(due)

    async def _deliver(self, due: DueDelivery) -> None:
        attempt = await self._attempt(due)
        await alone.work_on([due.delivery], lambda _: self._settle(due.delivery, attempt), lambda each: each.id)

    async def _settle(self, delivery: Delivery, attempt: DeliveryAttempt) -> None:
        disabled = await self.webhooks.settle(delivery, attempt)
        ids = {"delivery_id": str(delivery.id), "webhook_id": str(delivery.webhook_id)}
        if not attempt.succeeded:
            log.info("delivery.failed", **ids, attempt=delivery.attempts, status=attempt.status, reason=attempt.error)
        if disabled:
            log.warning("webhook.disabled", webhook_id=str(delivery.webhook_id))

    async def _attempt(self, due: DueDelivery) -> DeliveryAttempt:
        try:
            return await self.sender().send(due)
        except Exception as error:  # one message must not stop other tenants' messages
            log.exception("delivery.raised", delivery_id=str(due.delivery.id))
            return DeliveryAttempt(error=f"not sent: {type(error).__name__}")
