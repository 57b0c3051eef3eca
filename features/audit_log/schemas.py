"""Replies of the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from shared.domain.access.actors import ActorKind
from shared.http.schemas.common import ReplyModel, example, example_of

ObjectKind = Literal["key", "budget", "webhook", "collection", "build", "source", "document", "person", "tenant", "gap"]


class ActorView(ReplyModel):
    """The author of a change. The key itself is never recorded."""

    kind: ActorKind = Field(
        description="`key` of the tenant, `person` who has signed in, `operator` with an operator's key, `command line`"
        " without the API, or `local` if the API requires no keys"
    )
    name: str | None = Field(description="Name of the key or of the user; null without either")
    key_id: UUID | None = Field(description="Id of the key; null for a key of the settings, or without a key")


class ChangedFieldView(ReplyModel):
    """Values of a changed field. A prompt or a long text is shown by its length and digest; null if there is none."""

    before: Any
    after: Any


class AuditEntryView(ReplyModel):
    """A recorded change."""

    model_config = example(
        id="8a5d0c3e-51c8-4f6e-9a3b-2b7b8f0c9d11",
        created_at="2026-10-01T09:30:00Z",
        actor={"kind": "key", "name": "admin", "key_id": None},
        action="change",
        object="key",
        object_name="website",
        changes={"limits.requests_per_second": {"before": 5.0, "after": 10.0}},
    )

    id: UUID
    created_at: datetime
    actor: ActorView
    action: str = Field(
        description="`create`, `change`, `delete`; `revoke` (key), `enable` (webhook), `remove` and `approve` (source),"
        " `start`, `pause`, `resume`, `switch` and `cancel` (build), `erase` (collection, document, person, tenant),"
        " `view as` (person)"
    )
    object: ObjectKind
    object_name: str = Field(
        description="Name of the object; the erasure's id for erased documents, people and tenants"
    )
    changes: dict[str, ChangedFieldView] = Field(description="Changed fields, without secrets and contents")


class AuditPage(ReplyModel):
    model_config = example(items=[example_of(AuditEntryView)], next_cursor=None)

    items: list[AuditEntryView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")


class TenantAuditEntryView(AuditEntryView):
    """A recorded change by an operator or a command, with the tenant."""

    model_config = example(**example_of(AuditEntryView), tenant="acme")

    tenant: str | None = Field(description="Tenant of the object; null for operators' keys and erasures of tenants")


class TenantAuditPage(ReplyModel):
    model_config = example(items=[example_of(TenantAuditEntryView)], next_cursor=None)

    items: list[TenantAuditEntryView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
