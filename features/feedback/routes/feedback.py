"""Routes of feedback: accept a user's question for the chunk that answered it, list accepted questions, retract one."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from features.feedback.domain import FeedbackResult
from features.feedback.ledger.feedback import Feedback, no_chunk
from features.feedback.schemas import AcceptBody, AcceptedPage, AcceptedQuestionView, FeedbackBody, FeedbackReply
from shared.http import paging
from shared.http.access.auth import Caller, RatingCaller, Reader, SpendingManager, Writer
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName
from shared.http.state import QueryBudgetsDep, ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.query.metering import spend_embedding
from shared.services.api import ApiServices
from shared.vectors.schema.filters import caller_conditions, visible_points
from shared.vectors.searches import chunk_search

router = APIRouter(prefix="/v1", tags=["feedback"], route_class=StrictRoute)


@router.post(
    "/feedback",
    response_model=FeedbackReply,
    responses=problems(400, 401, 404, 413, 415, 422, 503),
)
async def give_feedback(
    body: FeedbackBody, caller: RatingCaller, services: ServicesDep, query_budgets: QueryBudgetsDep
) -> Response:
    """Report whether a chunk answered a question of the key's own query.

    If it did, the question is added to the chunk; if not, it is retracted. The chunk is then indexed again, without a
    call to the language model. The document stays searchable. A key without the scope `manage` retracts and displaces
    only questions that it added itself. The embedding of an added question counts towards the budgets of queries.
    """
    feedback, key = services.ledger[Feedback], caller.feedback_key
    of_query = caller.tenant, body.query_id, body.chunk_id
    if caller.restriction.is_partial:
        await _require_visible(body, caller, services)
    if not body.helpful:
        result = await feedback.retract(*of_query, key=key)
    elif key is not None and services.settings.feedback_review:
        result = await feedback.hold(*of_query, key=key)
    else:
        await query_budgets.admit(caller.tenant, caller.key_id, caller.limits)
        most = services.settings.tuning.accepted_per_chunk
        result = await feedback.accept(*of_query, most=most, key=key)
        if result.embedding is not None:
            spend_embedding(result.embedding, [result.question])
    return _reply(services, body.chunk_id, result)


@router.post(
    "/collections/{name}/accepted-questions",
    response_model=FeedbackReply,
    responses=problems(400, 401, 404, 413, 415, 422, 503),
)
async def accept_question(
    body: AcceptBody, name: CollectionName, caller: SpendingManager, services: ServicesDep
) -> Response:
    """Add a question to a chunk that answers it, without a query that returned the chunk.

    Its embedding counts towards the budgets of queries.
    """
    collection = await services.ledger[Collections].get(caller.tenant, name)
    most = services.settings.tuning.accepted_per_chunk
    result = await services.ledger[Feedback].accept_any(collection, body.question, body.chunk_id, most=most)
    if result.embedding is not None:
        spend_embedding(result.embedding, [result.question])
    return _reply(services, body.chunk_id, result)


@router.get(
    "/collections/{name}/accepted-questions", response_model=AcceptedPage, responses=problems(400, 401, 404, 422, 503)
)
async def list_accepted_questions(
    name: CollectionName,
    tenant: Reader,
    services: ServicesDep,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List users' questions that became questions of chunks, newest first."""
    collection = await services.ledger[Collections].get(tenant, name)
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger[Feedback].page(collection, after=after, limit=limit + 1)
    questions, following = paging.split_page(
        rows, limit, lambda question: (question.created_at.isoformat(), str(question.id))
    )
    items = [AcceptedQuestionView.of(question) for question in questions]
    return JsonReply(AcceptedPage(items=items, next_cursor=following))


@router.delete(
    "/collections/{name}/accepted-questions/{accepted_id}", status_code=204, responses=problems(401, 404, 422, 503)
)
async def delete_accepted_question(
    name: CollectionName, accepted_id: UUID, tenant: Writer, services: ServicesDep
) -> Response:
    """Retract an accepted question; it stops matching after the next runs of the scheduler."""
    collection = await services.ledger[Collections].get(tenant, name)
    await services.ledger[Feedback].remove(collection, accepted_id)
    return Response(status_code=204)


async def _require_visible(body: FeedbackBody, caller: Caller, services: ApiServices) -> None:
    """Check that the filter of the key still shows the chunk, and that the person still reads it.

    Raises:
        NotFound: it does not, as if the chunk were deleted.
    """
    target = services.ledger[Feedback].target
    name, chunk_id = await target(caller.tenant, body.query_id, body.chunk_id, key=caller.feedback_key)
    if not await services.ledger[Documents].readable_chunks(caller.tenant, [chunk_id], caller.principals):
        raise no_chunk(body.chunk_id)
    if caller.filter is None:
        return
    collection = await services.ledger[Collections].get(caller.tenant, name)
    conditions = caller_conditions(None, None, collection.options.filterable, caller.restriction)
    where = visible_points(collection.location, conditions)
    found = await services.index.search(collection.location.index_name, [chunk_search(where, [str(chunk_id)])])
    if not (found and found[0]):
        raise no_chunk(body.chunk_id)


def _reply(services: ApiServices, chunk_id: UUID, result: FeedbackResult) -> Response:
    if result.due:
        services.wakeups.wake("index")
    return JsonReply(FeedbackReply.of(result, chunk_id=chunk_id))
