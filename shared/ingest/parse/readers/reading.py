"""The result of a reader: the parts of a file, each with an independent count of its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A page, sheet, slide or message of a file; the whole file if its format has none of these.

    Args:
        markdown: its text. Markup characters of the text itself are escaped.
        plain: a second reading of the same part without markup, as independent of the first one and as cheap as
            possible: the loss guard compares their words. None if there is none.
        location: its name for people, such as `page 3` or `sheet "Prices"`; empty for the whole file.
        number: number of the page or slide, from 1; None if the format has none.
        illegible: words that the file has, but whose characters it does not map to letters. They count as lost.
        continues: whether its first row continues the table at the end of the part before it.
    """

    markdown: str
    plain: str | None = None
    location: str = ""
    number: int | None = None
    illegible: tuple[str, ...] = ()
    continues: bool = False


@dataclass(frozen=True, slots=True)
class FileReading:
    """The text of a file.

    Args:
        parts: its parts, in the order of reading.
        title: title that the file states; None if it states none.
        unread: sentences that name contents of the file that were not read, such as an encrypted attachment, each with
            the reason. A document with such a sentence is degraded.
        apart: whether a chunk never contains two parts: slides, messages.
    """

    parts: tuple[Part, ...]
    title: str | None = None
    unread: tuple[str, ...] = ()
    apart: bool = False


Reader = Callable[[bytes], FileReading]
"""Reads a file of one format. It raises `Unreadable` with a sentence that says what to do."""
