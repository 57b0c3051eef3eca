"""Requests and replies of webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from features.webhooks.domain import DeliveryState, EventType
from shared.http.schemas.common import DOCUMENT_ID, BodyModel, ReplyModel, example

_WEBHOOK_ID = "6f0f2a55-2c4e-4b52-9d0c-0b6a7c1f3e10"
_DELIVERY_ID = "c2b1a6de-7d3f-4e0a-8b6f-3a1d5f0e9c22"
_URL = "https://example.org/hooks/foreask"


class WebhookBody(BodyModel):
    """A webhook to create."""

    model_config = example(url=_URL, events=["document.ready", "document.failed"])

    url: str = Field(min_length=1, max_length=2_000, description="Public address with http:// or https://")
    events: list[EventType] = Field(
        [], max_length=20, description="Event types to send; an empty list means all, including future types"
    )


class WebhookView(ReplyModel):
    """A webhook, without its secret."""

    model_config = example(
        id=_WEBHOOK_ID,
        url=_URL,
        events=["document.ready", "document.failed"],
        created_at="2026-10-01T09:30:00Z",
        failing_since=None,
        disabled_at=None,
    )

    id: UUID
    url: str
    events: list[EventType]
    created_at: datetime
    failing_since: datetime | None = Field(
        description="Start of the current failures; null if the last attempt succeeded or there was none"
    )
    disabled_at: datetime | None = Field(description="Time at which the webhook was disabled; null if it is enabled")


class NewWebhookView(WebhookView):
    """A new webhook with its secret, which no other reply contains."""

    model_config = example(
        id=_WEBHOOK_ID,
        url=_URL,
        events=["document.ready", "document.failed"],
        created_at="2026-10-01T09:30:00Z",
        failing_since=None,
        disabled_at=None,
        secret="whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfgh4Ouc9I=",  # noqa: S106  an example
    )

    secret: str


class WebhookList(ReplyModel):
    """Webhooks of the tenant, oldest first."""

    model_config = example(items=[WebhookView.model_config["json_schema_extra"]["example"]])  # type: ignore[index]

    items: list[WebhookView]


class DeliveryView(ReplyModel):
    """A message to a webhook, with the result of its last attempt."""

    model_config = example(
        id=_DELIVERY_ID,
        message_id=f"msg_{_DELIVERY_ID.replace('-', '')}",
        type="document.ready",
        data={
            "document_id": DOCUMENT_ID,
            "external_id": "leave.md",
            "collection": "handbook",
            "version": 1,
            "error": None,
        },
        state="delivered",
        created_at="2026-10-01T09:31:00Z",
        next_attempt_at=None,
        attempts=1,
        status=204,
        response="",
        error=None,
        delivered_at="2026-10-01T09:31:02Z",
    )

    id: UUID
    message_id: str = Field(description="Value of the `webhook-id` header of each attempt")
    type: EventType
    data: dict[str, Any]
    state: DeliveryState
    created_at: datetime
    next_attempt_at: datetime | None = Field(description="null if the message was delivered or abandoned")
    attempts: int
    status: int | None = Field(description="HTTP status of the last reply; null if there was none")
    response: str | None = Field(description="Start of the last reply, at most 1 KiB")
    error: str | None = Field(description="Reason why the last attempt failed")
    delivered_at: datetime | None


class DeliveryPage(ReplyModel):
    """Deliveries of a webhook, newest first."""

    items: list[DeliveryView]
    next_cursor: str | None
