"""Handing in a document: its bytes first, then its row, then the bell; or nothing of it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import orjson
from fastapi import Request

from api.collection_cache import CollectionCache
from api.http import bodies
from api.http.multipart import Form, read_form
from api.http.problems import UnsupportedMedia
from api.schemas import DocumentBody, DocumentFields
from shared.domain.errors import InvalidInput, Unavailable
from shared.domain.records import Collection, NewDocument, ReadyQuestion
from shared.ledger.documents import Submission
from shared.services.api import ApiServices
from shared.storage.uploads import Upload

_NAME_MAX = 255
_LANES = {"interactive": 0, "bulk": 1}
_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)
_UNSAID = "application/octet-stream"  # what clients send that do not know


async def receive(request: Request, tenant: str, services: ApiServices, known: CollectionCache) -> Submission:
    """Take in a document as a form or as JSON; it is durable, and not yet parsed, when this returns.

    Raises:
        Rejected: it cannot be taken in as it stands.
        Conflict: its collection was built with another embedding model.
        Unavailable: the ledger cannot be reached.

    On every error neither a row nor a file is left.
    """
    match bodies.media_type(request):
        case "multipart/form-data":
            return await _from_form(request, tenant, services, known)
        case "application/json":
            return await _from_json(request, tenant, services, known)
    raise UnsupportedMedia("Send a form (multipart/form-data) with a `file`, or JSON (application/json).")


@dataclass(frozen=True, slots=True)
class _File:
    """A file that is in the store, and what its sender calls it."""

    upload: Upload
    filename: str | None
    media_type: str | None


async def _from_form(request: Request, tenant: str, services: ApiServices, known: CollectionCache) -> Submission:
    form = await read_form(request, services.uploads, services.settings)
    upload = form.upload
    assert upload is not None  # read_form sees to it
    with UploadGuard(services, upload) as kept:
        if not upload.size_bytes:
            raise InvalidInput("The file is empty.", field="file")
        fields = bodies.checked(DocumentFields, _values(form))
        file = _File(upload, filename_of(form.filename), media_type_of(form.media_type))
        return await kept.submit(_new(fields, file, await known.ensured(tenant, fields.collection)))


async def _from_json(request: Request, tenant: str, services: ApiServices, known: CollectionCache) -> Submission:
    body = await bodies.read_json(request, DocumentBody, services.settings.max_json_bytes)
    content, filename, media_type = _content(body), filename_of(body.filename), media_type_of(body.media_type)
    collection = await known.ensured(tenant, body.collection)  # before a file is written for nothing
    upload = await services.uploads.store_bytes(content, max_bytes=services.settings.max_upload_bytes)
    with UploadGuard(services, upload) as kept:
        return await kept.submit(_new(body, _File(upload, filename, media_type), collection))


class UploadGuard:
    """An upload that is removed again unless the ledger has taken it."""

    def __init__(self, services: ApiServices, upload: Upload) -> None:
        self._services = services
        self._upload = upload
        self._submitted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._submitted:
            self._services.uploads.remove(self._upload.name)

    async def submit(self, new: NewDocument) -> Submission:
        services = self._services
        self._submitted = True
        try:
            submission = await services.ledger.documents.submit(new)
        except Unavailable:
            # It may have gone away during the commit: a file that a row may name is left to the workers' tidying.
            with suppress(Unavailable):
                self._submitted = bool(await services.ledger.documents.uploads_in_use([new.upload]))
            raise
        if submission.obsolete_upload is not None:
            services.uploads.remove(submission.obsolete_upload)
        if submission.accepted:
            services.wakeups.wake("parse")
        return submission


def _new(fields: DocumentFields, file: _File, collection: Collection) -> NewDocument:
    title = (fields.title or "").strip() or None
    questions = None if fields.questions is None else [q.model_dump(exclude_none=True) for q in fields.questions]
    sha256 = file.upload.sha256.hex()
    return NewDocument(
        collection=collection,
        external_id=fields.external_id or file.filename or f"sha256-{sha256[:32]}",
        filename=file.filename,
        title=title,
        media_type=file.media_type,
        metadata=fields.metadata,
        ready_questions=None if questions is None else tuple(ReadyQuestion(**q) for q in questions),
        upload=file.upload.name,
        size_bytes=file.upload.size_bytes,
        content_hash=content_hash(
            {
                "content": sha256,
                "filename": file.filename,
                "media_type": file.media_type,
                "title": title,
                "metadata": fields.metadata,
                "questions": questions,
            }
        ),
        lane=_LANES[fields.lane],
    )


def content_hash(parts: Mapping[str, object]) -> bytes:
    """Everything that changes what is indexed: another hash begins the next version."""
    return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).digest()


def filename_of(name: str | None) -> str | None:
    """Reduce a filename to its last component; an empty one is none.

    Raises:
        InvalidInput: it has control characters, is too long, or names a folder.
    """
    if name is None:
        return None
    if any(unicodedata.category(c) == "Cc" for c in name):
        raise InvalidInput("The filename has control characters.", field="filename")
    name = re.split(r"[/\\]", name)[-1].strip()
    if name in {".", ".."}:
        raise InvalidInput("The filename names a folder.", field="filename")
    if len(name.encode()) > _NAME_MAX:
        raise InvalidInput(f"The filename has more than {_NAME_MAX} bytes.", field="filename")
    return name or None


def media_type_of(value: str | None) -> str | None:
    """A media type without its parameters; None where it says nothing.

    Raises:
        InvalidInput: it is not one.
    """
    kind = (value or "").partition(";")[0].strip().lower()
    if not kind or kind == _UNSAID:
        return None
    if not _MEDIA_TYPE.fullmatch(kind):
        raise InvalidInput("The media type has the form `type/subtype`.", field="media_type")
    return kind


def _values(form: Form) -> dict[str, object]:
    """The fields of a form as JSON would have them."""
    values: dict[str, object] = {}
    for name, raw in form.fields.items():
        if name in {"metadata", "questions"}:
            if raw.strip():
                values[name] = bodies.parsed(raw, name)
        elif value := _text(name, raw):
            values[name] = value
    return values


def _text(name: str, raw: bytes) -> str:
    try:
        value = raw.decode()
    except UnicodeDecodeError:
        raise InvalidInput("The field is not UTF-8.", field=name) from None
    if "\0" in value:
        raise InvalidInput("The field has a NUL character: remove it.", field=name)
    return value


def _content(body: DocumentBody) -> bytes:
    if body.text is not None:
        if not body.text.strip():
            raise InvalidInput("The document is empty.", field="text")
        return body.text.encode()
    try:
        content = base64.b64decode(body.content_base64 or "", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput("This is not base 64.", field="content_base64") from None
    if not content:
        raise InvalidInput("The document is empty.", field="content_base64")
    return content
