"""Request bodies, read under a limit and turned into models; every refusal is a sentence for the caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ValidationError

from api.http.problems import MalformedRequest, UnsupportedMedia, invalid_fields
from shared.domain.errors import InvalidInput, TooLarge

M = TypeVar("M", bound=BaseModel)
_NUL = b"\\u0000"


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_pieces(request: Request, max_bytes: int, limit: str) -> AsyncIterator[bytes]:
    """Yield the body piece by piece, while its bytes are counted.

    Args:
        request: whose body it is.
        max_bytes: the most bytes of the body.
        limit: the setting behind `max_bytes`; the error names it.

    Raises:
        TooLarge: more than `max_bytes` came, or Content-Length announces more.
        UnsupportedMedia: the body is compressed, so that its true size is unknown until it is unpacked.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMedia("Send the body without Content-Encoding.")
    size = 0
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > max_bytes:
        raise _too_large(max_bytes, limit)
    async for piece in request.stream():
        size += len(piece)
        if size > max_bytes:
            raise _too_large(max_bytes, limit)
        if piece:
            yield piece


async def read_json(request: Request, model: type[M], max_bytes: int) -> M:
    """Read a JSON body.

    Raises:
        UnsupportedMedia: the Content-Type is not JSON.
        TooLarge: the body has more than `max_bytes`.
        MalformedRequest: the body is not JSON.
        InvalidInput: the body does not fit the model; `errors` names each field.
    """
    if media_type(request) != "application/json":
        raise UnsupportedMedia("Send JSON, with `Content-Type: application/json`.")
    body = b"".join([piece async for piece in read_pieces(request, max_bytes, "FOREASK_MAX_JSON_BYTES")])
    return validate_as(model, parse_json(body))


def parse_json(body: bytes, field: str | None = None) -> Any:
    """Parse JSON strictly: no NaN, no lone surrogates, no bombs of nesting, and no NUL, which PostgreSQL refuses.

    Raises:
        MalformedRequest: the body is not JSON.
        InvalidInput: a text has a NUL character.
    """
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
        raise invalid_fields(error.errors(include_url=False, include_input=False)) from None


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


def _too_large(max_bytes: int, limit: str) -> TooLarge:
    return TooLarge(f"The request is larger than {max_bytes:,} bytes ({limit}).")
