"""Routes of gaps: questions that the documents do not answer, grouped by meaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

import structlog
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from features.gaps.finder import GapFinder, ungrouped
from features.gaps.gap import WEEK, Gap, StateName, gaps_of, order_of
from features.gaps.ledger import GapQuestion, Gaps
from features.gaps.schemas import (
    GapChange,
    GapCounts,
    GapPage,
    GapQuestionView,
    GapView,
    NearestPassageView,
    ResolutionView,
)
from features.gaps.table import table_of
from shared.domain.corpus.collections import Collection
from shared.domain.errors import ForeaskError, NotFound
from shared.http import paging
from shared.http.access.auth import Caller, Manager
from shared.http.access.query_budgets import QueryBudgets
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems, replies
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName
from shared.http.state import QueryBudgetsDep, ServicesDep, made_by
from shared.http.strict_route import StrictRoute
from shared.ledger.feedback.query_log import QueryLog
from shared.ledger.model.collections import Collections
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/collections/{name}/gaps", tags=["feedback"], route_class=StrictRoute)

_SHOWN = 20  # questions of a gap
_MOST_DAYS = 30  # of the trend
_CSV = {"text/csv": {"schema": {"type": "string"}}}

log = structlog.get_logger()


def _finder(services: ApiServices) -> GapFinder:
    return GapFinder(services.retriever, services.ledger[Gaps])


_FinderDep = Annotated[GapFinder, made_by(_finder)]


@dataclass(frozen=True, slots=True)
class _Found:
    """The gaps of a collection.

    Args:
        left: number of unanswered questions that are in no gap yet.
        delayed_by: why they are not; None if nothing prevents it.
    """

    gaps: Sequence[Gap]
    left: int = 0
    delayed_by: str | None = None


@router.get(
    "",
    response_model=GapPage,
    responses=replies(
        {200: {"description": "The gaps; with `format=csv` all of them, as a table", "content": _CSV}},
        *(400, 401, 404, 422, 503),
    ),
)
async def list_gaps(  # noqa: PLR0917  the filters of a list
    request: Request,
    name: CollectionName,
    tenant: Manager,
    services: ServicesDep,
    finder: _FinderDep,
    query_budgets: QueryBudgetsDep,
    state: Annotated[StateName | None, Query(description="Only gaps in this state")] = None,
    format: Annotated[Literal["json", "csv"], Query(description="`csv`: a table in UTF-8")] = "json",  # noqa: A002
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List groups of questions that the documents did not answer, most often asked first.

    Each request adds up to 500 new questions to groups. A question is embedded once, which counts towards the budgets
    of queries. A gap keeps its id until its questions expire.
    """
    collection = await services.ledger[Collections].get(tenant, name)
    after = paging.read_cursor(cursor, _read_position)
    found = await _read(collection, services, finder, (request.state.caller, query_budgets))
    chosen = [gap for gap in found.gaps if state is None or gap.state == state]
    if format == "csv":
        return await _table(chosen, collection, services)
    rows = [gap for gap in chosen if after is None or order_of(gap) > after]
    shown, following = paging.split_page(rows[: limit + 1], limit, order_of)
    days = services.settings.query_retention_days
    reply = GapPage(
        retention_days=days,
        days=min(days, _MOST_DAYS),
        ungrouped=found.left,
        delayed_by=found.delayed_by,
        counts=_counts(found.gaps),
        items=await _views(shown, collection, services),
        next_cursor=following,
    )
    return JsonReply(reply)


@router.get("/{gap_id}", response_model=GapView, responses=problems(401, 404, 422, 503))
async def get_gap(
    name: CollectionName, gap_id: UUID, tenant: Manager, services: ServicesDep, finder: _FinderDep
) -> Response:
    """Return a gap."""
    collection = await services.ledger[Collections].get(tenant, name)
    (view,) = await _views([await _gap(collection, gap_id, services, finder)], collection, services)
    return JsonReply(view)


@router.patch("/{gap_id}", response_model=GapView, responses=problems(400, 401, 404, 413, 415, 422, 503))
async def update_gap(  # noqa: PLR0917  the parts of a request
    body: GapChange, name: CollectionName, gap_id: UUID, tenant: Manager, services: ServicesDep, finder: _FinderDep
) -> Response:
    """Assign a gap, or resolve it by a document.

    A resolved gap opens again when one of its questions is asked and not answered, and when the document is deleted.
    """
    collection = await services.ledger[Collections].get(tenant, name)
    changes = {field: getattr(body, field) for field in body.model_fields_set}
    gap = await _gap(collection, gap_id, services, finder)
    await services.ledger[Gaps].change(collection, gap_id, changes)
    stored = await services.ledger[Gaps].states(collection)
    (view,) = await _views([replace(gap, stored=stored[gap_id])], collection, services)
    return JsonReply(view)


GAP_ROUTES = FeatureRoutes((router,))


