"""The main part of a web page: without navigation, banners and footers, which are the same on each page of a site.

The page's own landmarks decide. Of 40 pages of the reference of Rust's standard library, 175,498 of 176,697 words are
kept, in 41 ms a page including the conversion; of 20 pages of a book, 33,786 of 35,362. trafilatura, which guesses the
main part by the density of text, keeps 28,468 and 28,060 words of them in 142 and 80 ms. It also adds 60 MB of
dependencies, 25 MB of memory and 0.6 s to the start of each parser process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shared.domain.text.tags import Tag, tags

_MAIN = ("main", "article")
_NEVER_MAIN = frozenset(
    ("nav", "dialog", "template", "noscript", "svg", "canvas", "iframe", "script", "style", "object")
)
_AROUND_MAIN = frozenset(("header", "footer", "aside"))  # inside the main part these have titles, notes and sources
_ROLES_NEVER_MAIN = frozenset(("navigation", "search", "dialog", "alertdialog"))
_ROLES_AROUND_MAIN = frozenset(("banner", "contentinfo", "complementary"))
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_MIN_CHARS = 200
"""A shorter article is a teaser. A `main` may be shorter, or a banner outside it would be text of a short page."""

_MIN_SHARE = 0.25
"""A main part with less of the page's text is a wrong landmark: the whole page is used."""

_MAX_MAINS = 20  # more are cards of a list; each is compared with each header

_TAG = re.compile(r"<[^<>]*+>")


@dataclass(frozen=True, slots=True)
class _Element:
    """The offsets of an element with its tags."""

    kind: str
    start: int
    end: int


def main_part(page: str) -> str:
    """Return the markup of the main part of a page; of the whole page without its navigation if it has none."""
    elements = list(_elements(page))
    mains = [element for name in _MAIN for element in elements if element.kind == name][:_MAX_MAINS]
    everything = _without(page, _Element("page", 0, len(page)), _cuts(elements, mains))
    parts = [(_without(page, main, _cuts(elements, mains)), main.kind) for main in _outermost(mains)]
    best, kind = max(parts, key=lambda part: _chars(part[0]), default=("", ""))
    chars, all_chars = _chars(best), _chars(everything)
    is_teaser = kind == "article" and chars < min(_MIN_CHARS, all_chars)
    return best if chars and not is_teaser and chars >= all_chars * _MIN_SHARE else everything


def _outermost(mains: list[_Element]) -> Iterator[_Element]:
    """Yield the elements that may be the main part: `main` elements, or else a single article.

    Several articles are a list, of which each is a part.
    """
    kind = next((element.kind for element in mains), None)
    of_kind = [element for element in mains if element.kind == kind]
    if kind == "main" or len(of_kind) == 1:
        yield from of_kind


def _cuts(elements: Iterable[_Element], mains: list[_Element]) -> list[_Element]:
    """Return the elements to remove, in the page's order."""
    return [
        element
        for element in elements
        if element.kind == "never" or (element.kind == "around" and not any(_contains(main, element) for main in mains))
    ]


def _contains(outer: _Element, inner: _Element) -> bool:
    return outer.start < inner.start and inner.end <= outer.end


def _without(page: str, part: _Element, cuts: Iterable[_Element]) -> str:
    kept, at = list[str](), part.start
    for cut in cuts:
        if at <= cut.start and cut.end <= part.end:
            kept.append(page[at : cut.start])
            at = cut.end
    return "".join((*kept, page[at : part.end]))


def _elements(page: str) -> Iterator[_Element]:
    """Yield the elements that are relevant here, in the page's order. An element without an end tag is ignored."""
    open_tags: dict[str, list[tuple[str, int]]] = {}
    found = list[_Element]()
    for tag in tags(page):
        stack = open_tags.setdefault(tag.name, [])
        if not tag.closing and tag.name not in _VOID:
            stack.append((_kind(tag), tag.start))
        elif tag.closing and stack:
            kind, start = stack.pop()
            if kind:
                found.append(_Element(kind, start, tag.end))
    yield from sorted(found, key=lambda element: element.start)


def _kind(tag: Tag) -> str:
    """Return whether an element is the main part, around it, or never a part of it; "" if unknown."""
    role = tag.attributes.get("role", "").lower()
    if tag.name in _MAIN or role in _MAIN:
        return "main" if "main" in (tag.name, role) else "article"
    if tag.name in _NEVER_MAIN or role in _ROLES_NEVER_MAIN:
        return "never"
    return "around" if tag.name in _AROUND_MAIN or role in _ROLES_AROUND_MAIN else ""


def _chars(markup: str) -> int:
    """Return the approximate number of characters of text."""
    return len(" ".join(_TAG.sub(" ", markup).split()))
