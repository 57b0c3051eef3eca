"""Server-sent events of providers, as they are sent: with comments, without blank lines, or not as events at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

_DONE = b"[DONE]"
DONE: object = object()
"""Yielded at the end of a stream that has ended as it should."""

_MARK = b"\xef\xbb\xbf"  # byte order mark


class UnreadableEvents(Exception):
    """A body that contains neither events nor JSON; `content` is the body, or the part of it that cannot be read."""

    def __init__(self, content: bytes) -> None:
        super().__init__("neither events nor JSON")
        self.content = content


class EventReader:
    """Reads the JSON values of a body that arrives in blocks.

    The body is a stream of server-sent events whose data is JSON, or lines of JSON, or one JSON value. The end of a
    line is LF, CR LF or CR. Data on several lines is joined; an event also ends where its data is complete, because
    some servers send no blank line.

    Attributes:
        is_done: whether the body has ended as it should: with `[DONE]`, or as one JSON value.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self._event = b""
        self._is_whole: bool | None = None  # whether the body is one JSON value; None until it starts
        self.is_done = False

    def feed(self, block: bytes) -> list[Any]:
        """Return the values that are complete with this block.

        Raises:
            UnreadableEvents: an event is not JSON.
        """
        self._buffer += block
        if self._is_whole is None:
            self._buffer = self._buffer.removeprefix(_MARK).lstrip()
            if not _MARK.startswith(self._buffer):  # not empty either
                self._is_whole = self._buffer[:1] in {b"{", b"[", b"<"}
        return [] if self._is_whole is not False else list(self._values(is_end=False))

    def end(self) -> list[Any]:
        """Return the values that end with the body.

        Raises:
            UnreadableEvents: the body, or the rest of it, is neither an event nor JSON.
        """
        if self._is_whole:
            try:
                value = _json(self._buffer)
            except ValueError:
                pass  # perhaps lines of JSON
            else:
                self.is_done = True
                return [value]
        content = self._buffer
        try:
            return list(self._values(is_end=True))
        except UnreadableEvents as error:
            raise UnreadableEvents(content or error.content) from error

    def _values(self, *, is_end: bool) -> Iterator[Any]:
        for line in self._lines(is_end=is_end):
            yield from self._read(line)
        if is_end:
            yield from self._read(b"")

    def _lines(self, *, is_end: bool) -> list[bytes]:
        if is_end:
            complete, self._buffer = self._buffer, b""
        else:
            # The last CR may belong to a CR LF.
            end = max(self._buffer.rfind(b"\n"), self._buffer.rfind(b"\r", 0, -1)) + 1
            complete, self._buffer = self._buffer[:end], self._buffer[end:]
        return complete.splitlines()

    def _read(self, line: bytes) -> Iterator[Any]:
        name, _, data = line.partition(b":")
        if not line:
            if self._data and self._data[0].lstrip()[:1] in {b"{", b"["}:
                raise UnreadableEvents(b"\n".join(self._data))
            self._data, self._event = [], b""
        elif name == b"data" or line[:1] in {b"{", b"["}:
            self._data.append(data.removeprefix(b" ") if name == b"data" else line)
            yield from self._complete()
        elif name == b"event":
            self._event = data.strip()
        elif line[:1] == b"<":
            raise UnreadableEvents(line)

    def _complete(self) -> Iterator[Any]:
        data = b"\n".join(self._data).strip()
        if data == _DONE:
            self.is_done, self._data = True, []
            return
        try:
            value = _json(data)
        except ValueError:
            return
        self._data = []
        is_error = self._event == b"error" and not (isinstance(value, dict) and "error" in value)
        yield {"error": value} if is_error else value


def _json(data: bytes) -> Any:
    """Return a JSON value, also with `NaN` and halves of surrogate pairs, which orjson rejects.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def values_in(content: bytes) -> tuple[list[Any], bool]:
    """Return the JSON values of a complete body, and whether it has ended as it should.

    Raises:
        UnreadableEvents: the body is neither JSON nor events.
    """
    reader = EventReader()
    values = reader.feed(content) + reader.end()
    if not values and not reader.is_done:
        raise UnreadableEvents(content)
    return values, reader.is_done
