"""Parts of passages that can be quoted: sentences, list items with their introduction, table rows with their header.

Headings, code, sentences that only introduce or point to something else, and the headers of tables are not quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest

from shared.domain.text.sentences import MAX_CHARS, LineKind, Sentence, has_final_mark, sentences
from shared.query.answer.answer import Passage, Support
from shared.query.answer.links import without_links
from shared.query.answer.spans import is_pointer, kinds_of, plain

_PASSAGES = 8
_SPANS = 128  # of a passage; a chunk of the usual size has up to 60
_CITATION_LIKE = re.compile(r"\s*\[\d{1,3}\]")
_CHECKBOX = re.compile(r"\[[ xX]\]\s+")
_QUOTED_LINE = re.compile(r"\n\s*(?:>\s?)+")
_MARKER = re.compile(r"(?P<indent>\s*)(?:[-*+•]|\d{1,3}[.)])\s+")
_CONTENT = re.compile(r"\w{2}")
_QUESTION = re.compile(r"[?\uff1f\u061f\u037e\u1367][\"'\u201d\u2019\u00bb)\]*_\u300d\u300f\uff09]*$")
_COLON = re.compile(r"[:\uff1a][*_\s]*$")
_CELL_END = re.compile(r"(?<!\\)\|")
_ADJACENT = re.compile(r"[ \t]*\n(?:(?=[^\n]*-)[|:\- \t]+\n)?[ \t]*")
_RULE = re.compile(r"[ \t]*\n[ \t]*(?=[^\n]*-)[|:\- \t]+(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence, a list item or a row of a passage.

    Args:
        text: the quote in one line: an item follows the sentence that introduces its list, and a row has its header's
            labels. Links are their text, and marks that look like citations are left out.
        support: position of the sentence, the item or the row in its passage.
        introduction: position of the sentence that introduces the item, if there is one.
        heading: the nearest heading above it, or the title; empty if there is none.
        is_complete: whether it ends like a sentence, or has an introduction or a header; a line without a final mark
            does not.
        is_question: whether it is a question, so that the sentence after it may be the answer.
    """

    text: str
    support: Support
    introduction: Support | None = None
    heading: str = ""
    is_complete: bool = True
    is_question: bool = False

    @property
    def number(self) -> int:
        """The number of its passage."""
        return self.support.number

    @property
    def supports(self) -> tuple[Support, ...]:
        return (self.support,) if self.introduction is None else (self.introduction, self.support)


def candidates(passages: Sequence[Passage]) -> list[Quote]:
    """Return the parts of the first passages that can be quoted, the best passages first, each once."""
    quotes: dict[str, Quote] = {}
    for passage in passages[:_PASSAGES]:
        for quote in _PassageReader(passage).quotes():
            quotes.setdefault(quote.text, quote)
    return list(quotes.values())


