"""Multipart forms, read part by part, of which only the newest pieces are in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from shared.domain.errors import InvalidInput
from shared.http.bodies import read_pieces
from shared.http.problems import MalformedRequest

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

_BOUNDARY_MAX = 256


@dataclass(frozen=True, slots=True)
class FormPart:
    name: str
    filename: str | None
    media_type: str | None


class PartReader:
    """Reads the parts of a form in order, with their contents; only the newest pieces are in memory."""

    def __init__(self, request: Request, max_bytes: int, setting: str | None) -> None:
        self._stream = read_pieces(request, max_bytes, setting)
        self._events: deque[FormPart | bytes | None] = deque()  # None ends a part
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

    async def next(self) -> FormPart | None:
        """Return the next part, None at the end. The content of the previous part must have been read."""
        event = await self._next_event()
        assert event is None or isinstance(event, FormPart)
        return event

    async def content(self) -> AsyncIterator[bytes]:
        """Yield the content of the part that `next` returned, piece by piece."""
        while isinstance(event := await self._next_event(), bytes):
            yield event

    async def _next_event(self) -> FormPart | bytes | None:
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
            FormPart(
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


def field_text(name: str, raw: bytes) -> str:
    try:
        value = raw.decode()
    except UnicodeDecodeError:
        raise InvalidInput("The field is not UTF-8.", field=name) from None
    if "\0" in value:
        raise InvalidInput("The field has a NUL character: remove it.", field=name)
    return value
