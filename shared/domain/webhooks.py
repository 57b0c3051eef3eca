"""Webhooks: addresses that are told when a document or a job ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

EventType = Literal[
    "document.ready",
    "document.degraded",
    "document.failed",
    "document.deleted",
    "build.filled",
    "erasure.finished",
]
DeliveryState = Literal["waiting", "delivered", "failed"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address of a tenant.

    Args:
        events: what it is told; none is all.
        failing_since: when the first of the last attempts failed; None: the last one succeeded, or there was none.
        disabled_at: since when nothing is sent; None: it is in use.
    """

    id: UUID
    tenant: str
    url: str
    events: Sequence[EventType]
    created_at: datetime
    failing_since: datetime | None
    disabled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message for one address.

    Args:
        data: what is told of the event.
        due_at: when it is sent next; None: it was delivered or given up.
        attempts: how many were begun.
        status: of the last reply; None: there was none.
        response: how the last reply began.
        error: why the last attempt failed.
    """

    id: UUID
    webhook_id: UUID
    type: EventType
    data: Mapping[str, Any]
    created_at: datetime
    due_at: datetime | None
    attempts: int
    status: int | None
    response: str | None
    error: str | None
    delivered_at: datetime | None

    @property
    def state(self) -> DeliveryState:
        if self.delivered_at is not None:
            return "delivered"
        return "failed" if self.due_at is None else "waiting"


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A delivery that this process is to send."""

    delivery: Delivery
    url: str
    secret: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one: a reply's status and beginning, or the reason why there was none."""

    status: int | None = None
    response: str | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.error is None
