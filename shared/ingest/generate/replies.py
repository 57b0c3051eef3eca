"""Reading what a model wrote: lenient about the wrapping, strict about what is inside.

A truncated reply is never taken for a whole one: half of the questions with nothing said is the failure to avoid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from shared.ingest.generate.quality import is_question, normalise

_DECODER = json.JSONDecoder()
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
_LIST_ITEM = re.compile(r"\s*(?:[-*•]|\(?\d{1,2}[.):])\s+(.*\S)")
_OPENING = re.compile(r'[{\[]\s*["{}\[\]]')  # of JSON, and not of an aside [such as this]
_ITEM_KEYS = ("question", "text", "q")
MAX_CHARS = 1_000


class MalformedReply(Exception):
    """A reply without what was asked for; the message says what is wrong with it."""


def questions_in(reply: str) -> list[str]:
    """The questions in a model's reply, as they stand there.

    Taken are `{"questions": [...]}`, the bare list, objects for items, and each of these in a code fence or within
    prose; without any JSON, a numbered or bulleted list, or lines that are questions.

    Raises:
        Malformed: there are none, or the JSON is broken or of another shape.
    """
    text = _said(reply)
    found = list(_values(text))
    questions = [_storable(question) for question in (_first_list(found) if found else _lines(text))]
    if not questions:
        raise MalformedReply("no questions in the reply")
    return questions


def json_in(reply: str) -> list[Any]:
    """Each JSON object or list in a model's reply, in a code fence, within prose or alone.

    Raises:
        Malformed: the reply is empty, or the JSON is broken.
    """
    return list(_values(_said(reply)))


def _said(reply: str) -> str:
    text = _THINKING.sub("", reply).strip()
    if not text:
        raise MalformedReply("an empty reply")
    return text


def _storable(question: str) -> str:
    """Without what no store takes: NUL characters, and halves of surrogate pairs."""
    return question.replace("\x00", "").encode("utf-8", "ignore").decode()


def _values(text: str) -> Iterator[Any]:
    """Each JSON object or array in the text, in order; what stands inside one is not looked for again."""
    position = 0
    while (match := _OPENING.search(text, position)) is not None:
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except (json.JSONDecodeError, RecursionError) as error:
            raise MalformedReply("broken JSON") from error
        yield value


def _first_list(values: list[Any]) -> list[str]:
    for value in values:
        items = _items(value)
        if items is not None:
            return [_item(item) for item in items]
    raise MalformedReply("JSON of another shape")


def _items(value: Any) -> list[Any] | None:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("questions"), list):
        return list(value["questions"])
    if isinstance(value.get("question"), str):
        return [value]
    lists = [v for v in value.values() if isinstance(v, list)]
    return lists[0] if len(lists) == 1 else None


def _item(item: Any) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in _ITEM_KEYS if key in item), None)
    if not isinstance(item, str):
        raise MalformedReply("a question that is no string")
    return item[:MAX_CHARS]


def _lines(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("```")]
    items = [match[1] for line in lines if (match := _LIST_ITEM.fullmatch(line))]
    return [line[:MAX_CHARS] for line in items or lines if is_question(normalise(line))]
