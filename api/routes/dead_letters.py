"""Routes of dead letters: list, count, show, retry and discard."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.schemas.dead_letters import (
    DeadLetterFilter,
    DeadLetterHistory,
    DeadLetterPage,
    DeadLettersResolved,
    DeadLetterView,
    DeadReasons,
    DeadReasonView,
    Reason,
)
from shared.domain.errors import InvalidInput
from shared.http import paging
from shared.http.access.auth import Reader, Writer
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.documents.dead_letters import Choice, DeadLetters
from shared.ledger.model.collections import Collections

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"], route_class=StrictRoute)

AnyCollection = Annotated[CollectionName | None, Query()]
AnyDocument = Annotated[UUID | None, Query()]
AnyReason = Annotated[Reason | None, Query()]
_RESOLVING_STATUSES = (400, 401, 404, 413, 415, 422, 503)


@router.get("", response_model=DeadLetterPage, responses=problems(400, 401, 404, 422, 503))
async def list_dead_letters(
    *,
    tenant: Reader,
    services: ServicesDep,
    collection: AnyCollection = None,
    document_id: AnyDocument = None,
    reason: AnyReason = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List failed documents, unread pages and dead chunks, newest first."""
    await services.ledger[Collections].require(tenant, collection)
    choice = Choice(document_id, collection, reason)
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger[DeadLetters].page(tenant, choice, after=after, limit=limit + 1)
    letters, following = paging.split_page(rows, limit, lambda letter: (letter.at.isoformat(), str(letter.id)))
    items = [DeadLetterView.of(letter) for letter in letters]
    return JsonReply(DeadLetterPage(items=items, next_cursor=following))


@router.get("/reasons", response_model=DeadReasons, responses=problems(401, 404, 422, 503))
async def list_dead_letter_reasons(
    *,
    tenant: Reader,
    services: ServicesDep,
    collection: AnyCollection = None,
    document_id: AnyDocument = None,
    reason: AnyReason = None,
) -> Response:
    """Count dead letters by their reason."""
    await services.ledger[Collections].require(tenant, collection)
    counts = await services.ledger[DeadLetters].reasons(tenant, Choice(document_id, collection, reason))
    return JsonReply(DeadReasons(items=[DeadReasonView.of(count) for count in counts]))


@router.get("/{letter_id}", response_model=DeadLetterHistory, responses=problems(401, 404, 422, 503))
async def get_dead_letter(letter_id: UUID, tenant: Reader, services: ServicesDep) -> Response:
    """Return a dead letter with its failed attempts."""
    return JsonReply(DeadLetterHistory.of(await services.ledger[DeadLetters].get(tenant, letter_id)))


@router.post(
    "/retry",
    status_code=202,
    response_model=DeadLettersResolved,
    responses=problems(*_RESOLVING_STATUSES),
)
async def retry_dead_letters(filter_: DeadLetterFilter, tenant: Writer, services: ServicesDep) -> Response:
    """Give dead letters another round of attempts. Paid questions are not generated again.

    A page starts the next version of its document, in which all its unread pages are read again. Queries see the
    current version until then.
    """
    await services.ledger[Collections].require(tenant, filter_.collection)
    resolved = await services.ledger[DeadLetters].retry(tenant, _choice(filter_))
    if resolved.documents or resolved.pages:
        services.wakeups.wake("parse")
    if resolved.chunks:
        services.wakeups.wake("generate", "index")
    return JsonReply(DeadLettersResolved.of(resolved), 202)


@router.post(
    "/discard",
    response_model=DeadLettersResolved,
    responses=problems(*_RESOLVING_STATUSES),
)
async def discard_dead_letters(filter_: DeadLetterFilter, tenant: Writer, services: ServicesDep) -> Response:
    """Discard dead letters permanently.

    A chunk that queries find by its text is retained. A failed document reverts to the visible version; a document
    that was never visible is deleted.
    """
    if not (filter_.all or filter_.is_narrowed):
        raise InvalidInput(
            'This would discard all dead letters. Select some, or send {"all": true} to discard all.', field="all"
        )
    await services.ledger[Collections].require(tenant, filter_.collection)
    resolved = await services.ledger[DeadLetters].discard(tenant, _choice(filter_))
    return JsonReply(DeadLettersResolved.of(resolved))


def _choice(filter_: DeadLetterFilter) -> Choice:
    return Choice(filter_.document_id, filter_.collection, filter_.reason, filter_.letter_id)
