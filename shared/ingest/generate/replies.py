"""The questions in a model's reply.

A truncated reply is never treated as complete, because the loss of its other questions would be unnoticed.
"""

from __future__ import annotations

import re
from typing import Any

from shared.ingest.generate.quality import is_question, normalise
from shared.providers.json_replies import MalformedReply, json_in, spoken

_LIST_ITEM = re.compile(r"\s*(?:[-*•]|\(?\d{1,2}[.):])\s+(.*\S)")
_ITEM_KEYS = ("question", "text", "q")
MAX_CHARS = 1_000


def questions_in(reply: str) -> list[str]:
    """Return the questions in a model's reply, unchanged.

    A reply may contain `{"questions": [...]}`, only the list, or a list of objects, also in a code fence or within
    prose. Without JSON it may contain a numbered or bulleted list, or lines that are questions.

    Raises:
        Malformed: there are no questions, or the JSON is broken or has another shape.
    """
    values = json_in(reply)
    questions = [storable(question) for question in (_first_list(values) if values else _lines(spoken(reply)))]
    if not questions:
        raise MalformedReply("no questions in the reply")
    return questions


def storable(text: str) -> str:
    """Return the text without NUL characters and lone surrogates, which no store accepts."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode()


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
        raise MalformedReply("a question that is not a string")
    return item[:MAX_CHARS]


def _lines(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("```")]
    items = [match[1] for line in lines if (match := _LIST_ITEM.fullmatch(line))]
    return [line[:MAX_CHARS] for line in items or lines if is_question(normalise(line))]
