"""Patterns that select the entries of a source by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BeforeValidator


def _split(value: Any) -> Any:
    """Return the parts of a list that was written as one text, such as `*.md,*.txt`."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A list, or the same as a text with commas, because an option of a command is a text."""


def selected(key: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    """Return whether a key is selected by patterns with the syntax of a shell.

    A pattern is compared with the key and with the part after its last `/`; `*` also matches `/`.

    Args:
        key: the key of an entry.
        include: patterns; if there are any, the key must match at least one.
        exclude: patterns; the key must not match any.
    """
    return (not include or _matches(key, include)) and not _matches(key, exclude)


def _matches(key: str, patterns: Sequence[str]) -> bool:
    name = key.rpartition("/")[2]
    return any(fnmatchcase(key, pattern) or fnmatchcase(name, pattern) for pattern in patterns)
