"""Routes of the operator: every tenant's state.

No reply contains a text, a question, a filename or an external id, because these belong to the tenants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.responses import Response

from api.schemas.operators import (
    DeploymentView,
    TenantCollectionPage,
    TenantCollectionView,
    TenantPage,
    TenantView,
)
from api.schemas.status import StageView
from shared.domain.states import ChunkState, DocumentState, PageState
from shared.http import paging
from shared.http.access.auth import Operator
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import TenantName
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.model import states
from shared.ledger.model.collections import Collections
from shared.ledger.tenants.tenants import StateCounts, Tenants
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.demand import Demand
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/operator", tags=["operator"], dependencies=[Operator], route_class=StrictRoute)

_AT_ONCE = 4  # tenants whose backlogs are read concurrently, with about ten connections to PostgreSQL


@router.get("/status", response_model=DeploymentView, responses=problems(401))
async def get_operator_status(services: ServicesDep) -> Response:
    """Show the documents, chunks and open work of all tenants together."""
    tenants = services.ledger[Tenants]
    counts = await tenants.counts_of_all()
    dead = counts.documents.get(DocumentState.FAILED, 0) + counts.pages.get(PageState.DEAD, 0)
    dead += counts.chunks.get(ChunkState.DEAD, 0)
    view = DeploymentView(
        tenants=await tenants.count(),
        documents=_existing(counts.documents),
        chunks=counts.chunks,
        open={
            "parse": _sum(counts.documents, states.TO_PARSE),
            "read": _sum(counts.pages, states.TO_READ),
            "generate": _sum(counts.chunks, states.TO_GENERATE),
            "index": _sum(counts.chunks, states.TO_INDEX),
        },
        workers_wanted=await services.ledger[Demand].wanted(),
        dead=dead,
    )
    return JsonReply(view)


@router.get("/tenants", response_model=TenantPage, responses=problems(400, 401, 422))
async def list_tenants(services: ServicesDep, limit: paging.Limit = 50, cursor: paging.Cursor = None) -> Response:
    """List the tenants by name, each with its documents, chunks and open work."""
    rows = await services.ledger[Tenants].page(
        after=paging.read_cursor(cursor, paging.read_name) or "", limit=limit + 1
    )
    names, following = paging.split_page(rows, limit, lambda name: (name,))
    counts, permits = await services.ledger[Tenants].counts(names), asyncio.Semaphore(_AT_ONCE)
    views = await asyncio.gather(*(_tenant(name, counts[name], services, permits) for name in names))
    return JsonReply(TenantPage(items=list(views), next_cursor=following))


@router.get("/tenants/{tenant}/collections", response_model=TenantCollectionPage, responses=problems(400, 401, 422))
async def list_tenant_collections(
    tenant: TenantName, services: ServicesDep, limit: paging.Limit = 50, cursor: paging.Cursor = None
) -> Response:
    """List a tenant's collections by name."""
    ledger = services.ledger[Collections]
    rows = await ledger.page(tenant, after=paging.read_cursor(cursor, paging.read_name) or "", limit=limit + 1)
    shown, following = paging.split_page(rows, limit, lambda collection: (collection.name,))
    counts = await ledger.document_counts(tenant, [collection.id for collection in shown])
    items = [
        TenantCollectionView(name=each.name, embedding_model=each.embedding_model, documents=dict(counts[each.id]))
        for each in shown
    ]
    return JsonReply(TenantCollectionPage(items=items, next_cursor=following))


async def _tenant(name: str, counts: StateCounts, services: ApiServices, permits: asyncio.Semaphore) -> TenantView:
    async with permits:
        backlog = await services.ledger[Backlogs].measure(name, services.embeddings)
    return TenantView(
        tenant=name,
        documents=_existing(counts.documents),
        chunks=counts.chunks,
        stages={queue: StageView.of(waiting) for queue, waiting in backlog.stages.items()},
        dead=backlog.dead,
    )


def _existing(documents: Mapping[str, int]) -> dict[str, int]:
    return {state: count for state, count in documents.items() if state != DocumentState.DELETING}


def _sum(counts: Mapping[str, int], states: Sequence[str]) -> int:
    return sum(counts.get(state, 0) for state in states)
