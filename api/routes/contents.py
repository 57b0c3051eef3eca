"""Routes of what a document is made of: the bytes that were handed in, and the text that was read from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from api.deps import ServicesDep
from api.http.auth import Reader
from api.http.openapi import replies
from api.routes.chunks import Version
from shared.domain.errors import NotFound, Unreadable
from shared.domain.records import ChunkDetail
from shared.ledger.documents import StoredContent

router = APIRouter(prefix="/v1/documents/{document_id}", tags=["documents"])

_PIECE_BYTES = 1 << 18
_PAGE = 200  # chunks
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_TEXT = {"text/plain": {"schema": {"type": "string"}}}
# A stranger's file may be a page with scripts, which must not run as a part of this server's.
_SAFE = {"content-security-policy": "sandbox; default-src 'none'", "x-content-type-options": "nosniff"}

Pieces = AsyncIterator[str]


@router.get(
    "/content",
    response_class=Response,
    responses=replies({200: {"description": "The bytes", "content": _BYTES}}, 401, 404, 422, 503),
)
async def content(document_id: UUID, tenant: Reader, services: ServicesDep, version: Version = "latest") -> Response:
    """Download the bytes that were handed in; nothing in them runs in a browser that follows the headers."""
    stored = await services.ledger.documents.upload(tenant, document_id, live=version == "live")
    async with AsyncExitStack() as opening:
        try:
            path = await opening.enter_async_context(services.uploads.fetched(stored.upload))
        except Unreadable as error:
            raise NotFound(error.message) from error
        held = opening.pop_all()  # until the last byte is sent, or the client has gone
    return _Download(path, held, stored)


@router.get(
    "/text",
    response_class=Response,
    responses=replies({200: {"description": "The text", "content": _TEXT}}, 401, 404, 422, 503),
)
async def text(document_id: UUID, tenant: Reader, services: ServicesDep, version: Version = "latest") -> Response:
    """Read the text that was extracted, in which the spans of chunks count characters.

    It is put together from the chunks: what lies between them is white space, and is shown as line ends.
    """
    read = partial(services.ledger.documents.chunks, tenant, document_id, live=version == "live", limit=_PAGE)
    first = await read()
    if not first:
        raise NotFound("This version has no text: it is not parsed yet, or could not be read.", field="version")
    return StreamingResponse(_pieces(first, read), media_type="text/plain", headers=_SAFE)


class _Download(Response):
    """The bytes of a file, read piece by piece beside the loop."""

    def __init__(self, path: Path, held: AsyncExitStack, stored: StoredContent) -> None:
        name = stored.filename or "document"
        headers = {
            "content-type": stored.media_type or "application/octet-stream",
            "content-length": str(stored.size_bytes),
            "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        }
        super().__init__(headers=_SAFE | headers)
        self._path = path
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        async with self._held:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            with await asyncio.to_thread(self._path.open, "rb") as file:
                while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _pieces(chunks: Sequence[ChunkDetail], read: Callable[..., Awaitable[list[ChunkDetail]]]) -> Pieces:
    """Yield the text of a version; its chunks may overlap.

    Raises:
        ConnectionAbortedError: an edit has replaced the version meanwhile; the reply is cut off.
    """
    version, position = chunks[0].version, 0
    while chunks:
        if chunks[0].version != version:
            raise ConnectionAbortedError("the version was replaced while it was read")
        for chunk in chunks:
            yield chunk.content.continuing(position)
            position = max(position, chunk.content.span[1])
        chunks = await read(after=chunks[-1].ordinal)
