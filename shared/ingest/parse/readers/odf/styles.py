"""Styles of OpenDocument files, as far as they are text: numbers of lists and headings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shared.ingest.parse.readers.numerals import numeral
from shared.ingest.parse.readers.office.drawingml import number_of
from shared.ingest.parse.readers.xml_tree import Element, local_name

LEVELS = 10
_MOST_PARENTS = 20


@dataclass(frozen=True, slots=True)
class _Level:
    """The number of a level, such as `(a)`; `form` is empty if it has none, and a bullet is `-`."""

    form: str
    prefix: str = ""
    suffix: str = ""
    shown_levels: int = 1
    start: int = 1


@dataclass(frozen=True, slots=True)
class ListStyle:
    """The numbers of a list's levels."""

    levels: Mapping[int, _Level] = field(default_factory=dict)

    def start(self, level: int) -> int:
        """Return the first number of a level, from 1."""
        return self.levels[level].start if level in self.levels else 1

    def label(self, numbers: list[int], level: int) -> str:
        """Return the label of an item, a dash for a bullet, empty if it has none.

        Args:
            numbers: numbers of the levels 1 to `level`, at their index; the first element is unused.
            level: its level, from 1.
        """
        style = self.levels.get(level)
        if style is None or style.form in ("", "-"):
            return "-" if style is None else style.form
        first = max(1, level - style.shown_levels + 1)
        shown = [numeral(numbers[at], self.levels[at].form) for at in range(first, level + 1) if self._is_number(at)]
        return f"{style.prefix.strip()}{'.'.join(shown)}{style.suffix.strip()}"

    def _is_number(self, level: int) -> bool:
        return level in self.levels and self.levels[level].form not in ("", "-")


_BULLETS = ListStyle()


class OdfStyles:
    """The styles of a document.

    Args:
        roots: elements of the file that contain styles; later ones replace earlier ones of the same name.
    """

    def __init__(self, *roots: Element | None) -> None:
        self._lists: dict[str, ListStyle] = {}
        self._paragraphs: dict[str, tuple[str, str | None]] = {}
        self._known: dict[str, tuple[str | None, bool]] = {}
        self.outline = ListStyle()
        for root in roots:
            for style in () if root is None else root.iter("{*}list-style", "{*}outline-style", "{*}style"):
                self._add(style)

    def list_style(self, name: str) -> ListStyle:
        """Return a style of lists; one with bullets if there is none of this name."""
        return self._lists.get(name, _BULLETS)

    def of_paragraph(self, name: str) -> str | None:
        """Return the name of the list style that a paragraph's style states; None if it states none."""
        return self._resolved(name)[0]

    def is_title(self, name: str) -> bool:
        """Return whether a paragraph's style is the one of titles, or derived from it."""
        return self._resolved(name)[1]

    def _resolved(self, name: str) -> tuple[str | None, bool]:
        if name not in self._known:
            ancestors = list(self._ancestors(name))
            stated = next((stated for _, stated in ancestors if stated is not None), None)
            self._known[name] = stated, any(known == "Title" for known, _ in ancestors)
        return self._known[name]

    def _ancestors(self, name: str) -> Iterator[tuple[str, str | None]]:
        for _ in range(_MOST_PARENTS):
            parent, stated = self._paragraphs.get(name, ("", None))
            yield name, stated
            if not parent:
                return
            name = parent

    def _add(self, style: Element) -> None:
        name, kind = attribute(style, "name") or "", local_name(style)
        if kind == "style":
            if attribute(style, "family") == "paragraph":
                parent = attribute(style, "parent-style-name") or ""
                self._paragraphs[name] = (parent, attribute(style, "list-style-name"))
            return
        levels = {number_of(attribute(level, "level"), 1): _level(level) for level in style}
        if kind == "outline-style":
            self.outline = ListStyle(levels)
        else:
            self._lists[name] = ListStyle(levels)


def _level(element: Element) -> _Level:
    if "bullet" in local_name(element) or "image" in local_name(element):
        return _Level("-")
    return _Level(
        attribute(element, "num-format") or "",
        attribute(element, "num-prefix") or "",
        attribute(element, "num-suffix") or "",
        number_of(attribute(element, "display-levels"), 1),
        number_of(attribute(element, "start-value"), 1),
    )


def attribute(element: Element, name: str) -> str | None:
    """Return an attribute by its name without a namespace."""
    for key, value in element.items():
        if key.endswith(name) and key[: -len(name)][-1:] in ("", "}"):
            return str(value)
    return None


class Counter:
    """The numbers of a list, or of the headings.

    Args:
        style: its style.
    """

    def __init__(self, style: ListStyle) -> None:
        self.style = style
        self._numbers = [0] * (LEVELS + 1)

    def next(self, level: int, start: str | None = None) -> str:
        """Return the label of the next item of a level.

        Args:
            level: its level, from 1.
            start: its number, if the item states one.
        """
        level = min(max(level, 1), LEVELS)
        for above in range(1, level):
            self._numbers[above] = self._numbers[above] or self.style.start(above)
        known = self._numbers[level]
        self._numbers[level] = number_of(start, known + 1 if known else self.style.start(level))
        self._numbers[level + 1 :] = [0] * (LEVELS - level)
        return self.style.label(self._numbers, level)
