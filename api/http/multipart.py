"""Multipart forms, read as they come: fields into memory, the file to where it is to be kept."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from api.http.bodies import counted
from api.http.problems import MalformedRequest
from shared.domain.errors import InvalidInput, TooLarge
from shared.settings import Settings
from shared.storage.uploads import Upload, Uploads

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_FIELDS = frozenset({"collection", "external_id", "title", "metadata", "questions", "lane"})
_BOUNDARY_MAX = 256


@dataclass(slots=True)
class Form:
    """What came; `upload` is in the store already, and whoever gives up must remove it."""

    fields: dict[str, bytes] = field(default_factory=dict)
    upload: Upload | None = None
    filename: str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class _FormPart:
    name: str
    filename: str | None
    media_type: str | None


async def read_form(request: Request, uploads: Uploads, settings: Settings) -> Form:
    """Read a form with one `file`, in whatever order its parts come.

    Raises:
        TooLarge: the file, or the fields together, have more bytes than their limit.
        Malformed: it is not a form, or it ends in the middle.
        InvalidInput: there is no file, or a field that is not known or comes twice.

    On every error the file is removed.
    """
    form = Form()
    try:
        await _read(form, request, uploads, settings)
        if form.upload is None:
            raise InvalidInput("The form has no `file`.", field="file")
    except BaseException:
        if form.upload is not None:
            uploads.remove(form.upload.name)
        raise
    return form


async def _read(form: Form, request: Request, uploads: Uploads, settings: Settings) -> None:
    parts = _Parts(request, settings.max_upload_bytes + settings.max_json_bytes)
    left = settings.max_json_bytes
    while (part := await parts.next()) is not None:
        if part.name == "file":
            if form.upload is not None:
                raise InvalidInput("A form has one `file`: send each document by itself.", field="file")
            form.filename, form.media_type = part.filename, part.media_type
            form.upload = await uploads.store(parts.content(), max_bytes=settings.max_upload_bytes)
        elif part.name not in _FIELDS or part.name in form.fields:
            known = ", ".join(("file", *sorted(_FIELDS)))
            raise InvalidInput(f"A form has these fields, each once: {known}.", field=part.name[:100])
        else:
            value = await _field(parts, left)
            left -= len(value)
            form.fields[part.name] = value


async def _field(parts: _Parts, left: int) -> bytes:
    value = bytearray()
    async for piece in parts.content():
        value += piece
        if len(value) > left:
            raise TooLarge("The form's fields have too many bytes (FOREASK_MAX_JSON_BYTES).")
    return bytes(value)


class _Parts:
    """The parts of a form one after the other, each with its content; nothing is held but the newest pieces."""

    def __init__(self, request: Request, max_bytes: int) -> None:
        self._stream = counted(request, max_bytes, "FOREASK_MAX_UPLOAD_BYTES")
        self._events: deque[_FormPart | bytes | None] = deque()  # None ends a part
        self._headers: dict[bytes, bytes] = {}
        self._name, self._value = b"", b""
        self._ended = False
        callbacks: MultipartCallbacks = {
            "on_part_begin": self._headers.clear,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": lambda data, start, end: self._events.append(data[start:end]),
            "on_part_end": lambda: self._events.append(None),
            "on_end": self._end,
        }
        self._parser = MultipartParser(_boundary(request), callbacks)

    async def next(self) -> _FormPart | None:
        """The next part, None at the end; what is left of the one before must have been read."""
        event = await self._event()
        assert event is None or isinstance(event, _FormPart)
        return event

    async def content(self) -> AsyncIterator[bytes]:
        """The content of the part that `next` returned."""
        while isinstance(event := await self._event(), bytes):
            yield event

    async def _event(self) -> _FormPart | bytes | None:
        while not self._events:
            piece = await anext(self._stream, None)
            if piece is None:
                if self._ended:
                    return None
                raise MalformedRequest("The form ends in the middle.")
            try:
                self._parser.write(piece)
            except FormParserError as error:
                raise MalformedRequest(f"This is not a form: {str(error)[:200]}.") from None
        return self._events.popleft()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name, self._value = b"", b""

    def _headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        name, filename = options.get(b"name"), options.get(b"filename")
        if name is None:
            raise MalformedRequest("A part of the form has no name.")
        kind = self._headers.get(b"content-type")
        self._events.append(
            _FormPart(
                name=_text(name),
                filename=None if filename is None else _text(filename),
                media_type=None if kind is None else _text(kind),
            )
        )

    def _end(self) -> None:
        self._ended = True


def _boundary(request: Request) -> bytes:
    _, options = parse_options_header(request.headers.get("content-type"))
    boundary = options.get(b"boundary", b"")
    if not 0 < len(boundary) <= _BOUNDARY_MAX:
        raise MalformedRequest("The form's Content-Type has no boundary.")
    return boundary


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedRequest("A part of the form has a name that is not UTF-8.") from None
