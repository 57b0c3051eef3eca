"""Webhooks: addresses that receive a message when a document or a job has finished."""

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
    "job.paused",
    "job.ended",
    "sync.deletions_withheld",
]
DeliveryState = Literal["waiting", "delivered", "failed"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address of a tenant.

    Args:
        events: subscribed events; empty for all.
        failing_since: when the first of the last attempts failed; None if the last one succeeded, or there was none.
        disabled_at: when sending stopped; None while enabled.
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
        data: content of the message.
        due_at: time of the next attempt; None if it was delivered or abandoned.
        attempts: number of started attempts.
        status: status of the last reply; None without a reply.
        response: start of the last reply.
        error: reason of the last failure.
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
    """A delivery that this process has claimed.

    Args:
        claimed_at: the ledger's time of the claim. Receivers reject a message whose time differs by minutes.
    """

    delivery: Delivery
    url: str
    secret: str
    claimed_at: datetime


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """The result of an attempt: a reply's status and start, or the reason for the missing reply."""

    status: int | None = None
    response: str | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.error is None
