"""Routes of chunks: the chunks of a document, a chunk with its neighbours, and changes of a chunk's questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.schemas.chunks import ChunkInContextView, ChunkPage, ChunkView, QuestionChange
from shared.domain.corpus.chunk_detail import ChunkDetail
from shared.domain.errors import InvalidInput
from shared.domain.states import ChunkState
from shared.http import paging
from shared.http.access.auth import Caller, Manager, ReadingCaller
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.documents.disabled_questions import DisabledQuestions
from shared.ledger.documents.documents import Documents
from shared.maintenance.descriptions import update_now
from shared.services.api import ApiServices

router = APIRouter(tags=["documents"], route_class=StrictRoute)

_LAST = 2**31 - 1  # PostgreSQL's integer
_STATES = "|".join(ChunkState)
Version = Annotated[
    Literal["latest", "live"],
    Query(description="Version of the document: `latest` is the newest, `live` is visible to queries"),
]
_States = Annotated[
    str | None,
    Query(
        pattern=f"^({_STATES})(,({_STATES}))*$", max_length=200, description="One or more states, separated by commas"
    ),
]
_Neighbours = Annotated[int, Query(ge=0, le=20)]


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The chunks of one version with one of these states."""

    services: ApiServices
    caller: Caller
    document_id: UUID
    live: bool
    wanted: list[ChunkState] | None

    async def after(self, after: int, limit: int) -> list[ChunkDetail]:
        return await self._read(after=after, limit=limit)

    async def before(self, ordinal: int, limit: int) -> list[ChunkDetail]:
        return await self._read(before=ordinal, limit=limit)

    async def around(self, chunk_id: UUID, limit: int) -> tuple[list[ChunkDetail], list[ChunkDetail]]:
        """Return half a page before a chunk, and the rest from it on; each has one more if there are more."""
        documents = self.services.ledger[Documents]
        ordinal = await documents.ordinal_of(
            self.caller.tenant, self.document_id, chunk_id, live=self.live, principals=self.caller.principals
        )
        before = await self.before(ordinal, limit // 2 + 1)
        return before, await self.after(ordinal - 1, limit - min(len(before), limit // 2) + 1)

    async def _read(self, *, after: int = -1, before: int | None = None, limit: int) -> list[ChunkDetail]:
        chunks = await self.services.ledger[Documents].chunks(
            self.caller.tenant,
            self.document_id,
            live=self.live,
            after=after,
            before=before,
            wanted=self.wanted,
            limit=limit,
            principals=self.caller.principals,
        )
        return [_shown(chunk, self.caller) for chunk in chunks]


@router.get(
    "/v1/documents/{document_id}/chunks",
    response_model=ChunkPage,
    responses=problems(400, 401, 404, 422, 503),
)
async def list_chunks(
    *,
    document_id: UUID,
    caller: ReadingCaller,
    services: ServicesDep,
    version: Version = "latest",
    state: _States = None,
    around: Annotated[UUID | None, Query(description="Id of the chunk in the middle of the page")] = None,
    start: Annotated[
        int, Query(alias="from", ge=0, le=_LAST, description="Ordinal of the first chunk of the page")
    ] = 0,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List a document's chunks in order, with their questions, results, attempts and costs.

    `around` and `from` select the first page; the cursors continue from there in both directions.
    """
    wanted = None if state is None else [ChunkState(one) for one in state.split(",")]
    listed = _Chunks(services, caller, document_id, version == "live", wanted)
    position = paging.read_cursor(cursor, _position)
    if around is not None and (start or position):
        raise InvalidInput("Send only one of `around`, `from` and a cursor.", field="around")
    if around is not None:
        before, found = await listed.around(around, limit)
        more_before = len(before) > limit // 2
        items = [*before[more_before:], *found]
        shown = limit
    elif position is not None and position.backwards:
        items = await listed.before(position.ordinal, limit + 1)
        more_before = len(items) > limit
        items = items[more_before:]
        shown = len(items)
    else:
        after = start - 1 if position is None else position.ordinal
        items = await listed.after(after, limit + 1)
        more_before, shown = after >= 0, limit
    more = len(items) > shown or (position is not None and position.backwards)
    return JsonReply(_page(items[:shown], services, more=more, more_before=more_before))


@router.get("/v1/chunks/{chunk_id}", response_model=ChunkInContextView, responses=problems(401, 404, 422, 503))
async def get_chunk(
    *, chunk_id: UUID, caller: ReadingCaller, services: ServicesDep, before: _Neighbours = 1, after: _Neighbours = 1
) -> Response:
    """Return a chunk, its document and its neighbours, in the version that queries see, else in the newest."""
    found = await services.ledger[Documents].chunk(
        caller.tenant, chunk_id, before=before, after=after, principals=caller.principals
    )
    found = replace(
        found,
        before=[_shown(each, caller) for each in found.before],
        chunk=_shown(found.chunk, caller),
        after=[_shown(each, caller) for each in found.after],
    )
    return JsonReply(ChunkInContextView.of(found, services.settings))


def _shown(chunk: ChunkDetail, caller: Caller) -> ChunkDetail:
    """Return a chunk without the questions of other users if a person reads it."""
    if caller.person is None:
        return chunk
    return replace(chunk, questions=tuple(each for each in chunk.questions if each.source != "user"))


@router.patch(
    "/v1/chunks/{chunk_id}/questions",
    status_code=204,
    responses=problems(400, 401, 404, 413, 415, 422, 503),
)
async def update_chunk_question(
    body: QuestionChange, chunk_id: UUID, request: Request, tenant: Manager, services: ServicesDep
) -> Response:
    """Disable or enable a generated or ready-made question of a chunk.

    The change applies to the text of the chunk in every version and build of the document, and to the same question if
    it is generated again. Searches follow before the reply, or as soon as Qdrant answers. It costs no call of a model;
    only if the collection embeds texts with their questions, this text is embedded again. A user's question is
    retracted instead.
    """
    caller: Caller = request.state.caller
    change = services.ledger[DisabledQuestions].change
    rows = await change(tenant, chunk_id, body.question, disabled=body.disabled, by=caller.key_name)
    if rows:
        services.wakeups.wake("index")  # the change ended claims that did not know it
        await update_now(services.ledger[Descriptions], services.index, rows)
    return Response(status_code=204)


@dataclass(frozen=True, slots=True)
class _Position:
    """The content of a cursor: the chunks after an ordinal, or those before it."""

    ordinal: int
    backwards: bool


def _position(key: list[object]) -> _Position:
    *direction, ordinal = key
    if type(ordinal) is not int or not 0 <= ordinal <= _LAST or direction not in ([], ["before"]):
        raise ValueError
    return _Position(ordinal, bool(direction))


def _page(items: list[ChunkDetail], services: ApiServices, *, more: bool, more_before: bool) -> ChunkPage:
    return ChunkPage(
        items=[ChunkView.of(each, services.settings) for each in items],
        next_cursor=paging.cursor_of([items[-1].ordinal]) if items and more else None,
        previous_cursor=paging.cursor_of(["before", items[0].ordinal]) if items and more_before else None,
    )
