"""The tenant: status, usage, events, keys and webhooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from foreask_client.models import (
    AccessCheck,
    AccessReview,
    AuditEntry,
    Delivery,
    Json,
    Key,
    KeyScope,
    Me,
    NewKey,
    NewWebhook,
    Webhook,
)
from foreask_client.requests import (
    Events,
    Pages,
    Request,
    Stream,
    as_type,
    delete,
    get,
    get_items,
    given,
    post,
    segment,
)
from foreask_client.synchronous.connection import Connection


class TenantApi(Connection):
    """Methods for the tenant of the key."""

    def me(self) -> Me:
        """Return the key's tenant and permissions, and properties of the server."""
        return self.send(get("/v1/me", Me))

    def status(self) -> Json:
        """Return the open work, as GET /v1/status reports it."""
        return self.send(get("/v1/status", Json))

    def resume(self) -> bool:
        """Resume the load, if most of the model's replies could not be used; return whether it was paused."""
        resumed: bool = (self.send(post("/v1/status/resume", Json)))["resumed"]
        return resumed

    def history(self, *, minutes: int = 60) -> list[Json]:
        """Return the work that finished in each of the last minutes, oldest first."""
        return self.send(get_items("/v1/status/history", Json, minutes=minutes))

    def usage(self, *, by: Literal["day", "collection", "model"] = "day", days: int = 30) -> list[Json]:
        """Return the cost of the model calls of the ingest."""
        return self.send(get_items("/v1/usage", Json, by=by, days=days))

    def events(self, *, collection: str | None = None) -> Events:
        """Follow the documents of a collection, or of all, from now on.

        The events are `progress`, `document` and `error`. The stream does not end.
        """
        return self.events_of(Stream("/v1/events", params=given({"collection": collection}), fails=False))

    def health(self) -> Json:
        """Return the health of each component, even if one is unavailable."""
        return self.send(Request("GET", "/health/ready", as_type(Json), also=(503,)))

    def keys(self) -> Iterator[Key]:
        """List the tenant's keys, newest first."""
        return self.items(Pages("/v1/keys", {}, Key.model_validate))

    def create_key(
        self,
        name: str,
        scopes: Sequence[KeyScope],
        *,
        expires_in_seconds: int | None = None,
        filter: Json | None = None,  # noqa: A002  the field's name
        limits: Json | None = None,
    ) -> NewKey:
        """Create a key. Only this reply contains the key itself.

        Args:
            name: name of the key in the server's log.
            scopes: permissions; no scope includes another.
            expires_in_seconds: lifetime; None: valid until it is revoked.
            filter: condition on metadata that is added to each query made with the key.
            limits: limits of the key: requests_per_second, tokens_per_day, cost_per_day and max_tokens.
        """
        body = {"name": name, "scopes": list(scopes)}
        body |= given({"expires_in_seconds": expires_in_seconds, "filter": filter, "limits": limits})
        return self.send(post("/v1/keys", NewKey, body))

    def change_key(self, key_id: str, **changes: Any) -> Key:
        """Change the `limits` of a key, or its lifetime from now (`expires_in_seconds`); None removes them."""
        path = f"/v1/keys/{segment(key_id)}"
        return self.send(Request("PATCH", path, as_type(Key), body=changes, repeatable=True))

    def revoke_key(self, key_id: str) -> None:
        self.send(delete(f"/v1/keys/{segment(key_id)}"))

    def audit(
        self,
        *,
        object: str | None = None,  # noqa: A002  the parameter's name
        name: str | None = None,
        actor: str | None = None,
    ) -> Iterator[AuditEntry]:
        """List recorded changes of settings, newest first.

        Args:
            object: kind of the changed objects, such as `key` or `collection`.
            name: name of the changed object.
            actor: name of the key that made the changes.
        """
        filters = given({"object": object, "name": name, "actor": actor})
        return self.items(Pages("/v1/audit", filters, AuditEntry.model_validate))

    def access_check(self, document_id: str, user: str, groups: Sequence[str] = ()) -> AccessCheck:
        """Return whether a person reads a document, and why."""
        body = {"document_id": document_id, "user": user, "groups": list(groups)}
        return self.send(post("/v1/access-checks", AccessCheck, body, repeatable=True))

    def access_review(self, collection: str | None = None) -> AccessReview:
        """Count documents by reader, in one collection or in all."""
        return self.send(get("/v1/access-review", AccessReview, **given({"collection": collection})))

    def webhooks(self) -> list[Webhook]:
        """List the tenant's webhooks, oldest first."""
        return self.send(get_items("/v1/webhooks", Webhook))

    def create_webhook(self, url: str, events: Sequence[str] = ()) -> NewWebhook:
        """Create a webhook for some events, or for all. Only this reply contains its secret."""
        return self.send(post("/v1/webhooks", NewWebhook, {"url": url, "events": list(events)}))

    def resume_webhook(self, webhook_id: str) -> Webhook:
        """Enable a disabled webhook again; its waiting messages are sent."""
        return self.send(post(f"/v1/webhooks/{segment(webhook_id)}/resume", Webhook, repeatable=True))

    def deliveries(self, webhook_id: str) -> Iterator[Delivery]:
        """List the messages to a webhook, newest first."""
        return self.items(Pages(f"/v1/webhooks/{segment(webhook_id)}/deliveries", {}, Delivery.model_validate))

    def retry_delivery(self, webhook_id: str, delivery_id: str) -> Delivery:
        """Send a message again at once, with the same id."""
        path = f"/v1/webhooks/{segment(webhook_id)}/deliveries/{segment(delivery_id)}/retry"
        return self.send(post(path, Delivery))

    def delete_webhook(self, webhook_id: str) -> None:
        self.send(delete(f"/v1/webhooks/{segment(webhook_id)}"))
