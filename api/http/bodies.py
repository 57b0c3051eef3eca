"""Request bodies, read under a limit and turned into models; every refusal is a sentence for the caller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError

from api.http.problems import MalformedRequest, SlowBody, UnsupportedMedia, invalid_fields
from shared.domain.errors import InvalidInput, TooLarge
from shared.settings import Settings

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

# The default maximum length of a body. A query for 1,000 documents has 40 kB.
SMALL_BODY_BYTES = 64 * 1024
PROMPT_BODY_BYTES = 256 * 1024  # for bodies with a prompt: 20,000 escaped characters are 240 kB
_AT_ONCE_BYTES = 64 * 1024  # decoded in at most 4 ms, which is less than a thread may have to wait
# Decoding holds Python's lock, even in a thread: 7 million empty lists in 20 MB take 2.6 s, this many values 20 ms. A
# document has at most 20,000 questions of three values each, and 32 KiB of metadata.
_MAX_VALUES = 100_000
_MAX_ERRORS = 1_000  # each costs 4 microseconds, and a line of the reply
# A trickling body occupies one of the process's concurrent requests, like a stalled one.
_SLOWEST_BYTES_PER_SECOND = 100
_SLICE_BYTES = 64 * 1024
_NUL = b"\\u0000"


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def require_acceptable(request: Request, max_bytes: int, limit: str | None = None) -> None:
    """Check the headers of a request's body; see `read_pieces`."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMedia("Send the body without Content-Encoding.")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > max_bytes:
        raise _too_large(max_bytes, limit)


async def read_pieces(request: Request, max_bytes: int, limit: str | None = None) -> AsyncIterator[bytes]:
    """Yield the body piece by piece while its bytes are counted.

    Args:
        request: the request.
        max_bytes: maximum size of the body.
        limit: setting behind `max_bytes`, named by the error; None if there is none.

    Raises:
        TooLarge: the body exceeds `max_bytes`, or its Content-Length does.
        SlowBody: no piece arrived for `FOREASK_API_BODY_TIMEOUT`, or hardly any bytes for longer than that.
        UnsupportedMedia: the body is compressed, so its true size is unknown.
    """
    require_acceptable(request, max_bytes, limit)
    size = 0
    async for piece in _in_time(request):
        size += len(piece)
        if size > max_bytes:
            raise _too_large(max_bytes, limit)
        if piece:
            yield piece


async def _in_time(request: Request) -> AsyncIterator[bytes]:
    """Yield the body as it arrives; only the time spent waiting for the client counts."""
    settings: Settings = request.app.state.settings
    seconds = settings.api_body_timeout.total_seconds()
    stream, size, waited = request.stream(), 0, 0.0
    while True:
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(stream, None)
        except TimeoutError:
            raise _slow(seconds) from None
        if piece is None:
            return
        size, waited = size + len(piece), waited + time.monotonic() - began
        if waited > seconds + size / _SLOWEST_BYTES_PER_SECOND:
            raise _slow(seconds)
        yield piece


async def read_json(request: Request, model: type[M], max_bytes: int = SMALL_BODY_BYTES, limit: str | None = None) -> M:
    """Read a JSON body; a large one is decoded in a thread.

    Args:
        request: the request.
        model: model of the body.
        max_bytes: maximum size of the body.
        limit: setting behind `max_bytes`; None if there is none.

    Raises:
        UnsupportedMedia: the Content-Type is not JSON.
        TooLarge: the body exceeds `max_bytes`.
        MalformedRequest: the body is not JSON.
        InvalidInput: the body does not fit the model; `errors` names each field.
    """
    if media_type(request) != "application/json":
        raise UnsupportedMedia("Send JSON, with `Content-Type: application/json`.")
    body = b"".join([piece async for piece in read_pieces(request, max_bytes, limit)])
    return await decode_beside(len(body), partial(_decode, model, body))


async def decode_beside(size_bytes: int, decode: Callable[[], T]) -> T:
    """Decode large bodies in a thread, because they would block other requests; small ones directly."""
    return decode() if size_bytes <= _AT_ONCE_BYTES else await asyncio.to_thread(decode)


def _decode(model: type[M], body: bytes) -> M:
    return validate_as(model, parse_json(body))


def parse_json(body: bytes, field: str | None = None) -> Any:
    """Parse JSON strictly: no NaN, no lone surrogates, no deep nesting, and no NUL, which PostgreSQL rejects.

    Raises:
        MalformedRequest: the body is not JSON.
        InvalidInput: a text has a NUL character.
        TooLarge: it has more values than any valid request.
    """
    if len(body) > _MAX_VALUES and _count_values(body) > _MAX_VALUES:
        raise TooLarge(f"This JSON has more than {_MAX_VALUES:,} values.")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedRequest(f"This is not JSON: {error.msg} at character {error.pos}.", field=field) from None
    if _NUL in body and _has_nul(value):
        raise InvalidInput("A text has a NUL character (\\u0000), which cannot be stored: remove it.", field=field)
    return value


def validate_as(model: type[M], value: Any) -> M:
    """Turn parsed JSON into a request.

    Raises:
        InvalidInput: the value does not fit the model; `errors` names each field.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        if (count := error.error_count()) > _MAX_ERRORS:
            raise InvalidInput(f"{count:,} fields are wrong, which are too many to name each.") from None
        raise invalid_fields(error.errors(include_url=False, include_input=False)) from None


def _count_values(body: bytes) -> int:
    """The approximate number of values in JSON: commas and opening brackets outside texts.

    Other threads can run meanwhile.

    For invalid JSON the count is correct up to the position where the parser stops.
    """
    values, in_text, begun = 0, 0, b""
    for start in range(0, len(body), _SLICE_BYTES):
        part = (begun + body[start : start + _SLICE_BYTES]).replace(rb"\\", b"")
        begun = b"\\" if part.endswith(b"\\") else b""  # it escapes the next slice's first character
        parts = part.removesuffix(b"\\").replace(rb"\"", b"").split(b'"')
        outside = b"".join(parts[in_text::2])
        in_text ^= (len(parts) - 1) % 2
        values += sum(map(outside.count, (b",", b"[", b"{")))
    return values


def _has_nul(value: object) -> bool:
    unchecked = [value]
    while unchecked:
        item = unchecked.pop()
        if isinstance(item, str):
            if "\0" in item:
                return True
        elif isinstance(item, dict):
            unchecked += [*item, *item.values()]
        elif isinstance(item, list):
            unchecked += item
    return False


def _slow(seconds: float) -> SlowBody:
    return SlowBody(f"The request's body stood still for {seconds:g} s, or nearly did: send it again, in one go.")


def _too_large(max_bytes: int, limit: str | None) -> TooLarge:
    setting = f" ({limit})" if limit else ""
    return TooLarge(f"The request is larger than {max_bytes:,} bytes{setting}.")
