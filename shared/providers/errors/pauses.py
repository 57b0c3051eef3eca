"""The pause that a provider requests before the next call, wherever its answer names it.

An answer may name several pauses. Its headers for this purpose count first, then a field of its body, then its words,
and at last the time until its most used limit is refilled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from shared.domain.retry import MOST_REQUESTED
from shared.domain.retry_after import date_of, retry_after
from shared.providers.errors.error_bodies import error_of

_DEPTH = 5
_TOO_MANY = 429
_FIRST_TIME = 1e9  # a larger number is a time in seconds since 1970, and one a thousand times larger in milliseconds
_THOUSAND = 1000
# Fields of bodies, and the milliseconds of their units; Gemini's `retryDelay` is a text with a unit.
_FIELDS = {
    "retry_after_ms": 1,
    "retry_after": 1000,
    "retry_after_seconds": 1000,
    "retryAfter": 1000,
    "retryDelay": 1000,
    "estimated_time": 1000,  # until Hugging Face has loaded the model
}
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER = r"\d{1,7}(?:\.\d{1,9})?"
_UNIT = (
    r"(?:(?P<ms>ms|milli(?:second)?s?)|(?P<d>d(?:ays?)?)|(?P<h>h(?:ours?|rs?)?)|(?P<m>m(?:in(?:ute)?s?)?)"
    r"|(?P<s>s(?:ec(?:ond)?s?)?))(?![a-z])"
)
_PART = re.compile(rf"({_NUMBER})\s?{_UNIT}", re.IGNORECASE)
# "Please try again in 2m30s" (OpenAI, Groq), "Please retry after 20 seconds" (Azure), "Please retry in 27.5s" (Gemini)
_REQUEST = re.compile(
    rf"\b(?:try(?: it)? again|retry(?:ing)?|wait)(?: in| after| for)?(?: about| at least)? "
    rf"((?:{_NUMBER}\s?[a-z]{{1,12}}[\s,]{{0,2}}(?:and\s)?){{1,4}})",
    re.IGNORECASE,
)


def pause_in(headers: Mapping[str, str], body: Any, words: str, status: int | None) -> timedelta | None:
    """Return the pause that an answer requests.

    Args:
        headers: header fields of the answer.
        body: the error in its JSON.
        words: its words, without quotations of the request, because another tenant's text must not pause the calls.
        status: status of the answer; a limit is the reason only for 429.

    Returns:
        At most an hour; None if the answer requests no pause that can be read.
    """
    found = retry_after(headers)
    if found is None:
        found = _in_body(body)
    if found is None:
        found = _in_words(words)
    if found is None and status == _TOO_MANY:
        found = _until_refilled(headers, body)
    return None if found is None else min(found, MOST_REQUESTED)


def _in_body(body: Any) -> timedelta | None:
    """Return the longest pause of the fields of an error, because it may describe several limits."""
    return max(_fields(body, 0), default=None)


def _fields(value: Any, depth: int) -> Iterator[timedelta]:
    if depth > _DEPTH:
        return
    if isinstance(value, list):
        for inner in value:
            yield from _fields(inner, depth + 1)
    elif isinstance(value, Mapping):
        for name, unit in _FIELDS.items():
            if (pause := _of_field(value.get(name), unit)) is not None:
                yield pause
        for inner in value.values():
            yield from _fields(inner, depth + 1)


def _of_field(value: Any, milliseconds: int) -> timedelta | None:
    if isinstance(value, str) and (span := _span(value)) is not None:
        return span
    number = _number(value)
    return None if number is None else timedelta(milliseconds=number * milliseconds)


def _in_words(words: str) -> timedelta | None:
    spans = [span for found in _REQUEST.finditer(words) if (span := _sum(found[1])) is not None]
    return max(spans, default=None)


def _until_refilled(headers: Mapping[str, str], body: Any) -> timedelta | None:
    """Return the time until the most used limit is refilled, as `x-ratelimit-*` describes the limits.

    OpenRouter repeats the headers of the called provider in the body.
    """
    error = error_of(body)
    metadata = error.get("metadata") if isinstance(error, Mapping) else None
    inner = metadata.get("headers") if isinstance(metadata, Mapping) else None
    fields = _lower(inner) | _lower(headers)
    resets: list[tuple[float, timedelta]] = []
    for name in ("-requests", "-tokens", ""):
        reset = _reset(fields.get(f"x-ratelimit-reset{name}"), fields.get("date"))
        if reset is not None:
            left, most = (_number(fields.get(f"x-ratelimit-{kind}{name}")) for kind in ("remaining", "limit"))
            resets.append((left / most if left is not None and most else 1.0, reset))
    return min(resets)[1] if resets else None


def _reset(value: str | None, date: str | None) -> timedelta | None:
    """Return the time until a limit is refilled: a text with units, a number of seconds, or a time since 1970."""
    if value is None or (span := _span(value)) is not None:
        return span if value else None
    number = _number(value, most=_FIRST_TIME * 10 * _THOUSAND)
    if number is None or number < _FIRST_TIME:
        return None if number is None else timedelta(seconds=number)
    sent = date_of(date)
    seconds = number if number < _FIRST_TIME * _THOUSAND else number / _THOUSAND
    return None if sent is None else max(timedelta(seconds=seconds - sent.timestamp()), timedelta())


def _span(text: str) -> timedelta | None:
    """Return the time of a text that consists of numbers with units, such as `6m0s`; None for another text."""
    return _sum(text) if text and not _PART.sub("", text).strip(" ,") else None


def _sum(text: str) -> timedelta | None:
    parts = [(float(part[1]), _UNITS[str(part.lastgroup)]) for part in _PART.finditer(text)]
    return timedelta(milliseconds=sum(number * unit for number, unit in parts)) if parts else None


def _lower(fields: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in fields.items()} if isinstance(fields, Mapping) else {}


def _number(value: object, most: float = 1e7) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value or "nan")
    except (ValueError, OverflowError):  # an integer may have any number of digits
        return None
    return number if 0 <= number < most else None  # also refuses inf and nan
