"""Multipart forms, read piece by piece: fields into memory, the file to disk."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from api.schemas.documents import DocumentFields
from api.submission.upload_guard import UploadGuard
from shared.domain.errors import InvalidInput, TooLarge
from shared.http.bodies import parse_json, read_pieces, validate_as
from shared.http.problems import MalformedRequest
from shared.settings import Settings
from shared.storage.uploads import Upload

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_FIELDS = frozenset({"collection", "external_id", "title", "metadata", "questions", "lane", "job"})
_JSON_FIELDS = frozenset({"metadata", "questions"})
_BOUNDARY_MAX = 256


@dataclass(frozen=True, slots=True)
class DocumentForm:
    """A form with one `file`, whose bytes are stored; `fields` has the bytes of the other parts by name."""

    fields: Mapping[str, bytes]
    upload: Upload
    filename: str | None
    media_type: str | None

    def document_fields(self) -> DocumentFields:
        """Return the validated fields; an empty field counts as absent.

        Raises:
            MalformedRequest: `metadata` or `questions` is not JSON.
            InvalidInput: a field is not UTF-8, has a NUL character, or is invalid.
        """
        values: dict[str, object] = {}
        for name, raw in self.fields.items():
            if name in _JSON_FIELDS:
                if raw.strip():
                    values[name] = parse_json(raw, name)
            elif value := _field_text(name, raw):
                values[name] = value
        return validate_as(DocumentFields, values)


@dataclass(frozen=True, slots=True)
class _FormPart:
    name: str
    filename: str | None
    media_type: str | None


async def read_form(request: Request, guard: UploadGuard, settings: Settings) -> DocumentForm:
    """Read a form with one `file`, with parts in any order; the guard stores the file.

    Raises:
        TooLarge: the file, or the fields together, exceed their limit.
        MalformedRequest: the body is not a form, or it is truncated.
        InvalidInput: the file is missing or empty, or a field is unknown or repeated.
        Unavailable: the disk failed.
    """
    parts = _PartReader(request, settings.max_upload_bytes + settings.max_json_bytes, "FOREASK_MAX_UPLOAD_BYTES")
    fields: dict[str, bytes] = {}
    rest = settings.max_json_bytes
    file: tuple[_FormPart, Upload] | None = None
    while (part := await parts.next()) is not None:
        if part.name == "file":
            if file is not None:
                raise InvalidInput(
                    "A form may have one `file` only: send each document in a separate request.", field="file"
                )
            file = part, await guard.store(parts.content(), max_bytes=settings.max_upload_bytes)
        elif part.name not in _FIELDS or part.name in fields:
            allowed = ", ".join(("file", *sorted(_FIELDS)))
            raise InvalidInput(f"A form may have these fields, each once: {allowed}.", field=part.name[:100])
        else:
            fields[part.name] = await _read_field(parts, rest)
            rest -= len(fields[part.name])
    if file is None:
        raise InvalidInput("The form has no `file`.", field="file")
    part, upload = file
    if not upload.size_bytes:
        raise InvalidInput("The file is empty.", field="file")
    return DocumentForm(fields, upload, part.filename, part.media_type)


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A file of a form, held in memory only."""

    filename: str | None
    media_type: str | None
    content: bytes


async def read_sample(
    request: Request, allowed: frozenset[str], *, most_files: int, most_bytes: int
) -> tuple[list[SampleFile], dict[str, str]]:
    """Read a form with fields and several parts `file`, without storing anything.

    Args:
        request: the request.
        allowed: names of fields.
        most_files: maximum number of files.
        most_bytes: maximum size of the form.

    Returns:
        The files, and the texts of the fields.

    Raises:
        TooLarge: the form exceeds the maximum size or number of files.
        MalformedRequest: the body is not a form, or it is truncated.
        InvalidInput: a field is unknown, repeated or not UTF-8.
    """
    parts = _PartReader(request, most_bytes, None)
    files: list[SampleFile] = []
    fields: dict[str, str] = {}
    while (part := await parts.next()) is not None:
        content = b"".join([piece async for piece in parts.content()])
        if part.name == "file":
            files.append(SampleFile(part.filename, part.media_type, content))
        elif part.name not in allowed or part.name in fields:
            names = ", ".join(("file", *sorted(allowed)))
            raise InvalidInput(
                f"Allowed fields of the form: {names}. Only `file` may be repeated.", field=part.name[:100]
            )
        else:
            fields[part.name] = _field_text(part.name, content)
        if len(files) > most_files:
            raise TooLarge(
                f"The form has more than {most_files} files: send some of them, and the total number as `count`."
            )
    return files, fields


async def _read_field(parts: _PartReader, max_bytes: int) -> bytes:
    value = bytearray()
    async for piece in parts.content():
        value += piece
        if len(value) > max_bytes:
            raise TooLarge("The form's fields have too many bytes (FOREASK_MAX_JSON_BYTES).")
    return bytes(value)


class _PartReader:
    """Reads the parts of a form in order, with their contents; only the newest pieces are in memory."""

    def __init__(self, request: Request, max_bytes: int, setting: str | None) -> None:
        self._stream = read_pieces(request, max_bytes, setting)
        self._events: deque[_FormPart | bytes | None] = deque()  # None ends a part
        self._headers: dict[bytes, bytes] = {}
        self._name, self._value = b"", b""
        self._ended = False
        callbacks: MultipartCallbacks = {
            "on_part_begin": self._headers.clear,
            "on_header_field": self._add_to_name,
            "on_header_value": self._add_to_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_part,
            "on_part_data": lambda data, start, end: self._events.append(data[start:end]),
            "on_part_end": lambda: self._events.append(None),
            "on_end": self._end,
        }
        self._parser = MultipartParser(_boundary(request), callbacks)

    async def next(self) -> _FormPart | None:
        """Return the next part, None at the end. The content of the previous part must have been read."""
        event = await self._next_event()
        assert event is None or isinstance(event, _FormPart)
        return event

    async def content(self) -> AsyncIterator[bytes]:
        """Yield the content of the part that `next` returned, piece by piece."""
        while isinstance(event := await self._next_event(), bytes):
            yield event

    async def _next_event(self) -> _FormPart | bytes | None:
        while not self._events:
            piece = await anext(self._stream, None)
            if piece is None:
                if self._ended:
                    return None
                raise MalformedRequest("The form is truncated.")
            try:
                self._parser.write(piece)
            except FormParserError as error:
                raise MalformedRequest(f"This is not a form: {str(error)[:200]}.") from None
        return self._events.popleft()

    def _add_to_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._name.lower()] = self._value
        self._name, self._value = b"", b""

    def _begin_part(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        name, filename = options.get(b"name"), options.get(b"filename")
        if name is None:
            raise MalformedRequest("A part of the form has no name.")
        kind = self._headers.get(b"content-type")
        self._events.append(
            _FormPart(
                name=_decode(name),
                filename=None if filename is None else _decode(filename),
                media_type=None if kind is None else _decode(kind),
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


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MalformedRequest("A part of the form has a name that is not UTF-8.") from None


def _field_text(name: str, raw: bytes) -> str:
    try:
        value = raw.decode()
    except UnicodeDecodeError:
        raise InvalidInput("The field is not UTF-8.", field=name) from None
    if "\0" in value:
        raise InvalidInput("The field has a NUL character: remove it.", field=name)
    return value
