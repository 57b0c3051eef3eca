"""The routes of users' questions and their results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from features.feedback.schemas import AskedQuestionPage, AskedQuestionView, LoggedPassageView, LoggedQueryView
from shared.domain.access.keys import Scope
from shared.domain.spending.usage import Usage
from shared.http import paging
from shared.http.access.auth import Manager
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import ONE_LINE, CollectionName, Moment
from shared.http.state import ServicesDep
from shared.ledger.feedback.query_log import LoggedQuestion, QueryLog, QueryOutcome, QueryState
from shared.ledger.model.collections import Collections
from shared.services.prices import price
from shared.settings import Settings

router = APIRouter(prefix="/v1", tags=["feedback"])

_WORDS_CHARS = 200

FeedbackState = Literal["any", "helpful", "unhelpful"]


@router.get(
    "/collections/{name}/queries", response_model=AskedQuestionPage, responses=problems(400, 401, 404, 422, 503)
)
async def list_queries(
    name: CollectionName,
    tenant: Manager,
    services: ServicesDep,
    *,
    answered: Annotated[
        bool | None, Query(description="`false`: questions without an answer, or with negative feedback")
    ] = None,
    state: Annotated[QueryState | None, Query(description="Only questions whose latest query had this result")] = None,
    feedback: Annotated[FeedbackState | None, Query(description="Only questions whose newest feedback is this")] = None,
    since: Annotated[Moment | None, Query(description="Time with a time zone; default: all retained questions")] = None,
    chunk_id: Annotated[
        UUID | None, Query(description="Only queries for which this chunk was the first result")
    ] = None,
    key_id: Annotated[UUID | None, Query(description="Only queries of this key")] = None,
    q: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=_WORDS_CHARS,
            pattern=ONE_LINE,
            description="Only questions that contain this text, in any case",
        ),
    ] = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List users' questions from the newest 10,000 queries, each once, latest first.

    `since`, `chunk_id`, `key_id` and `q` choose the queries; the other filters choose questions by the result of the
    latest of these queries. If `FOREASK_QUERY_RETENTION_DAYS` is 0, no question is retained: `retention_days` is 0, and
    `items` is empty.
    """
    collection = await services.ledger[Collections].get(tenant, name)
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    days = services.settings.query_retention_days
    asked: Sequence[LoggedQuestion] = ()
    if days:
        oldest = datetime.now(UTC) - timedelta(days=days)
        start = max(since or oldest, oldest)
        asked = await services.ledger[QueryLog].asked(
            tenant, collection.name, start, chunk_id=chunk_id, key_id=key_id, words=q
        )
    passed = [
        question
        for question in asked
        if (answered is None or question.answered == answered)
        and (state is None or question.state == state)
        and (feedback is None or _has(feedback, question.helpful))
    ]
    rows = [question for question in passed if after is None or (question.last_at, question.id) < after]
    shown, following = paging.split_page(rows[: limit + 1], limit, lambda q: (q.last_at.isoformat(), str(q.id)))
    items = [AskedQuestionView.of(question) for question in shown]
    return JsonReply(AskedQuestionPage(retention_days=days, total=len(passed), items=items, next_cursor=following))


@router.get("/queries/{query_id}", response_model=LoggedQueryView, responses=problems(401, 404, 422, 503))
async def get_query(request: Request, query_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Return a user's query with its result: passages, times, costs and, if answers are stored, the answer.

    The texts of passages and of the answer need the scope `read`, too.
    """
    settings, caller = services.settings, request.state.caller
    query = await services.ledger[QueryLog].find(tenant, query_id, timedelta(days=settings.query_retention_days))
    if Scope.READ not in caller.scopes:
        query = query.without_texts()
    passages = [
        LoggedPassageView.of(passage, cited=passage.number in query.outcome.cited) for passage in query.passages
    ]
    cost = await asyncio.to_thread(_cost, settings, query.outcome)  # the list prices are loaded once, in 0.3 s
    return JsonReply(LoggedQueryView.of(query, passages=passages, cost=cost, answers_stored=settings.query_answers))


def _has(feedback: FeedbackState, helpful: bool | None) -> bool:
    return helpful is not None if feedback == "any" else helpful == (feedback == "helpful")


def _cost(settings: Settings, outcome: QueryOutcome) -> float | None:
    """Return the cost of the language model's calls; None if it is unknown."""
    if outcome.usage == Usage():
        return 0.0
    return price(settings, "generate", outcome.usage, outcome.model)
