"""Automatic numbers of paragraphs, as Word shows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from shared.ingest.parse.readers.numerals import numeral
from shared.ingest.parse.readers.word.names import MC, W, child, is_on, number, value
from shared.ingest.parse.readers.word.styles import WordStyles
from shared.ingest.parse.readers.xml_tree import Element

LEVELS = 9
BULLET = "-"
"""The label of an item without a number."""

_PLACE = re.compile(r"%([1-9])")
_NONE = "\u200b"
_WORD = re.compile(r"\w\w")
_MOST_LINKS = 5


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a list.

    Args:
        form: format of its number.
        text: text of the label, with `%1` for the number of the first level.
        start: first number.
        restart: number of the level whose items restart this one; 0 for never; None for every higher level.
        legal: whether the numbers of all levels are shown as digits.
        style: style of paragraphs that are on this level.
    """

    form: str = "decimal"
    text: str = ""
    start: int = 1
    restart: int | None = None
    legal: bool = False
    style: str | None = None


@dataclass(slots=True)
class _Definition:
    """An abstract list; lists that are based on it count together."""

    levels: dict[int, Level]
    counts: list[int | None] = field(default_factory=lambda: [None] * LEVELS)


@dataclass(slots=True)
class _NumberedList:
    definition: _Definition
    levels: dict[int, Level]
    restarts: list[int]


class Numbering:
    """The lists of a file, and the numbers that they have reached.

    Args:
        root: returns the root of the part with the lists, if there is one.
        styles: the styles, which may define lists.
    """

    def __init__(self, root: Callable[[], Element | None], styles: WordStyles) -> None:
        self._styles = styles
        self._root = root
        self._definitions: dict[str, _Definition] = {}
        self._lists: dict[str, _NumberedList | None] = {}

    @cached_property
    def _abstract(self) -> Mapping[str, Element]:
        return self._by_id("abstractNum", "abstractNumId")

    @cached_property
    def _elements(self) -> Mapping[str, Element]:
        return self._by_id("num", "numId")

    def _by_id(self, name: str, attribute: str) -> dict[str, Element]:
        root, found = self._root(), dict[str, Element]()
        for element in () if root is None else root.iterchildren(W + name):
            found.setdefault(element.get(W + attribute) or "", element)
        return found

    def level_of(self, list_id: str, style: str | None) -> int | None:
        """Return the level of a list that belongs to a style."""
        found = self._list(list_id)
        if found is None or style is None:
            return None
        return next((at for at, level in found.levels.items() if level.style == style), None)

    def label(self, list_id: str, at: int) -> str | None:
        """Count an item, and return its number; `BULLET` for one without; None if it shows none or has no list."""
        found = self._list(list_id)
        if found is None:
            return None
        at = min(max(at, 0), LEVELS - 1)
        _count(found, at)
        level = found.levels.get(at, Level())
        if level.form == "bullet":
            return level.text.strip() if _WORD.search(level.text) else BULLET
        return _shown(found, level).replace(_NONE, "").strip() or None

    def _list(self, list_id: str) -> _NumberedList | None:
        if list_id not in self._lists:
            self._lists[list_id] = self._read(list_id)
        return self._lists[list_id]

    def _read(self, list_id: str) -> _NumberedList | None:
        element = self._elements.get(list_id)
        definition = self._definition(value(element, "abstractNumId"))
        if element is None or definition is None:
            return None
        levels, restarts = dict(definition.levels), list[int]()
        for override in element.iterchildren(W + "lvlOverride"):
            at = number(override.get(W + "ilvl")) or 0
            replaced = child(override, "lvl")
            level = levels.get(at, Level()) if replaced is None else _level(replaced)
            start = number(value(override, "startOverride"))
            if start is not None:
                level = Level(level.form, level.text, start, level.restart, level.legal, level.style)
                restarts.append(at)
            levels[at] = level
        return _NumberedList(definition, levels, [at for at in restarts if 0 <= at < LEVELS])

    def _definition(self, identifier: str | None) -> _Definition | None:
        for _ in range(_MOST_LINKS):
            element = self._abstract.get(identifier or "")
            linked = value(element, "numStyleLink")
            if element is None or linked is None:
                break
            target = self._elements.get(self._styles.list_of(linked) or "")
            identifier = value(target, "abstractNumId")
        if element is None or identifier is None:
            return None
        if identifier not in self._definitions:
            levels = ((number(one.get(W + "ilvl")) or 0, _level(one)) for one in element.iterchildren(W + "lvl"))
            self._definitions[identifier] = _Definition(dict(levels))
        return self._definitions[identifier]


def _level(element: Element) -> Level:
    start = number(value(element, "start"))
    return Level(
        form=_form(element),
        text=value(element, "lvlText") or "",
        start=0 if start is None else start,
        restart=number(value(element, "lvlRestart")),
        legal=is_on(element, "isLgl"),
        style=value(element, "pStyle"),
    )


def _form(element: Element) -> str:
    """Return the format of a level; a format that Word 2007 does not know is in an alternative content."""
    found = element.find(f"{MC}AlternateContent/{MC}Choice/{W}numFmt")
    if found is None:
        return value(element, "numFmt") or "decimal"
    pattern = found.get(W + "format") or ""
    return f"zeros {pattern.partition(',')[0].strip()}" if pattern.startswith("0") else "decimal"


def _count(found: _NumberedList, at: int) -> None:
    counts = found.definition.counts
    for restarted in found.restarts:
        counts[restarted] = None
    found.restarts.clear()
    before = counts[at]
    counts[at] = found.levels.get(at, Level()).start if before is None else before + 1
    for deeper in range(at + 1, LEVELS):
        restart = found.levels.get(deeper, Level()).restart
        if restart is None or at < restart:
            counts[deeper] = None


def _shown(found: _NumberedList, level: Level) -> str:
    def number_at(place: re.Match[str]) -> str:
        at = int(place[1]) - 1
        other = found.levels.get(at, Level())
        count = found.definition.counts[at]
        count = other.start if count is None else count
        if other.form == "bullet":
            return ""
        if level.legal and other.form not in ("decimal", "decimalZero"):
            return str(count)
        if other.form.startswith("zeros "):
            return str(count).zfill(len(other.form) - len("zeros "))
        return numeral(count, other.form)

    return _PLACE.sub(number_at, level.text)
