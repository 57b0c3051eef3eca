"""Kinds of the spans of a passage that no mark of Markdown shows: code without a fence, and headings without a sign."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from shared.domain.text.sentences import LineKind, Sentence, has_final_mark

# Prompts of Python, IPython and shells. A dollar sign before a number is a price.
_PROMPT = re.compile(
    r"\s*(?:>>>(?:\s|$)|(?:In|Out) ?\[\d+\]:|(?:[\w.-]++@[\w.-]++[^\s$#]*+)?\$ [A-Za-z./~]"
    r"|PS [A-Za-z]:\\|[A-Za-z]:\\[^\s>]*>)"
)
# Statements of programs without a prompt or a fence.
_STATEMENT = re.compile(
    r"\s*(?:import [\w.]+$|from [\w.]+ import \w|(?:def|class) \w+[(:]|(?:const|let|var) \w+ ?=|#include [<\"]"
    r"|(?:export )?[A-Z][A-Z0-9_]+=|[A-Za-z_][\w.]* ?(?:=|:=) ?\S+\(|[A-Za-z_]\w*(?:\.\w+)*\(.*\);?$)",
    re.MULTILINE,
)
_INDENT = re.compile(r"(?: {4}|\t)\s*")
_UNDERLINE = re.compile(r"[ \t]*\n {0,3}(?:=+|-+)[ \t]*(?:\n|\Z)")
_EMPHASISED = re.compile(r"(\*\*|__)(?!\s)(?:(?!\1).)+\1", re.DOTALL)
_MARKUP = re.compile(r"[*_`#|:.\s]+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
# A sentence that sends the reader elsewhere, in the languages of the page.
_POINTER = re.compile(
    r"[*_(\s]*(?:see|siehe|(?:for )?(?:more|further) (?:about|details|information)|mehr (?:dazu|über))\b"
    r"|.*\b(?:th(?:is|e following) page|diese[rs]? seite)\b"
    r"|[*_(\s]*(?:this|the following) (?:section|chapter|article|guide)\b"
    r"|[*_(\s]*(?:diese[rs]?|der folgende) (?:abschnitt|kapitel|artikel)\b"
    r"|.*\bthe (?:page|section|chapter|article|guide) (?:about|on|above|below)\b"
    r"|.*(?:\u672c\u9875|\u53c2\u89c1|\u53c2\u9605)",
    re.IGNORECASE | re.DOTALL,
)
_LINK = re.compile(r"\[[^\[\]]*\]\([^()\s]*\)")
_WORD = re.compile(r"\w{2,}")
_FEWEST_WORDS = 2  # in addition to links: "More: [how it works](...)" only refers


def kinds_of(text: str, spans: Sequence[Sentence], headings: set[str]) -> list[LineKind]:
    """Return the kind of each span; an indented block without a final mark at its end is code."""
    kinds: list[LineKind] = []
    for block in _blocks(text, spans):
        start = text.rfind("\n", 0, block[0].start) + 1
        is_indented = block[0].kind == "prose" and _INDENT.fullmatch(text, start, block[0].start) is not None
        last = text[block[-1].start : block[-1].end]
        is_code = is_indented and (not has_final_mark(last) or last.endswith("\u2026"))  # a value that is left out
        kinds += ("code" if is_code else _kind(text, span, headings) for span in block)
    return kinds


def _kind(text: str, span: Sentence, headings: set[str]) -> LineKind:
    if span.kind not in ("prose", "item"):
        return span.kind
    if _is_code(text, span):
        return "code"
    return "heading" if _is_heading(text, span, headings) else span.kind


def _blocks(text: str, spans: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """Yield the spans between blank lines."""
    block: list[Sentence] = []
    for span in spans:
        if block and _BLANK_LINE.search(text, block[-1].end, span.start):
            yield block
            block = []
        block.append(span)
    if block:
        yield block


def is_pointer(text: str) -> bool:
    """Return whether a sentence only refers to another text, or speaks about the page that contains it."""
    return _POINTER.match(text) is not None or (
        "](" in text and len(_WORD.findall(_LINK.sub("", text))) < _FEWEST_WORDS
    )


def _is_code(text: str, span: Sentence) -> bool:
    """Return whether a line of the span has a prompt, or the span is a statement of a program."""
    line_start = text.rfind("\n", 0, span.start) + 1  # a prompt of three angle brackets looks like a quotation
    lines = text[line_start : span.end].splitlines()
    if any(map(_PROMPT.match, lines)):
        return True
    words = text[span.start : span.end]
    return _STATEMENT.match(words) is not None and not has_final_mark(words)


def _is_heading(text: str, span: Sentence, headings: set[str]) -> bool:
    """Return whether the span is underlined, emphasised without a final mark, or a heading that is listed."""
    words = text[span.start : span.end]
    if _UNDERLINE.match(text, span.end) or plain(words) in headings:
        return True
    starts_line = span.start == text.rfind("\n", 0, span.start) + 1
    ends_line = not text[span.end :].partition("\n")[0].strip()
    return starts_line and ends_line and _EMPHASISED.fullmatch(words) is not None and not has_final_mark(words)


def plain(text: str) -> str:
    return _MARKUP.sub(" ", text).strip().casefold()
