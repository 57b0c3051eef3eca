"""Request bodies: read under a limit, parsed and validated; every error is a sentence for the caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError

from shared.domain.corpus.document_fields import has_nul
from shared.domain.errors import InvalidInput, TooLarge
from shared.domain.json_values import MOST_VALUES, has_too_many_values
from shared.http.problems import MalformedRequest, UnsupportedMedia, invalid_fields
from shared.http.request_body import body_of
from shared.settings import Settings

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

_AT_ONCE_BYTES = 64 * 1024  # decoded in at most 4 ms, which is less than a thread may have to wait
_MAX_ERRORS = 1_000  # each costs 4 microseconds, and a line of the reply
_NUL = b"\\u0000"


@dataclass(frozen=True, slots=True)
class MaxBytes:
    """The maximum size of a route's JSON body, declared in the annotation of the body.

    Args:
        size: number of bytes, or name of the setting that contains it. The error names the setting, too.
    """

    size: int | str

    def resolve(self, settings: Settings) -> tuple[int, str | None]:
        """Return the number of bytes, and the environment variable of the setting, if any."""
        if isinstance(self.size, int):
            return self.size, None
        return getattr(settings, self.size), f"FOREASK_{self.size.upper()}"


SMALL_BODY = MaxBytes(64 * 1024)  # the default: a query for 1,000 documents has 40 kB
PROMPT_BODY = MaxBytes(256 * 1024)  # for bodies with a prompt: 20,000 escaped characters are 240 kB
LABELLED_BODY = MaxBytes(1024 * 1024)  # 1,000 labelled questions of 1,000 bytes
CHAT_BODY = MaxBytes(1024 * 1024)  # each request contains the whole conversation
DOCUMENT_BODY = MaxBytes("max_json_bytes")  # for bodies with texts of documents


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_pieces(request: Request, max_bytes: int, setting: str | None = None) -> AsyncIterator[bytes]:
    """Yield the body piece by piece, within the limits of `RequestBody`.

    Args:
        request: the request.
        max_bytes: maximum size of the body.
        setting: name of the setting with `max_bytes`, for the error; None if there is none.

    Raises:
        TooLarge, SlowBody, UnsupportedMedia: as `RequestBody.limit` and `RequestBody.receive`.
    """
    body_of(request).limit(max_bytes, setting)
    async for piece in request.stream():
        if piece:
            yield piece


async def read_json(request: Request, model: type[M], limit: MaxBytes) -> M:
    """Read a JSON body; a large one is decoded in a thread.

    Raises:
        UnsupportedMedia: the Content-Type is not JSON.
        TooLarge: the body exceeds its maximum size.
        MalformedRequest: the body is not JSON.
        InvalidInput: the body does not fit the model; `errors` names each field.
    """
    if media_type(request) != "application/json":
        raise UnsupportedMedia("Send JSON, with `Content-Type: application/json`.")
    body = b"".join([piece async for piece in read_pieces(request, *limit.resolve(body_of(request).settings))])
    return await decode_as(model, body)


async def decode_as(model: type[M], body: bytes) -> M:
    """Decode a JSON body, a large one in a thread.

    Raises:
        MalformedRequest, TooLarge, InvalidInput: as `read_json`.
    """
    return await decode_beside(len(body), partial(_decode, model, body))


async def decode_beside(size_bytes: int, decode: Callable[[], T]) -> T:
    """Decode large bodies in a thread, because they would block other requests; small ones directly."""
    return decode() if size_bytes <= _AT_ONCE_BYTES else await asyncio.to_thread(decode)


def _decode(model: type[M], body: bytes) -> M:
    return validate_as(model, parse_json(body))


def parse_json(body: bytes, field: str | None = None, *, allows_nul: bool = False) -> Any:
    """Parse JSON strictly: no NaN, no lone surrogates, no deep nesting, and no NUL, which PostgreSQL rejects.

    Args:
        body: the JSON.
        field: field of the request that contains it, for errors.
        allows_nul: whether texts may have NUL, because the caller refuses them itself.

    Raises:
        MalformedRequest: the body is not JSON.
        InvalidInput: a text has a NUL character.
        TooLarge: it has more values than any valid request.
    """
    if has_too_many_values(body):
        raise TooLarge(f"This JSON has more than {MOST_VALUES:,} values.")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedRequest(f"This is not JSON: {error.msg} at character {error.pos}.", field=field) from None
    if not allows_nul and _NUL in body and has_nul(value):
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
            raise InvalidInput(f"{count:,} fields are invalid, too many to list.") from None
        raise invalid_fields(error.errors(include_url=False, include_input=False)) from None
