"""Routes of a document's content: the uploaded bytes, pictures of scanned pages, and the extracted text."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from api.http import ranges
from api.routes.chunks import Version
from shared.domain.corpus.chunk_detail import ChunkDetail
from shared.domain.errors import NotFound, Unreadable
from shared.http.access.auth import LiveReadingCaller, ReadingCaller
from shared.http.openapi import replies
from shared.http.state import ServicesDep
from shared.ledger.documents.documents import Documents
from shared.storage.references import Originals, Reference, is_reference

router = APIRouter(prefix="/v1/documents/{document_id}", tags=["documents"])

_PAGE = 200  # chunks
_BYTES = {"schema": {"type": "string", "format": "binary"}}
# The media type of the upload; without one, application/octet-stream, which generators of clients know as bytes.
_ANY: dict[str, Any] = {"application/octet-stream": _BYTES, "*/*": {"schema": {}}}
_IMAGE: dict[str, Any] = {"image/webp": _BYTES}
_TEXT = {"text/plain": {"schema": {"type": "string"}}}
# An untrusted file may be a page with scripts, which must not run as a part of this server's.
_SAFE = {"content-security-policy": "sandbox; default-src 'none'", "x-content-type-options": "nosniff"}

Pieces = AsyncIterator[str]
PageNumber = Annotated[int, Path(ge=1, le=2**31 - 1, description="Number of the page in the file, from 1")]


@router.get(
    "/content",
    response_class=Response,
    responses=replies(
        {
            200: {"description": "The bytes, with the media type of the upload", "content": _ANY},
            206: {"description": "The bytes of the requested range", "content": _ANY},
        },
        *(401, 404, 416, 422, 503),
    ),
)
async def get_document_content(
    request: Request, document_id: UUID, caller: LiveReadingCaller, services: ServicesDep, version: Version = "latest"
) -> Response:
    """Download the uploaded bytes, or one range of them; the headers keep browsers from executing them.

    With `version=live` the scope `ask` suffices, unless the key has a filter: answers cite this version.
    Bytes that a source has, and that were not copied, are answered 404 with the name and the address of the source.
    """
    stored = await services.ledger[Documents].upload(
        caller.tenant, document_id, live=version == "live", principals=caller.principals
    )
    if is_reference(stored.upload):
        raise await _not_copied(Reference.parse(stored.upload), services.parts.originals)
    tag = f'"{hashlib.sha256(stored.upload.encode()).hexdigest()[:32]}"'  # bytes of a name never change
    span = ranges.requested(request.headers, stored.size_bytes, tag)
    pieces = services.uploads.pieces(stored.upload, stored.size_bytes, span)
    try:
        first = await anext(pieces)
    except Unreadable as error:
        raise NotFound(error.message) from error
    headers = {
        "content-type": stored.media_type or "application/octet-stream",
        "content-length": str(stored.size_bytes),
        "content-disposition": f"attachment; filename*=UTF-8''{quote(stored.filename or 'document', safe='')}",
        "accept-ranges": "bytes",
        "etag": tag,
        "cache-control": "private, no-store",
    }
    if span is None:
        return StreamingResponse(_continued(first, pieces), headers=_SAFE | headers)
    start, end = span
    headers |= {"content-length": str(end - start), "content-range": f"bytes {start}-{end - 1}/{stored.size_bytes}"}
    return StreamingResponse(_continued(first, pieces), 206, _SAFE | headers)


@router.get(
    "/pages/{number}/image",
    response_class=Response,
    responses=replies({200: {"description": "The page", "content": _IMAGE}}, 401, 404, 422, 503),
)
async def get_page_image(  # noqa: PLR0917 - parameters of a request
    request: Request,
    document_id: UUID,
    number: PageNumber,
    caller: ReadingCaller,
    services: ServicesDep,
    version: Version = "latest",
) -> Response:
    """Return a picture of a page that was read by OCR, at 100 dpi, to compare it with its text.

    It was made when the page was read, so it exists even if the uploaded bytes do not.
    """
    picture = await services.ledger[Documents].page_picture(
        caller.tenant, document_id, number, live=version == "live", principals=caller.principals
    )
    headers = _SAFE | {"etag": f'"{picture.tag}"', "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(picture.content, media_type="image/webp", headers=headers)


@router.get(
    "/text",
    response_class=Response,
    responses=replies({200: {"description": "The text", "content": _TEXT}}, 401, 404, 422, 503),
)
async def get_document_text(
    document_id: UUID, caller: LiveReadingCaller, services: ServicesDep, version: Version = "latest"
) -> Response:
    """Return the extracted text, in which the spans of chunks count characters.

    With `version=live` the scope `ask` suffices, unless the key has a filter: answers cite this version.
    It is joined from the chunks: the text between them is white space, returned as line ends.
    """
    read = partial(
        services.ledger[Documents].chunks,
        caller.tenant,
        document_id,
        live=version == "live",
        limit=_PAGE,
        principals=caller.principals,
    )
    first = await read()
    if not first:
        raise NotFound("This version has no text: it is not parsed yet, or could not be read.", field="version")
    return StreamingResponse(_pieces(first, read), media_type="text/plain", headers=_SAFE)


async def _not_copied(reference: Reference, originals: Originals) -> NotFound:
    """Return the error of bytes that only the source has: the API opens no sources, and has none of their secrets."""
    return NotFound(
        f"The bytes were not copied: they are {await originals.location(reference)}. The option copy_files of a"
        " source copies the bytes of versions that are read from then on."
    )


async def _continued(first: bytes, pieces: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(pieces):
        yield first
        async for piece in pieces:
            yield piece


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
            for piece in chunk.content.continuing(position):
                yield piece
            position = max(position, chunk.content.span[1])
        chunks = await read(after=chunks[-1].ordinal)
