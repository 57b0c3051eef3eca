"""Submission of a document in three steps: read the request, validate it, submit it to the ledger."""

from __future__ import annotations

import binascii
import os
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import orjson
import structlog
from fastapi import Request

from api.schemas.documents import DocumentBody, DocumentContent, DocumentDescription, DocumentFields
from api.submission.lanes import lane_of
from api.submission.lost_uploads import complete
from api.submission.multipart import read_form
from api.submission.separating import from_base64
from api.submission.upload_guard import UploadGuard
from shared.confined.reading import Reader, as_file
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.document_fields import CheckedFields, content_hash, described
from shared.domain.corpus.documents import NewDocument, ReadyQuestion
from shared.domain.corpus.filterable import require_fit
from shared.domain.errors import InvalidInput, Transient, Unavailable, Unreadable
from shared.domain.lanes import Lane
from shared.http import bodies
from shared.http.access.collection_cache import CollectionCache
from shared.http.access.quotas import Quotas
from shared.http.problems import UnsupportedMedia
from shared.http.request_body import is_large
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.submission import Submission
from shared.maintenance.descriptions import update_now
from shared.process.telemetry import traces
from shared.services.api import ApiServices
from shared.storage.uploads import Upload

log = structlog.get_logger()

_SEPARATED_BYTES = 4 << 20  # a smaller body is decoded in 40 ms, in a thread; the first process takes 0.4 s to start
_SEPARATING = "api.submission.separating"


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document as its request describes it; the bytes are stored, and are not empty."""

    fields: DocumentFields
    upload: Upload
    filename: str | None
    media_type: str | None
    token: str | None = None  # of the address to which the bytes were sent


async def receive(
    request: Request, tenant: str, services: ApiServices, collection_cache: CollectionCache, quotas: Quotas
) -> Submission:
    """Accept a document as a form or as JSON; when this returns, it is durable and not yet parsed.

    Raises:
        Rejected: the request, or the document, breaks a rule.
        Conflict: the embedding of its collection is not configured, the provider's batches cannot be used, or the
            tenant has the maximum number of documents or collections.
        TooManyRequests: the tenant has used up its daily upload limit.
        Unavailable: the ledger cannot be reached, or the disk is full.

    If an error is raised, no row and no file is stored.
    """
    await quotas.require_upload_room(tenant)
    async with UploadGuard(services.uploads) as guard:
        async with quotas.slot_for_body(tenant, request):
            raw = await read(request, tenant, guard, services)
        lane = await lane_of(raw.fields.lane, services)
        new = await validate(raw, tenant, collection_cache, lane)
        async with quotas.closed_offer(tenant, raw.token) as offered_bytes:
            (submission,) = await submit([new], guard, services, quotas, offered_bytes)
    if raw.token is not None:
        await services.uploads.withdraw(tenant, raw.token)
    return submission


async def read(request: Request, tenant: str, guard: UploadGuard, services: ApiServices) -> RawDocument:
    """Read the request, and store the document's bytes unless the client has sent them to the store.

    Raises:
        UnsupportedMedia: the body is neither a form nor JSON.
        MalformedRequest: the body cannot be read.
        TooLarge: the body, or the document, exceeds its limit.
        InvalidInput: a field is invalid, or the document is empty.
        Unavailable: the disk failed.
    """
    match bodies.media_type(request):
        case "multipart/form-data":
            form = await read_form(request, guard, services.settings)
            fields = await bodies.decode_beside(sum(map(len, form.fields.values())), form.document_fields)
            return RawDocument(fields, form.upload, form.filename, form.media_type)
        case "application/json":
            return await _read_json(request, tenant, guard, services)
    raise UnsupportedMedia("Send a form (multipart/form-data) with a `file`, or JSON (application/json).")


async def _read_json(request: Request, tenant: str, guard: UploadGuard, services: ApiServices) -> RawDocument:
    """Read a document as JSON, and store its content; raises as `read`. A large body is decoded in another process."""
    max_bytes = services.settings.max_upload_bytes
    if not is_large(request.scope):
        body = await bodies.read_json(request, DocumentBody, bodies.DOCUMENT_BODY)
    else:
        with as_file(b"") as file:
            async for piece in bodies.read_pieces(request, *bodies.DOCUMENT_BODY.resolve(services.settings)):
                _write(file, piece)
            if os.fstat(file).st_size > _SEPARATED_BYTES:
                reader = services.parts.readers.for_tenant(tenant)
                if (separated := await _separated(reader, file, guard, max_bytes)) is not None:
                    return separated
            content = os.pread(file, os.fstat(file).st_size, 0)
        body = await bodies.decode_as(DocumentBody, content)
    upload = await _stored(body, tenant, guard, max_bytes)
    return RawDocument(body, upload, body.filename, body.media_type, body.upload)


async def _separated(reader: Reader, file: int, guard: UploadGuard, max_bytes: int) -> RawDocument | None:
    """Store the content of a document, which another process separates from its fields.

    Returns:
        None if the process reports an error, or there is none: the caller decodes the body, and names the error.

    Raises:
        InvalidInput, TooLarge, Unavailable: as `read`.
    """
    try:
        async with aclosing(reader.read(_SEPARATING, "separated", {}, [file], subject="the document")) as messages:
            async for fields in messages:
                body = bodies.validate_as(DocumentBody, orjson.loads(fields))
                upload = await guard.store(messages, max_bytes=max_bytes)
                return RawDocument(body, upload, body.filename, body.media_type)
    except Unavailable:
        raise
    except (Transient, Unreadable) as error:
        log.warning("document.decoded_in_api", reason=error.message)
    return None


def _write(file: int, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(file, rest) :]


async def validate(raw: RawDocument, tenant: str, collection_cache: CollectionCache, lane: Lane) -> NewDocument:
    """Check the document's names and find its collection, which is created on first use.

    Raises:
        InvalidInput: the filename or the media type cannot be used, or the metadata does not fit the declared fields.
        Conflict: the embedding of the collection is not configured.
        Unavailable: the ledger cannot be reached.
    """
    fields = raw.fields
    description = described_by(fields, raw.filename, raw.media_type)
    collection = await collection_cache.ensure(tenant, fields.collection)
    return new_document(fields, description, raw.upload, collection, lane=lane, job_id=fields.job)


def described_by(fields: DocumentDescription, filename: str | None, media_type: str | None) -> CheckedFields:
    """Return the descriptive fields of a request; raises as `described`."""
    return described(filename=filename, media_type=media_type, title=fields.title, metadata=fields.metadata)


def new_document(
    fields: DocumentDescription,
    description: CheckedFields,
    upload: Upload,
    collection: Collection,
    *,
    lane: Lane,
    job_id: UUID | None,
) -> NewDocument:
    """Assemble a document.

    Raises:
        InvalidInput: the metadata does not fit the declared fields.
    """
    questions = None if fields.questions is None else [q.model_dump(exclude_none=True) for q in fields.questions]
    sha256 = upload.sha256.hex()
    require_fit(collection.options.filterable, description.metadata)
    return NewDocument(
        collection=collection,
        external_id=fields.external_id or description.filename or f"sha256-{sha256[:32]}",
        filename=description.filename,
        title=description.title,
        media_type=description.media_type,
        metadata=description.metadata,
        readable_by=None if fields.readable_by is None else tuple(fields.readable_by),
        ready_questions=None if questions is None else tuple(ReadyQuestion(**q) for q in questions),
        upload=upload.name,
        size_bytes=upload.size_bytes,
        content_hash=content_hash(
            {
                "content": sha256,
                "filename": description.filename,
                "media_type": description.media_type,
                "title": description.title,
                "metadata": description.metadata,
                "questions": questions,
            }
        ),
        lane=lane,
        job_id=job_id,
        traceparent=traces.traceparent(),
    )


async def submit(
    new: Sequence[NewDocument], guard: UploadGuard, services: ApiServices, quotas: Quotas, offered_bytes: int = 0
) -> list[Submission]:
    """Insert the rows of documents of one collection whose bytes the guard stored, and wake a worker for them.

    Args:
        new: the documents.
        guard: the guard.
        services: the services.
        quotas: the limits.
        offered_bytes: bytes that count already, because they were sent to an address.

    Raises:
        Conflict, TooLarge, TooManyRequests: the tenant may not add them; see `Quotas.require_room`.
        Unavailable: the ledger cannot be reached.
    """
    await quotas.require_room(new, offered_bytes)
    guard.disarm()  # from now on a row may refer to the bytes
    try:
        submissions = await services.ledger[Documents].submit_many(new)
    except Unavailable:
        # The ledger may have committed before its connection broke. Until it answers, the bytes are kept.
        with suppress(Unavailable):
            if not await services.ledger[Documents].stored_in_use([guard.stored_in]):
                guard.arm()
        raise
    if described := [submission.described for submission in submissions if submission.described is not None]:
        await update_now(services.ledger[Descriptions], services.index, described)
    submissions = await complete(new, submissions, services)
    if any(submission.accepted for submission in submissions):
        services.wakeups.wake("parse")
        _log_accepted(new, submissions)
    else:
        await guard.remove()
    return submissions


def _log_accepted(new: Sequence[NewDocument], submissions: Sequence[Submission]) -> None:
    """Log documents with the request's id, because log lines of workers contain only document ids."""
    for document, submission in zip(new, submissions, strict=True):
        if submission.accepted:
            ids = {"document_id": str(submission.document.id), "collection_id": str(document.collection.id)}
            log.info("document.accepted", **ids, version=submission.document.version)


async def _stored(body: DocumentBody, tenant: str, guard: UploadGuard, max_bytes: int) -> Upload:
    if body.upload is None:
        content = await bodies.decode_beside(len(body.text or body.content_base64 or ""), partial(content_of, body))
        return await guard.store_bytes(content, max_bytes=max_bytes)
    upload = await guard.claim(tenant, body.upload, max_bytes=max_bytes)
    if not upload.size_bytes:
        raise InvalidInput("The document is empty.", field="upload")
    return upload


def content_of(body: DocumentContent) -> bytes:
    """Return the bytes of a document in JSON.

    Raises:
        InvalidInput: the document is empty, or not base 64.
    """
    if body.text is not None:
        if not body.text.strip():
            raise InvalidInput("The document is empty.", field="text")
        return body.text.encode()
    try:
        content = from_base64(body.content_base64 or "")
    except (binascii.Error, ValueError):
        raise InvalidInput("The content is not valid base64.", field="content_base64") from None
    if not content:
        raise InvalidInput("The document is empty.", field="content_base64")
    return content
