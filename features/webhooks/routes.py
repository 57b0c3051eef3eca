"""Routes of webhooks: create, list, deliveries, send again, delete."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from features.webhooks.addresses import parse, resolve
from features.webhooks.domain import Delivery, Webhook
from features.webhooks.ledger import Webhooks
from features.webhooks.schemas import DeliveryPage, DeliveryView, NewWebhookView, WebhookBody, WebhookList, WebhookView
from features.webhooks.sender import message_id
from features.webhooks.signature import draw_secret
from shared.domain.errors import InvalidInput
from shared.http import paging
from shared.http.access.auth import Manager
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.outside.addresses import ForbiddenAddress
from shared.settings import Settings

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=StrictRoute)
WEBHOOK_ROUTES = FeatureRoutes(
    (router,), {"name": "webhooks", "description": "Notify a server when a document or a job finishes."}
)


@router.post(
    "",
    status_code=201,
    response_model=NewWebhookView,
    responses=problems(400, 401, 409, 413, 415, 422),
)
async def create_webhook(body: WebhookBody, tenant: Manager, services: ServicesDep) -> Response:
    """Create a webhook. Only this reply contains its secret."""
    await _require_address(body.url, services.settings)
    secret = draw_secret()
    created = await services.ledger[Webhooks].make(tenant, body.url, secret, tuple(dict.fromkeys(body.events)))
    return JsonReply(NewWebhookView(**_view(created).model_dump(), secret=secret), 201)


@router.get("", response_model=WebhookList, responses=problems(401))
async def list_webhooks(tenant: Manager, services: ServicesDep) -> Response:
    """List the tenant's webhooks, oldest first."""
    return JsonReply(WebhookList(items=[_view(webhook) for webhook in await services.ledger[Webhooks].list(tenant)]))


@router.get("/{webhook_id}", response_model=WebhookView, responses=problems(401, 404, 422))
async def get_webhook(webhook_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Return a webhook."""
    return JsonReply(_view(await services.ledger[Webhooks].get(tenant, webhook_id)))


@router.delete("/{webhook_id}", status_code=204, responses=problems(401, 404, 422))
async def delete_webhook(webhook_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Delete a webhook with its deliveries; a message in transit may still arrive."""
    await services.ledger[Webhooks].delete(tenant, webhook_id)
    return Response(status_code=204)


@router.post("/{webhook_id}/resume", response_model=WebhookView, responses=problems(401, 404, 422))
async def resume_webhook(webhook_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Enable a disabled webhook again; its waiting messages are sent."""
    return JsonReply(_view(await services.ledger[Webhooks].resume(tenant, webhook_id)))


@router.get("/{webhook_id}/deliveries", response_model=DeliveryPage, responses=problems(400, 401, 404, 422))
async def list_deliveries(
    webhook_id: UUID, tenant: Manager, services: ServicesDep, limit: paging.Limit = 50, cursor: paging.Cursor = None
) -> Response:
    """List the deliveries of a webhook, newest first; they are retained for 30 days."""
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger[Webhooks].page(tenant, webhook_id, after=after, limit=limit + 1)
    shown, following = paging.split_page(rows, limit, lambda row: (row.created_at.isoformat(), str(row.id)))
    return JsonReply(DeliveryPage(items=[_delivery(row) for row in shown], next_cursor=following))


@router.post(
    "/{webhook_id}/deliveries/{delivery_id}/retry",
    status_code=202,
    response_model=DeliveryView,
    responses=problems(401, 404, 422),
)
async def retry_delivery(webhook_id: UUID, delivery_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Send a delivery again at once, with the same id."""
    return JsonReply(_delivery(await services.ledger[Webhooks].send_again(tenant, webhook_id, delivery_id)), 202)


async def _require_address(url: str, settings: Settings) -> None:
    """Reject addresses that can never be used. Each attempt checks again, because a name may resolve differently.

    Raises:
        InvalidInput: the address is invalid or private.
    """
    parts = parse(url)
    try:
        await resolve(parts, private=settings.webhooks_private_networks)
    except ForbiddenAddress as error:
        raise InvalidInput(f"This address is not allowed: {error}.", field="url") from None


def _view(webhook: Webhook) -> WebhookView:
    return WebhookView(**{name: getattr(webhook, name) for name in WebhookView.model_fields})


def _delivery(delivery: Delivery) -> DeliveryView:
    copied = DeliveryView.model_fields.keys() - {"message_id", "next_attempt_at"}
    values = {name: getattr(delivery, name) for name in copied}
    return DeliveryView(**values, message_id=message_id(delivery), next_attempt_at=delivery.due_at)
