"""Rows as a stream of bytes from a confined process to its worker, in messages of any size.

A frame is the length of its head, the head as a JSON array, and the bytes of a text whose length the head has. The file
may have taken over the process, so the worker validates each frame, and has at most one of them in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from features.sources.keys import problem_of
from shared.confined.process import InvalidReply
from shared.domain.access.persons import readers_of
from shared.domain.errors import InvalidInput

MOST_TEXT_BYTES = 20 * 1024 * 1024
MOST_PROBLEM_CHARS = 2_000

_LENGTH = struct.Struct(">I")
_MOST_HEAD_BYTES = 256 * 1024
_MESSAGE_BYTES = 1_000_000
_VERSION_CHARS = 64


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A row that a confined process has read.

    Args:
        number: its number or the number of its line, from 1.
        key: its key; None if it has no id.
        version: hash of its document; empty if it has none.
        size_bytes: size of its text; None if it has none.
        problem: why it has no document, as a sentence; None if it has one.
        title: its title; None without one.
        metadata: its metadata.
        text: its text in UTF-8; empty if it has no document.
        readable_by: readers of its document; None if no column names them.
    """

    number: int
    key: str | None = None
    version: str = ""
    size_bytes: int | None = None
    problem: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] | None = None
    text: bytes = b""
    readable_by: Sequence[str] | None = None


class RowWriter:
    """Collects rows for messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def add(self, row: ReadRow) -> None:
        fields = (row.number, row.key, row.version, row.size_bytes, row.problem, row.title, row.metadata)
        head = orjson.dumps((*fields, row.readable_by, len(row.text)))
        self._buffer += _LENGTH.pack(len(head))
        self._buffer += head
        self._buffer += row.text

    def messages(self, least: int = _MESSAGE_BYTES) -> Iterator[bytes]:
        """Yield messages while at least this many bytes are collected."""
        while len(self._buffer) >= max(1, least):
            yield bytes(self._buffer[:_MESSAGE_BYTES])
            del self._buffer[:_MESSAGE_BYTES]


class RowReader:
    """Reads the rows of messages.

    Attributes:
        last: number of the last row.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self.last = 0

    def rows(self, message: bytes) -> Iterator[ReadRow]:
        """Yield the rows that are complete with this message.

        Raises:
            InvalidReply: the reader of rows does not write such a message.
        """
        self._buffer += message
        while (row := self._next()) is not None:
            self.last = row.number
            yield row
        del self._buffer[: self._at]
        self._at = 0

    def require_end(self) -> None:
        """Raise InvalidReply if a row is incomplete."""
        if self._buffer:
            raise InvalidReply("an incomplete row")

    def _next(self) -> ReadRow | None:
        start = self._at + _LENGTH.size
        if len(self._buffer) < start:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, self._at)
        if length > _MOST_HEAD_BYTES:
            raise InvalidReply("a row with a long head")
        if len(self._buffer) < start + length:
            return None
        row, text_bytes = _row_of(bytes(self._buffer[start : start + length]))
        end = start + length + text_bytes
        if len(self._buffer) < end:
            return None
        self._at = end
        if not text_bytes:
            return row
        return replace(row, text=bytes(self._buffer[end - text_bytes : end]))


def _row_of(head: bytes) -> tuple[ReadRow, int]:
    """Return the row of a head without its text, and the length of the text.

    Raises:
        InvalidReply: a field is not valid.
    """
    try:
        number, key, version, size_bytes, problem, title, metadata, readers, text_bytes = orjson.loads(head)
    except (orjson.JSONDecodeError, TypeError, ValueError) as error:
        raise InvalidReply("a row without its fields") from error
    valid = (
        type(number) is int
        and type(text_bytes) is int
        and 0 <= text_bytes <= MOST_TEXT_BYTES
        and isinstance(version, str)
        and len(version) <= _VERSION_CHARS
        and (size_bytes is None or type(size_bytes) is int)
        and (title is None or isinstance(title, str))
        and (metadata is None or isinstance(metadata, dict))
        and (problem is None or (isinstance(problem, str) and len(problem) <= MOST_PROBLEM_CHARS))
        and (key is None or (isinstance(key, str) and problem_of(key) is None))
        and (key is not None or problem is not None)
        and (readers is None or _are_readers(readers))
    )
    if not valid:
        raise InvalidReply("a row with an invalid field")
    row = ReadRow(number, key, version, size_bytes, problem, title, metadata, readable_by=readers)
    return row, text_bytes


def _are_readers(names: object) -> bool:
    """Return whether names are readers as `readers_of` returns them."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    try:
        return list(readers_of(names)) == names
    except InvalidInput:
        return False