@dataclass(slots=True)
class _PassageReader:
    """Reads the spans of a passage in order.

    Args:
        heading: the last heading.
        header: labels of the table that is being read; empty if it has none.
        row_end: end of the last row.
        introductions: sentences that introduce the lists around a span, outermost first, each with the indentation of
            its line; -1: prose.
    """

    passage: Passage
    heading: str = ""
    header: Sequence[str] = ()
    row_end: int = 0
    introductions: list[tuple[int, Sentence]] = field(default_factory=list)

    def quotes(self) -> Iterator[Quote]:
        parts = [part for part in (self.passage.title, *self.passage.heading_path) if part]
        self.heading = parts[-1] if parts else ""
        headings = set(map(plain, parts))
        spans = list(islice(sentences(self.passage.text), _SPANS))
        kinds = kinds_of(self.passage.text, spans, headings)
        for index, (span, kind) in enumerate(zip(spans, kinds, strict=True)):
            if kind in ("prose", "item"):
                before = kinds[index - 1] if index else None
                after = kinds[index + 1] if index + 1 < len(kinds) else None
                yield from self._sentence(span, kind, before, after)
                continue
            self.introductions.clear()
            if kind == "row":
                yield from self._row(span)
            elif kind == "heading":
                self.heading = _line(self.passage.text[span.start : span.end])

    def _row(self, span: Sentence) -> Iterator[Quote]:
        text = self.passage.text
        cells = _cells(text[span.start : span.end])
        if not _ADJACENT.fullmatch(text, self.row_end, span.start):
            self.header = ()
        self.row_end = span.end
        if _RULE.match(text, span.end):
            self.header = cells
            return
        pairs = [f"{label}: {cell}" if label else cell for label, cell in zip_longest(self.header, cells) if cell]
        labelled = "; ".join(pairs)
        if self.header and len(labelled) <= MAX_CHARS and _is_line(text, span):
            yield from self._quote(labelled, span)
        else:
            yield from self._quote(" | ".join(filter(None, cells)), span, is_complete=False)

    def _sentence(
        self, span: Sentence, kind: LineKind, before: LineKind | None, after: LineKind | None
    ) -> Iterator[Quote]:
        box = _CHECKBOX.match(self.passage.text, span.start, span.end)
        span = replace(span, start=box.end()) if box else span
        source = self.passage.text[span.start : span.end]
        text = _line(source)
        indent, introduction = self._place(span, kind)
        is_complete = has_final_mark(text)
        if _COLON.search(text) or (not is_complete and kind == "prose" and after == "item"):
            self.introductions.append((indent, span))
        elif is_pointer(source) or (not is_complete and after == "code"):
            return
        elif introduction and (whole := self._introduced(introduction, text)):
            yield from self._quote(whole, span, introduction)
        else:
            continues = before == "code" and text[:1].islower()
            yield from self._quote(text, span, is_complete=is_complete and not continues)

    def _introduced(self, introduction: Sentence, item: str) -> str:
        """Return an item after the sentence that introduces its list; empty if both are too long."""
        words = _line(self.passage.text[introduction.start : introduction.end])
        colon = "" if _COLON.search(words) else ":"
        whole = f"{words}{colon} {item.rstrip(',;')}"
        return whole if len(whole) <= MAX_CHARS else ""

    def _place(self, span: Sentence, kind: LineKind) -> tuple[int, Sentence | None]:
        """Close the lists that end before a span; return the indentation of its line and its introduction, if any."""
        text = self.passage.text
        line_start = text.rfind("\n", 0, span.start) + 1
        marker = _MARKER.fullmatch(text, line_start, span.start) if kind == "item" else None
        if marker is None:
            if kind == "prose":
                self.introductions.clear()
            return -1, None
        indent = len(marker["indent"])
        while self.introductions and self.introductions[-1][0] >= indent:
            self.introductions.pop()
        return indent, self.introductions[-1][1] if self.introductions else None

    def _quote(
        self, text: str, span: Sentence, introduction: Sentence | None = None, *, is_complete: bool = True
    ) -> Iterator[Quote]:
        if _CONTENT.search(text):
            yield Quote(
                text,
                _support(self.passage, span),
                _support(self.passage, introduction) if introduction else None,
                self.heading,
                is_complete,
                _QUESTION.search(text) is not None,
            )


def _support(passage: Passage, span: Sentence) -> Support:
    return Support(passage.number, span.start, span.end)


def _line(text: str) -> str:
    """Return a text in one line, with links as their text and without marks that look like citations."""
    line = " ".join(_QUOTED_LINE.sub(" ", text).split())
    return _CITATION_LIKE.sub("", without_links(line)).strip()


def _is_line(text: str, span: Sentence) -> bool:
    """Return whether a span is a complete line, and not a piece of a long one."""
    before = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    after = text[span.end : span.end + MAX_CHARS].partition("\n")[0]
    return not (before + after).strip()


def _cells(row: str) -> list[str]:
    inner = row.strip().removeprefix("|").removesuffix("|")
    return [_line(cell.replace("\\|", "|")) for cell in _CELL_END.split(inner)]
