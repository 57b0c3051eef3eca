"""Routes of programs that push entries: start a listing, push pages and files, end the listing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from features.sources.ledger.pushes import Pushes
from features.sources.push.pushing import EntryOutcome, EntryResult, PushedEntry, Pushing
from features.sources.push.schemas import EntriesBody, EntriesReply, EntryBody, EntryResultView, ListingBody, PageBody
from features.sources.push.services import pushing
from features.sources.schemas import SourceName, SyncView
from features.sources.views import sync_view
from shared.domain.corpus.document_fields import has_nul
from shared.domain.errors import InvalidInput, Rejected, TooLarge
from shared.http import bodies
from shared.http.access.auth import Writer
from shared.http.forms import FormPart, PartReader, field_text
from shared.http.openapi import form_content, json_body, problems, replies
from shared.http.problems import TooManyRequests, UnsupportedMedia
from shared.http.replies import JsonReply
from shared.http.request_body import body_of
from shared.http.state import QuotasDep, ServicesDep, made_by
from shared.http.strict_route import StrictRoute
from shared.services.api import ApiServices
from shared.storage.uploads import Upload

router = APIRouter(prefix="/v1/sources", tags=["sources"], route_class=StrictRoute)

PushingDep = Annotated[Pushing, made_by(pushing)]

_STATUSES = (400, 401, 404, 409, 413, 415, 422, 503)
_FORM = {
    "type": "object",
    "required": ["file", "entry"],
    "additionalProperties": False,
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "entry": {"type": "string", "description": "the entry as JSON, without `text`", "example": '{"key": "a.pdf"}'},
        "listing": {"type": "string", "format": "uuid", "description": "id of the open listing"},
    },
}
_ENTRY_BYTES = 1024 * 1024


@router.post(
    "/{name}/listings",
    status_code=201,
    response_model=SyncView,
    responses=replies({200: {"model": SyncView}}, *_STATUSES),
)
async def start_listing(body: ListingBody, name: SourceName, tenant: Writer, services: ServicesDep) -> Response:
    """Start a complete listing of a source of the kind `push`.

    200: a listing with the same key is open, and is continued. While another one is open, or its deletions are being
    carried out, the request is answered 409 with its `job_id`. A listing is a sync: GET /v1/sources/{name}/syncs lists
    it, and POST /v1/jobs/{id}/cancel cancels it. It fails if its program sends nothing until `expires_at`.
    """
    pushes = services.ledger[Pushes]
    source = await pushes.source(tenant, name)
    state, is_new = await pushes.start(source, body.key, expires=services.settings.tuning.push_expires)
    return JsonReply(sync_view(state), 201 if is_new else 200, {"location": f"/v1/jobs/{state.id}"})


@router.post(
    "/{name}/listings/{listing_id}/end", status_code=202, response_model=SyncView, responses=problems(*_STATUSES)
)
async def end_listing(name: SourceName, listing_id: UUID, tenant: Writer, services: ServicesDep) -> Response:
    """End a listing, which is complete then. Documents of entries that it lacks are deleted as after each sync.

    Entries whose bodies were asked for and not pushed are refused entries of the sync. Repeating the request has no
    further effect.
    """
    pushes = services.ledger[Pushes]
    state = await pushes.end(await pushes.source(tenant, name), listing_id)
    services.wakeups.wake("syncs")
    return JsonReply(sync_view(state), 202, {"location": f"/v1/jobs/{state.id}"})


@router.post(
    "/{name}/entries",
    response_model=EntriesReply,
    responses=problems(*_STATUSES),
    openapi_extra=json_body(EntriesBody),
)
async def push_entries(
    *, request: Request, name: SourceName, tenant: Writer, quotas: QuotasDep, work: PushingDep
) -> Response:
    """Push a page of entries, in a listing or without one. Each entry has a result, and an invalid one stops no other.

    An entry with the version of its document needs no body. Other readers, titles and metadata apply at once, without
    a call of a model. `body_needed`: send the entry again, with its body. Repeating a page has no further effect. 429:
    the tenant may not add bodies now; send the page again after `Retry-After`.
    """
    async with quotas.slot_for_body(tenant, request):
        page = await _page_of(request)
        if page.checkpoint is not None and page.listing is None:
            raise InvalidInput("Only a page of a listing has a checkpoint.", field="checkpoint")
        entries = [_entry_of(value, index) for index, value in enumerate(page.entries)]
        results = await work.push(tenant, name, entries, listing=page.listing, checkpoint=page.checkpoint)
    return JsonReply(EntriesReply(results=[_view(result) for result in results]))


@router.post(
    "/{name}/files",
    response_model=EntryResultView,
    responses=problems(*_STATUSES),
    openapi_extra={"requestBody": {"required": True, "content": form_content("PushedFileForm", _FORM)}},
)
async def push_file(
    *,
    request: Request,
    name: SourceName,
    tenant: Writer,
    services: ServicesDep,
    quotas: QuotasDep,
    work: PushingDep,
) -> Response:
    """Push one entry whose body is a file, as a form with `entry` and `file`."""
    await work.pushes.source(tenant, name)
    await quotas.require_upload_room(tenant)
    fields, file = await _form_of(request, services)
    if file is None:
        raise InvalidInput("The form has no `file`.", field="file")
    part, upload = file
    try:
        body = bodies.validate_as(EntryBody, bodies.parse_json(fields.get("entry", b""), "entry"))
        pushed = body.pushed(upload, filename=part.filename)
        listing = field_text("listing", fields.get("listing", b"")) or None
        page = bodies.validate_as(PageBody, {"listing": listing, "entries": []})
        (result,) = await work.push(tenant, name, [pushed], listing=page.listing)
    except (Rejected, TooManyRequests):  # after other errors a row may name the bytes
        await services.uploads.remove([upload.stored_in])
        raise
    if result.outcome not in (EntryOutcome.CREATED, EntryOutcome.CHANGED):
        await services.uploads.remove([upload.stored_in])
    return JsonReply(_view(result))


async def _page_of(request: Request) -> PageBody:
    """Read a page; a large one is decoded in a thread.

    Raises:
        UnsupportedMedia, TooLarge, MalformedRequest, InvalidInput: as `bodies.read_json`.
    """
    if bodies.media_type(request) != "application/json":
        raise UnsupportedMedia("Send JSON, with `Content-Type: application/json`.")
    limit = bodies.DOCUMENT_BODY.resolve(body_of(request).settings)
    body = b"".join([piece async for piece in bodies.read_pieces(request, *limit)])
    return await bodies.decode_beside(
        len(body), lambda: bodies.validate_as(PageBody, bodies.parse_json(body, allows_nul=True))
    )


def _entry_of(value: Any, index: int) -> PushedEntry:
    """Return an entry of a page, with the problem if it is invalid.

    Raises:
        InvalidInput: it has no key.
    """
    key = value.get("key") if isinstance(value, dict) else None
    if not isinstance(key, str):
        raise InvalidInput("The entry has no key.", field=f"entries.{index}.key")
    if has_nul(value):
        return PushedEntry(key, problem="A text of it has a NUL character (\\u0000), which cannot be stored.")
    try:
        return bodies.validate_as(EntryBody, value).pushed()
    except InvalidInput as error:
        return PushedEntry(key, problem=error.message)


async def _form_of(
    request: Request, services: ApiServices
) -> tuple[Mapping[str, bytes], tuple[FormPart, Upload] | None]:
    """Read a form; its file is stored.

    Raises:
        TooLarge: the file or the entry exceeds its limit.
        MalformedRequest, InvalidInput, Unavailable: as `PartReader` and `Uploads.store`.
    """
    max_bytes = services.settings.max_upload_bytes
    parts = PartReader(request, max_bytes + 2 * _ENTRY_BYTES, "FOREASK_MAX_UPLOAD_BYTES")
    fields, file = dict[str, bytes](), None
    while (part := await parts.next()) is not None:
        if part.name == "file" and file is None:
            file = part, await services.uploads.store(parts.content(), max_bytes=max_bytes)
        elif part.name in {"entry", "listing"} and part.name not in fields:
            fields[part.name] = await _field_of(parts)
        else:
            raise InvalidInput("A form may have these fields, each once: entry, file, listing.", field=part.name[:100])
    return fields, file


async def _field_of(parts: PartReader) -> bytes:
    value = bytearray()
    async for piece in parts.content():
        value += piece
        if len(value) > _ENTRY_BYTES:
            raise TooLarge(f"The entry has more than {_ENTRY_BYTES:,} bytes without its file.")
    return bytes(value)


def _view(result: EntryResult) -> EntryResultView:
    return EntryResultView(key=result.key, result=result.outcome.value, reason=result.reason)
