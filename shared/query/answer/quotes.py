"""Sentences of passages that can be quoted as an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from shared.domain.text.sentences import Sentence, has_final_mark, sentences
from shared.query.answer.answer import Passage, Support

MAX_SENTENCES = 96

_PASSAGES = 8
_CITATION_LIKE = re.compile(r"\s*\[\d{1,3}\]")
_CHECKBOX = re.compile(r"\[[ xX]\]\s+")
_QUOTED_LINE = re.compile(r"\n\s*(?:>\s?)+")
_CONTENT = re.compile(r"\w{2}")
# Prompts of Python, IPython and shells. A dollar sign before a number is a price.
_PROMPT = re.compile(
    r"\s*(?:>>>(?:\s|$)|(?:In|Out) ?\[\d+\]:|(?:[\w.-]++@[\w.-]++[^\s$#]*+)?\$ [A-Za-z./~]"
    r"|PS [A-Za-z]:\\|[A-Za-z]:\\[^\s>]*>)"
)
# Statements of programs without a prompt or a fence.
_STATEMENT = re.compile(
    r"\s*(?:import [\w.]+$|from [\w.]+ import \w|(?:def|class) \w+[(:]|(?:const|let|var) \w+ ?=|#include [<\"]"
    r"|[A-Za-z_][\w.]* ?(?:=|:=) ?\S+\(|[A-Za-z_]\w*(?:\.\w+)*\(.*\);?$)",
    re.MULTILINE,
)
_UNDERLINE = re.compile(r"[ \t]*\n {0,3}(?:=+|-+)[ \t]*(?:\n|\Z)")
_EMPHASISED = re.compile(r"(\*\*|__)(?!\s)(?:(?!\1).)+\1", re.DOTALL)
_QUESTION = re.compile(r"[?\uff1f\u061f\u037e\u1367][\"'\u201d\u2019\u00bb)\]*_\u300d\u300f\uff09]*$")
_MARKUP = re.compile(r"[*_`#|:.\s]+")


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of a passage.

    Args:
        text: sentence in one line, without marks that look like citations.
        support: position of the sentence in its passage.
        is_complete: whether it ends like a sentence; a row of a table, and a line without a final mark, do not.
        is_question: whether it is a question, so that the sentence after it may be the answer.
    """

    text: str
    support: Support
    is_complete: bool = True
    is_question: bool = False

    @property
    def number(self) -> int:
        """The number of its passage."""
        return self.support.number


def candidates(passages: Sequence[Passage]) -> list[Quote]:
    """Return the sentences of the first passages, the best passages first, each once."""
    quotes: dict[str, Quote] = {}
    share = MAX_SENTENCES // max(1, min(len(passages), _PASSAGES))
    for passage in passages[:_PASSAGES]:
        for span in islice(_quotable(passage), share):
            box = _CHECKBOX.match(passage.text, span.start, span.end)
            start = box.end() if box else span.start
            lines = _QUOTED_LINE.sub(" ", passage.text[start : span.end])
            text = _CITATION_LIKE.sub("", " ".join(lines.split()))
            if span.kind == "row":
                text = text.strip("| ")
            if _CONTENT.search(text):
                support = Support(passage.number, start, span.end)
                is_complete = span.kind != "row" and has_final_mark(text)
                quotes.setdefault(text, Quote(text, support, is_complete, _QUESTION.search(text) is not None))
    return list(quotes.values())


def _quotable(passage: Passage) -> Iterator[Sentence]:
    """Yield the sentences of a passage that are neither headings nor code."""
    headings = {_plain(heading) for heading in (*passage.heading_path, passage.title) if heading}
    for span in sentences(passage.text):
        if span.kind in ("heading", "code") or _is_code(passage.text, span):
            continue
        if not _is_heading(passage.text, span, headings):
            yield span


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
    if _UNDERLINE.match(text, span.end) or _plain(words) in headings:
        return True
    starts_line = span.start == text.rfind("\n", 0, span.start) + 1
    ends_line = not text[span.end :].partition("\n")[0].strip()
    return starts_line and ends_line and _EMPHASISED.fullmatch(words) is not None and not has_final_mark(words)


def _plain(text: str) -> str:
    return _MARKUP.sub(" ", text).strip().casefold()