async def _read(
    collection: Collection,
    services: ApiServices,
    finder: GapFinder,
    caller: tuple[Caller, QueryBudgets] | None = None,
) -> _Found:
    """Read the gaps of a collection.

    Args:
        collection: the collection.
        services: the services.
        finder: adds questions to gaps.
        caller: the caller, whose budgets are charged for adding new questions to gaps; None adds no questions.
    """
    days = services.settings.query_retention_days
    if not days:
        return _Found([])
    oldest = datetime.now(UTC) - timedelta(days=days)
    asked = await _asked(collection, services, oldest)
    delayed_by: str | None = None
    await finder.carry(collection, asked, oldest)
    if caller is not None:
        changed, delayed_by = await _add(collection, asked, finder, *caller)
        if changed:
            asked = await _asked(collection, services, oldest)
    stored = await services.ledger[Gaps].states(collection)
    return _Found(gaps_of(asked, stored), len(ungrouped(asked)), delayed_by)


async def _gap(collection: Collection, gap_id: UUID, services: ApiServices, finder: GapFinder) -> Gap:
    """Return a gap of a collection.

    Raises:
        NotFound: the gap does not exist.
    """
    found = await _read(collection, services, finder)
    gap = next((gap for gap in found.gaps if gap.id == gap_id), None)
    if gap is None:
        raise NotFound(f"The collection '{collection.name}' has no gap {gap_id}. Its questions may have expired.")
    return gap


async def _asked(collection: Collection, services: ApiServices, since: datetime) -> list[GapQuestion]:
    asked = await services.ledger[QueryLog].asked(collection.tenant, collection.name, since)
    return await services.ledger[Gaps].with_gaps(collection, asked)


async def _add(
    collection: Collection,
    asked: Sequence[GapQuestion],
    finder: GapFinder,
    caller: Caller,
    query_budgets: QueryBudgets,
) -> tuple[bool, str | None]:
    """Add new questions to gaps; return whether any were added, and why not all of them.

    The existing gaps are shown even if the embedding is unavailable, or the budget is used up.
    """
    may_have_changed = False
    try:
        if ungrouped(asked):
            await query_budgets.admit(caller.tenant, caller.key_id, caller.limits)
        may_have_changed = True
        return await finder.add(collection, asked), None
    except ForeaskError as error:
        log.warning("gaps.delayed", tenant=collection.tenant, collection=collection.name, reason=error.message)
        return may_have_changed, error.message


def _counts(gaps: Sequence[Gap]) -> GapCounts:
    counts = Counter(gap.state for gap in gaps)
    return GapCounts(open=counts["open"], assigned=counts["assigned"], resolved=counts["resolved"])


async def _views(gaps: Sequence[Gap], collection: Collection, services: ApiServices) -> list[GapView]:
    passages = await _passages(gaps, collection, services)
    now, days = datetime.now(UTC), min(services.settings.query_retention_days, _MOST_DAYS)
    return [
        GapView(
            id=gap.id,
            question=gap.question,
            questions=[
                GapQuestionView(query_id=each.id, question=each.question, times=each.times, last_at=each.last_at)
                for each in gap.questions[:_SHOWN]
            ],
            distinct_questions=len(gap.questions),
            times=gap.times,
            per_day=gap.per_day(days, now.date()),
            last_week=gap.asked_between(now - WEEK, now),
            week_before=gap.asked_between(now - 2 * WEEK, now - WEEK),
            first_at=gap.first_at,
            last_at=gap.last_at,
            nearest=passages.get(gap.id),
            state=gap.state,
            assigned_to=gap.stored.assigned_to,
            resolved_by=_resolution(gap),
        )
        for gap in gaps
    ]


def _resolution(gap: Gap) -> ResolutionView | None:
    stored = gap.stored
    if stored.document_id is None or stored.external_id is None or stored.resolved_at is None:
        return None
    return ResolutionView(document_id=stored.document_id, external_id=stored.external_id, at=stored.resolved_at)


async def _passages(
    gaps: Sequence[Gap], collection: Collection, services: ApiServices
) -> Mapping[UUID, NearestPassageView]:
    """Return the nearest passage of each gap that has one, by the id of the gap."""
    nearest = {gap.id: gap.nearest[:_SHOWN] for gap in gaps}
    chunks = {question.chunk_ids[0] for questions in nearest.values() for question in questions}
    documents = await services.ledger[Gaps].passages(collection, list(chunks)) if chunks else {}
    views = {}
    for gap_id, questions in nearest.items():
        existing = next((each for each in questions if each.chunk_ids[0] in documents), None)
        if existing is not None:
            document_id, external_id = documents[existing.chunk_ids[0]]
            views[gap_id] = NearestPassageView(
                chunk_id=existing.chunk_ids[0],
                document_id=document_id,
                external_id=external_id,
                score=round(existing.best_score or 0.0, 4),
            )
    return views


async def _table(gaps: Sequence[Gap], collection: Collection, services: ApiServices) -> Response:
    headers = {"content-disposition": f'attachment; filename="gaps-{collection.name}.csv"', "cache-control": "no-store"}
    content = table_of(await _views(gaps, collection, services))
    return Response(content, headers=headers, media_type="text/csv; charset=utf-8")


def _read_position(key: list[object]) -> tuple[int, str]:
    """Read the position of a gap in the list.

    Raises:
        ValueError: the key is not a position.
    """
    times, gap_id = key
    if type(times) is not int or not isinstance(gap_id, str):
        raise ValueError
    return times, str(UUID(gap_id))
