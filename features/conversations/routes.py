"""Routes of conversations: the page stores them for its key, if the operator allows it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from features.conversations.domain import Citations, Conversation
from features.conversations.ledger import Conversations
from features.conversations.schemas import ConversationBody, ConversationId, ConversationPage, StoredConversationView
from shared.domain.access.keys import Owner, Scope
from shared.domain.errors import NotFound
from shared.http import paging
from shared.http.access.auth import Asker, Caller
from shared.http.bodies import MaxBytes
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.settings import Settings

router = APIRouter(prefix="/v1/conversations", tags=["conversations"], route_class=StrictRoute)

_MAX_BODY = MaxBytes(256 * 1024)  # a hundred questions with answers and sources of 2.6 kB
# A page of the largest conversations has 5 MB.
_Limit = Annotated[int, Query(ge=1, le=20, description="Maximum number of items on the page")]


@router.get("", response_model=ConversationPage, responses=problems(400, 401, 404, 422, 503))
async def list_conversations(
    request: Request, _: Asker, services: ServicesDep, limit: _Limit = 20, cursor: paging.Cursor = None
) -> Response:
    """List the conversations of the key, the last changed first. They contain no passages."""
    owner, days = _required(request, services.settings)
    after = paging.read_cursor(cursor, _read_position)
    rows = await services.ledger[Conversations].page(owner, oldest=timedelta(days=days), after=after, limit=limit + 1)
    shown, following = paging.split_page(rows, limit, lambda each: (each.changed_at, each.id))
    return JsonReply({"items": [_item(each) for each in shown], "next_cursor": following})


@router.put(
    "/{conversation_id}",
    response_model=StoredConversationView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 503),
)
async def put_conversation(
    request: Request,
    conversation_id: ConversationId,
    body: Annotated[ConversationBody, _MAX_BODY],
    _: Asker,
    services: ServicesDep,
) -> Response:
    """Store a conversation of the key. The last change wins, by its time.

    A key has at most 100 conversations: the oldest one is deleted. A conversation that cites erased data is refused.
    """
    owner, _days = _required(request, services.settings)
    turns = orjson.dumps([turn.model_dump() for turn in body.turns]).decode()
    conversation = Conversation(conversation_id, body.name, turns, body.changed_at)
    changed_at = await services.ledger[Conversations].store(owner, conversation, _cited(body))
    return JsonReply(StoredConversationView(id=conversation_id, changed_at=changed_at))


@router.delete("/{conversation_id}", status_code=204, responses=problems(401, 404, 422, 503))
async def delete_conversation(
    request: Request, conversation_id: ConversationId, _: Asker, services: ServicesDep
) -> Response:
    """Delete a conversation of the key."""
    owner, _days = _required(request, services.settings)
    await services.ledger[Conversations].delete(owner, conversation_id)
    return Response(status_code=204)


@router.delete("", status_code=204, responses=problems(401, 404, 503))
async def delete_conversations(request: Request, _: Asker, services: ServicesDep) -> Response:
    """Delete all conversations of the key."""
    owner, _days = _required(request, services.settings)
    await services.ledger[Conversations].delete_all(owner)
    return Response(status_code=204)


def days_of(caller: Caller, settings: Settings) -> int:
    """Return the number of days for which conversations of the caller are stored; 0 if they are not."""
    return settings.conversation_retention_days if Scope.ASK in caller.scopes else 0


def _facts(caller: Caller, settings: Settings) -> dict[str, int]:
    return {"conversation_retention_days": days_of(caller, settings)}


CONVERSATION_ROUTES = FeatureRoutes(
    (router,), {"name": "conversations", "description": "Conversations of the page, if the server stores them."}, _facts
)


def _required(request: Request, settings: Settings) -> tuple[Owner, int]:
    """Return the owner of the caller's conversations, and the days for which they are stored.

    Raises:
        NotFound: the server stores no conversations.
    """
    caller: Caller = request.state.caller
    if not (days := days_of(caller, settings)):
        raise NotFound("This server stores no conversations: FOREASK_CONVERSATION_RETENTION_DAYS is 0.")
    return caller.owner, days


def _cited(body: ConversationBody) -> Citations:
    documents = {source.document_id for turn in body.turns for source in turn.sources}
    documents.update(document_id for turn in body.turns for document_id in turn.document_ids)
    return Citations({turn.collection for turn in body.turns}, documents)


def _item(each: Conversation) -> dict[str, Any]:
    """Return a `ConversationView` whose turns are not decoded: they are megabytes of JSON, and stored as validated."""
    turns = orjson.Fragment(each.turns)
    return {"id": each.id, "name": each.name, "changed_at": each.changed_at, "turns": turns}


def _read_position(key: list[str]) -> tuple[datetime, str]:
    """Read the position of a list.

    Raises:
        ValueError: the key is not a time with a time zone, and an id.
    """
    time, conversation_id = key
    at, name = datetime.fromisoformat(time), paging.read_name([conversation_id])
    if at.tzinfo is None or not 2000 <= at.year <= 3000:  # noqa: PLR2004  PostgreSQL refuses years far from these
        raise ValueError
    return at, name
