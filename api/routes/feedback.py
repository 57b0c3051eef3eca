"""Feedback: users' questions become questions of the chunks that answered them; listed, and taken back."""

from __future__ import annotations

import dataclasses
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import ServicesDep
from api.http import paging
from api.http.auth import Tenant
from api.http.bodies import read_json
from api.http.openapi import json_body, problems
from api.http.replies import Json
from api.schemas import AcceptedPage, AcceptedQuestionView, CollectionName, FeedbackBody, FeedbackReply

router = APIRouter(prefix="/v1", tags=["feedback"])


@router.post(
    "/feedback",
    response_model=FeedbackReply,
    responses=problems(400, 401, 404, 413, 415, 422, 503),
    openapi_extra=json_body(FeedbackBody),
)
async def give(request: Request, tenant: Tenant, services: ServicesDep) -> Response:
    """Say whether a chunk answered a question. If so, the question becomes one of the chunk; if not, it is taken back.

    The chunk is indexed again for it, without a call to the language model; the document is searchable meanwhile.
    """
    body = await read_json(request, FeedbackBody, services.settings.max_json_bytes)
    feedback = services.ledger.feedback
    if body.helpful:
        most = services.settings.tuning.accepted_per_chunk
        given = await feedback.accept(tenant, body.query_id, body.chunk_id, most=most)
    else:
        given = await feedback.take_back(tenant, body.query_id, body.chunk_id)
    if given.due:
        services.wakeups.wake("index")
    reply = FeedbackReply(
        outcome=given.outcome, chunk_id=body.chunk_id, question=given.question, accepted_id=given.accepted_id
    )
    return Json(reply)


@router.get("/collections/{name}/accepted", response_model=AcceptedPage, responses=problems(400, 401, 404, 422, 503))
async def page(
    name: CollectionName, tenant: Tenant, services: ServicesDep, limit: paging.Limit = 50, cursor: paging.Cursor = None
) -> Response:
    """List users' questions that became questions of chunks, newest first."""
    collection = await services.ledger.collections.get(tenant, name)
    after = paging.key_from(cursor, paging.time_and_id)
    rows = await services.ledger.feedback.page(collection, after=after, limit=limit + 1)
    shown, following = paging.cut(rows, limit, lambda own: (own.created_at.isoformat(), str(own.id)))
    items = [AcceptedQuestionView(**dataclasses.asdict(own)) for own in shown]
    return Json(AcceptedPage(items=items, next_cursor=following))


@router.delete("/collections/{name}/accepted/{accepted_id}", status_code=204, responses=problems(401, 404, 422, 503))
async def remove(name: CollectionName, accepted_id: UUID, tenant: Tenant, services: ServicesDep) -> Response:
    """Take an accepted question back; it stops matching with the scheduler's next passes."""
    collection = await services.ledger.collections.get(tenant, name)
    await services.ledger.feedback.remove(collection, accepted_id)
    return Response(status_code=204)
