"""The questions in a model's reply, and the context that it may also have.

A truncated reply is never treated as complete, because the loss of its other questions would be unnoticed.
"""

from __future__ import annotations

import json
import re
from typing import Any

from shared.domain.corpus.chunks import ChunkContext
from shared.ingest.generate.quality import is_question, normalise
from shared.providers.replies.json_replies import MalformedReply, json_in, spoken

_LIST_ITEM = re.compile(r"\s*(?:[-*•]|\(?\d{1,2}[.):])\s+(.*\S)")
_NUMBER = re.compile(r"(?:q(?:uestion)?[ _-]?)?\d{1,2}", re.IGNORECASE)
# Between two questions on one line: the next one starts with a number, a capital letter or a script without case.
_BETWEEN = re.compile(r"(?<=[?\uff1f\u061f])\s*(?:[,;|]\s*)?(?=\(?\d{1,2}[.):]\s|[-*•]\s|[^\W\d_a-z])")
_ITEM_KEYS = ("question", "text", "q")
_CONTEXT, _TERMS = "context", "terms"
_BETWEEN_TERMS = re.compile(r"[,;\n]")
_LINE_CHARS, _TERM_CHARS, _MOST_TERMS = 500, 80, 20
MAX_CHARS = 1_000


def questions_in(reply: str) -> list[str]:
    """Return the questions in a model's reply, unchanged.

    A reply may contain `{"questions": [...]}`, only the list, or a list of objects, also in a code fence, within prose,
    or in several pieces such as JSON lines. Without JSON it may contain a numbered or bulleted list, or questions on
    lines.

    Raises:
        MalformedReply: there are no questions, or the JSON is broken or has another shape.
    """
    values = json_in(reply)
    questions = [storable(question) for question in (_listed(values) if values else _lines(spoken(reply)))]
    if not questions:
        raise MalformedReply("no questions in the reply")
    return questions


def context_in(reply: str) -> ChunkContext | None:
    """Return the context in a reply with questions; None if it has neither a line nor terms.

    They are a supplement, so a part of another shape is ignored, and the rest is cut to a length that can be embedded.
    """
    fields: dict[str, Any] = {}
    for value in json_in(reply):
        if isinstance(value, dict):
            fields |= {name: value[name] for name in (_CONTEXT, _TERMS) if name in value}
    context = ChunkContext(_one_line(fields.get(_CONTEXT))[:_LINE_CHARS].rstrip(), _terms(fields.get(_TERMS)))
    return context if context.line or context.terms else None


def _terms(value: Any) -> tuple[str, ...]:
    listed = _BETWEEN_TERMS.split(value) if isinstance(value, str) else value if isinstance(value, list) else []
    terms = (term for term in map(_one_line, listed) if 0 < len(term) <= _TERM_CHARS)
    return tuple({term.casefold(): term for term in terms}.values())[:_MOST_TERMS]


def _one_line(value: Any) -> str:
    return " ".join(storable(value).split()) if isinstance(value, str) else ""


def storable(text: str) -> str:
    """Return the text without NUL characters and lone surrogates, which no store accepts."""
    return text.replace("\x00", "").encode("utf-8", "ignore").decode()


def _listed(values: list[Any]) -> list[str]:
    lists = [items for items in map(_items, values) if items is not None]
    if not lists:
        raise MalformedReply("JSON of another shape")
    return list(dict.fromkeys(_item(item) for items in lists for item in items if item is not None))


def _items(value: Any) -> list[Any] | None:
    """Return the list of questions in a value; None if it has none."""
    if not isinstance(value, dict):
        return value if isinstance(value, list) else None
    value = {name: part for name, part in value.items() if name not in (_CONTEXT, _TERMS)}
    listed = value.get("questions")
    if isinstance(listed, str):
        listed = _list_in(listed)
    if isinstance(value.get("question"), str) and listed is None:
        listed = [value]
    if listed is None and value and all(_NUMBER.fullmatch(name) for name in value):
        listed = value
    if listed is None:
        lists = [v for v in value.values() if isinstance(v, list)]
        listed = lists[0] if len(lists) == 1 else None
    if isinstance(listed, dict):
        listed = list(listed.values())
    return listed if isinstance(listed, list) else None


def _list_in(text: str) -> list[Any] | None:
    """Return the list in a text that is JSON."""
    try:
        value = json.loads(text, strict=False)
    except (json.JSONDecodeError, RecursionError):
        return None
    return value if isinstance(value, list) else None


def _item(item: Any) -> str:
    if isinstance(item, dict):
        item = next((item[key] for key in _ITEM_KEYS if key in item), None)
    if not isinstance(item, str):
        raise MalformedReply("a question that is not a string")
    return item[:MAX_CHARS]


def _lines(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("```")]
    lines = [part for line in lines for part in _questions_of(line)]
    items = [match[1] for line in lines if (match := _LIST_ITEM.fullmatch(line))]
    return [line[:MAX_CHARS] for line in items or lines if is_question(normalise(line))]


def _questions_of(line: str) -> list[str]:
    """Return the questions on a line; the line itself unless every part of it is a question."""
    parts = [part for part in _BETWEEN.split(line) if part.strip()]
    return parts if all(is_question(normalise(part)) for part in parts) else [line]
