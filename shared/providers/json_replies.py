"""Reading JSON in a model's reply: lenient about the wrapping, strict about the content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_DECODER = json.JSONDecoder()
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
_OPENING = re.compile(r'[{\[]\s*["{}\[\]]')  # of JSON, and not of an aside [such as this]


class MalformedReply(Exception):
    """A reply without the requested content; the message names the problem."""


def json_in(reply: str) -> list[Any]:
    """Return the JSON objects and lists in a model's reply, in order; prose and code fences are ignored.

    Nested values are not listed separately.

    Raises:
        MalformedReply: the reply is empty, or its JSON is broken.
    """
    return list(_values(spoken(reply)))


def spoken(reply: str) -> str:
    """Remove the model's reasoning from a reply.

    Raises:
        MalformedReply: the reply contains nothing else.
    """
    text = _THINKING.sub("", reply).strip()
    if not text:
        raise MalformedReply("an empty reply")
    return text


def _values(text: str) -> Iterator[Any]:
    position = 0
    while (match := _OPENING.search(text, position)) is not None:
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except (json.JSONDecodeError, RecursionError) as error:
            raise MalformedReply("broken JSON") from error
        yield value
