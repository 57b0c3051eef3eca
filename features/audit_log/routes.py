"""Routes of the audit log: recorded changes of settings, with their authors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from features.audit_log.domain import AuditEntry
from features.audit_log.ledger import AuditFilter, AuditLog
from features.audit_log.schemas import AuditEntryView, AuditPage, ObjectKind, TenantAuditEntryView, TenantAuditPage
from shared.http import paging
from shared.http.access.auth import Manager, Operator
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import ONE_LINE
from shared.http.state import ServicesDep
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/audit", tags=["audit"])
operator_router = APIRouter(prefix="/v1/operator/audit", tags=["operator"], dependencies=[Operator])
AUDIT_LOG_ROUTES = FeatureRoutes(
    (router, operator_router), {"name": "audit", "description": "Recorded changes of settings, with their authors."}
)

_OfObject = Annotated[ObjectKind | None, Query(description="Only changes of this kind of object")]
_OfName = Annotated[
    str | None,
    Query(min_length=1, max_length=500, pattern=ONE_LINE, description="Only changes of objects of this name"),
]
_ByActor = Annotated[
    str | None,
    Query(min_length=1, max_length=100, pattern=ONE_LINE, description="Only changes by the key of this name"),
]


@router.get("", response_model=AuditPage, responses=problems(400, 401, 422, 503))
async def list_audit_entries(  # noqa: PLR0917  the filters of a list
    tenant: Manager,
    services: ServicesDep,
    object: _OfObject = None,  # noqa: A002  the parameter's name
    name: _OfName = None,
    actor: _ByActor = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List changes of the tenant's keys, budgets, webhooks, collections, builds and sources, newest first.

    A change and its entry are committed together. Entries contain no secrets, prompts or texts, and are retained for
    FOREASK_AUDIT_RETENTION_DAYS.
    """
    entries, following = await _read(services, AuditFilter(tenant, object, name, actor), limit, cursor)
    items = [AuditEntryView(**_view_fields(entry)) for entry in entries]
    return JsonReply(AuditPage(items=items, next_cursor=following))


@operator_router.get("", response_model=TenantAuditPage, responses=problems(400, 401, 422, 503))
async def list_operator_audit_entries(  # noqa: PLR0917  the filters of a list
    services: ServicesDep,
    object: _OfObject = None,  # noqa: A002  the parameter's name
    name: _OfName = None,
    actor: _ByActor = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List changes that operators' keys and commands on the server have made for any tenant, newest first."""
    entries, following = await _read(services, AuditFilter(None, object, name, actor), limit, cursor)
    items = [TenantAuditEntryView(**_view_fields(entry), tenant=entry.tenant or None) for entry in entries]
    return JsonReply(TenantAuditPage(items=items, next_cursor=following))


async def _read(
    services: ApiServices, chosen: AuditFilter, limit: int, cursor: str | None
) -> tuple[Sequence[AuditEntry], str | None]:
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger[AuditLog].page(chosen, after=after, limit=limit + 1)
    return paging.split_page(rows, limit, lambda entry: (entry.created_at.isoformat(), str(entry.id)))


def _view_fields(entry: AuditEntry) -> dict[str, Any]:
    copied = AuditEntryView.model_fields.keys() - {"actor", "changes"}
    return {name: getattr(entry, name) for name in copied} | {
        "actor": dataclasses.asdict(entry.actor),
        "changes": {field: {"before": before, "after": after} for field, (before, after) in entry.changes.items()},
    }
