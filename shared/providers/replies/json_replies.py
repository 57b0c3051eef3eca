"""Reading JSON in a model's reply: lenient about the wrapping and small slips, strict about the content.

A small reader of its own instead of json_repair (0.64): that one also completes truncated replies and makes JSON of
prose, so lost questions would go unnoticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from shared.providers.replies.thinking import without_thinking

_DECODER = json.JSONDecoder(strict=False)  # accepts line breaks in strings
_OPENING = re.compile(r'[{\[]\s*["{}\[\]]')  # of JSON, and not of an aside [such as this]
_STRING = r'"(?>(?:[^"\\]++|\\.)*)"'
# A string that does not end is one, too: otherwise each of its escaped quotation marks would be tried as a start.
_TRAILING_COMMA = re.compile(rf"({_STRING}?+)|,(?=\s*+[}}\]])", re.DOTALL)
_ENCODED = re.compile(rf"(?:```(?:json)?\s*)?({_STRING})\s*(?:```)?", re.DOTALL)
_CALLED = ("arguments", "parameters", "input")  # fields of a tool call with the content
_OF_CALL = frozenset({"name", "type", "id", "function", "tool", "tool_name", "index", *_CALLED})
_DEEPEST = 4  # wrappers around the content


class MalformedReply(Exception):
    """A reply without the requested content; the message names the problem."""


def json_in(reply: str) -> list[Any]:
    """Return the JSON objects and lists in a model's reply, in order; prose, code fences and wrappers are ignored.

    A wrapper is a tool call, an object with a single field that is an object, or a string with JSON. Other nested
    values are not listed separately.

    Raises:
        MalformedReply: the reply is empty, or its JSON is broken.
    """
    text = spoken(reply)
    if (encoded := _ENCODED.fullmatch(text)) is not None:
        decoded = _decoded(encoded[1])
        text = decoded if isinstance(decoded, str) else text
    return [_unwrapped(value) for value in _values(text)]


def spoken(reply: str) -> str:
    """Remove the model's reasoning from a reply.

    Raises:
        MalformedReply: the reply contains nothing else.
    """
    text = without_thinking(reply).strip()
    if not text:
        raise MalformedReply("an empty reply")
    return text


def _values(text: str) -> Iterator[Any]:
    position = 0
    while (match := _OPENING.search(text, position)) is not None:
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except (json.JSONDecodeError, RecursionError):
            text = _TRAILING_COMMA.sub(r"\1", text[match.start() :])
            try:
                value, position = _DECODER.raw_decode(text)
            except (json.JSONDecodeError, RecursionError) as error:
                raise MalformedReply("broken JSON") from error
        yield value


def _unwrapped(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) and _is_call(value[0]):
        (value,) = value
    for _ in range(_DEEPEST):
        inner = _content(value)
        if inner is None:
            break
        value = inner
    return value


def _content(value: Any) -> Any:
    """Return the object or list in a wrapper; None if the value is not a wrapper."""
    if not isinstance(value, dict):
        return None
    if _is_call(value):
        inner = next((value[name] for name in (*_CALLED, "function") if name in value), None)
    else:
        inner = next(iter(value.values())) if len(value) == 1 else None
    if isinstance(inner, str):
        inner = _decoded(inner)
        return inner if isinstance(inner, dict) or (isinstance(inner, list) and _is_call(value)) else None
    return inner if isinstance(inner, dict) else None


def _is_call(value: dict[str, Any]) -> bool:
    return bool(value) and value.keys() <= _OF_CALL


def _decoded(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (json.JSONDecodeError, RecursionError):
        return None
