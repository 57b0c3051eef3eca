"""Readers that the value of a column, or a rule, names, in the form of `shared.domain.access.persons`."""

from __future__ import annotations

import orjson

from shared.domain.access.persons import readers_of
from shared.domain.errors import InvalidInput

MOST_BYTES = 32 * 1024
"""Size of the readers of a row, as JSON: a thousand rows are in memory."""


def readers_in(value: object) -> tuple[str, ...]:
    """Return the readers that a value names.

    Args:
        value: a list of texts, a text with commas, or a text with a JSON array. Empty or None: no person.

    Raises:
        InvalidInput: it is something else, or a reader is malformed; the message is a sentence.
    """
    if isinstance(value, str):
        value = _names_of(value.strip())
    names = [] if value is None else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidInput("Readers are a list of texts, or a text with commas.", field="readable_by")
    readers = readers_of(names)
    if len(orjson.dumps(readers)) > MOST_BYTES:
        raise oversized()
    return readers


def oversized() -> InvalidInput:
    return InvalidInput(f"The readers have more than {MOST_BYTES:,} bytes: name groups.", field="readable_by")


def _names_of(text: str) -> object:
    if not text.startswith("["):
        return [name.strip() for name in text.split(",") if name.strip()]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"The array is not JSON: {error.msg}.", field="readable_by") from None
