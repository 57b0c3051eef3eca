"""The route of users' questions and their results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from features.feedback.schemas import AskedQuestionPage, AskedQuestionView
from shared.http import paging
from shared.http.access.auth import Manager
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName, Moment
from shared.http.state import ServicesDep
from shared.ledger.feedback.query_log import LoggedQuestion, QueryLog
from shared.ledger.model.collections import Collections

router = APIRouter(prefix="/v1", tags=["feedback"])


@router.get(
    "/collections/{name}/queries", response_model=AskedQuestionPage, responses=problems(400, 401, 404, 422, 503)
)
async def page(
    name: CollectionName,
    tenant: Manager,
    services: ServicesDep,
    *,
    answered: Annotated[
        bool | None, Query(description="`false`: questions without an answer, or with negative feedback")
    ] = None,
    since: Annotated[Moment | None, Query(description="Time with a time zone; default: all retained questions")] = None,
    chunk_id: Annotated[
        UUID | None, Query(description="Only queries for which this chunk was the first result")
    ] = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List users' questions from the newest 10,000 queries, each once, latest first.

    If `FOREASK_QUERY_RETENTION_DAYS` is 0, no question is retained: `retention_days` is 0, and `items` is empty.
    """
    collection = await services.ledger[Collections].get(tenant, name)
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    days = services.settings.query_retention_days
    asked: Sequence[LoggedQuestion] = ()
    if days:
        oldest = datetime.now(UTC) - timedelta(days=days)
        start = max(since or oldest, oldest)
        asked = await services.ledger[QueryLog].asked(tenant, collection.name, start, chunk_id=chunk_id)
    rows = [
        question
        for question in asked
        if (answered is None or question.answered == answered)
        and (after is None or (question.last_at, question.id) < after)
    ]
    shown, following = paging.split_page(rows[: limit + 1], limit, lambda q: (q.last_at.isoformat(), str(q.id)))
    return JsonReply(
        AskedQuestionPage(retention_days=days, items=[AskedQuestionView.of(q) for q in shown], next_cursor=following)
    )
