"""Routes of feedback: accept a user's question for the chunk that answered it, list accepted questions, retract one."""

from __future__ import annotations

import dataclasses
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from api.access.auth import Asker, Manager, Reader, Writer
from api.http import paging
from api.http.openapi import problems
from api.http.replies import JsonReply
from api.http.strict_route import StrictRoute
from api.schemas.common import CollectionName
from api.schemas.feedback import AcceptBody, AcceptedPage, AcceptedQuestionView, FeedbackBody, FeedbackReply
from api.state import ServicesDep
from shared.ledger.feedback.feedback import FeedbackResult
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1", tags=["feedback"], route_class=StrictRoute)


@router.post(
    "/feedback",
    response_model=FeedbackReply,
    responses=problems(400, 401, 404, 413, 415, 422, 503),
)
async def give(body: FeedbackBody, tenant: Asker, services: ServicesDep) -> Response:
    """Report whether a chunk answered a question.

    If it did, the question is added to the chunk; if not, it is retracted. The chunk is then indexed again, without a
    call to the language model. The document stays searchable.
    """
    feedback = services.ledger.feedback
    if body.helpful:
        most = services.settings.tuning.accepted_per_chunk
        result = await feedback.accept(tenant, body.query_id, body.chunk_id, most=most)
    else:
        result = await feedback.retract(tenant, body.query_id, body.chunk_id)
    return _reply(services, body.chunk_id, result)


@router.post(
    "/collections/{name}/accepted",
    response_model=FeedbackReply,
    responses=problems(400, 401, 404, 413, 415, 422, 503),
)
async def accept(body: AcceptBody, name: CollectionName, tenant: Manager, services: ServicesDep) -> Response:
    """Add a question to a chunk that answers it, without a query that returned the chunk."""
    collection = await services.ledger.collections.get(tenant, name)
    most = services.settings.tuning.accepted_per_chunk
    result = await services.ledger.feedback.accept_any(collection, body.question, body.chunk_id, most=most)
    return _reply(services, body.chunk_id, result)


@router.get("/collections/{name}/accepted", response_model=AcceptedPage, responses=problems(400, 401, 404, 422, 503))
async def page(
    name: CollectionName,
    tenant: Reader,
    services: ServicesDep,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List users' questions that became questions of chunks, newest first."""
    collection = await services.ledger.collections.get(tenant, name)
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger.feedback.page(collection, after=after, limit=limit + 1)
    questions, following = paging.split_page(
        rows, limit, lambda question: (question.created_at.isoformat(), str(question.id))
    )
    items = [AcceptedQuestionView(**dataclasses.asdict(question)) for question in questions]
    return JsonReply(AcceptedPage(items=items, next_cursor=following))


@router.delete("/collections/{name}/accepted/{accepted_id}", status_code=204, responses=problems(401, 404, 422, 503))
async def remove(name: CollectionName, accepted_id: UUID, tenant: Writer, services: ServicesDep) -> Response:
    """Retract an accepted question; it stops matching after the next runs of the scheduler."""
    collection = await services.ledger.collections.get(tenant, name)
    await services.ledger.feedback.remove(collection, accepted_id)
    return Response(status_code=204)


def _reply(services: ApiServices, chunk_id: UUID, result: FeedbackResult) -> Response:
    if result.due:
        services.wakeups.wake("index")
    reply = FeedbackReply(
        outcome=result.outcome, chunk_id=chunk_id, question=result.question, accepted_id=result.accepted_id
    )
    return JsonReply(reply)
