"""Thinking in a model's reply, in the forms that servers leave in the text when they do not separate it.

Only thinking at the start of a reply is removed, so that an answer about such tags stays complete: a block that opens
there, or everything in front of a closing tag that nothing opens, because the prompt has opened it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NAMES = (
    *("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis"),
    *("seed:think", "mm:think", "longcat_think", "antthinking"),
)
_LONGEST_TAG = 40  # characters
_QUOTES = tuple("`'\"\u2018\u2019\u201c\u201d\u00ab\u00bb")


@dataclass(frozen=True, slots=True)
class _Mark:
    """A mark at the start of a reply that is removed, together with the text until its end.

    Args:
        opening: the mark; letters of any case.
        closing: marks that end the removed text; without any, only the mark is removed.
        tail: mark after the answer that belongs to it, and is removed, too.
        is_word: whether the mark is also a word, so that an answer may start with it. It has lower case, and without
            its end nothing is removed.
    """

    opening: str
    closing: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()
    is_word: bool = False

    def opens(self, text: str) -> bool:
        return self._folded(text[: len(self.opening)]) == self.opening

    def may_open(self, text: str) -> bool:
        """Return whether the start of a text may become this mark."""
        return len(text) < len(self.opening) and self.opening.startswith(self._folded(text))

    def _folded(self, text: str) -> str:
        return text if self.is_word else text.lower()


_THINKING = (
    *(_Mark(f"<{name}>", (f"</{name}>",)) for name in _NAMES),
    _Mark("[think]", ("[/think]",)),  # Magistral
    _Mark("\u25c1think\u25b7", ("\u25c1/think\u25b7",)),  # Kimi
    _Mark("<|begin_of_thought|>", ("<|end_of_thought|>",)),
    _Mark("<|start_thinking|>", ("<|end_thinking|>",)),  # Command A
    _Mark("<unused94>", ("<unused95>",)),  # MedGemma
    _Mark("<|channel>", ("<channel|>",)),  # Gemma 4
    # Harmony, of gpt-oss. Its text without its special tokens starts with the channel's name.
    _Mark("<|start|>assistant"),
    _Mark("<|channel|>analysis", ("<|end|>", "<|call|>", "<|start|>assistant")),
    _Mark("<|channel|>commentary", ("<|end|>", "<|call|>", "<|start|>assistant")),
    _Mark("<|channel|>final", ("<|message|>",), tail=("<|return|>", "<|end|>")),
    _Mark("analysis", ("assistantfinal",), is_word=True),
)
# Marks around the answer that follows the thinking of some models.
_AROUND_ANSWER = (
    _Mark("<answer>", tail=("</answer>",)),
    _Mark("<|begin_of_solution|>", tail=("<|end_of_solution|>",)),
    _Mark("<|start_response|>", tail=("<|end_response|>",)),
)


def _any_of(marks: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, marks)), re.IGNORECASE)


_UNOPENED = _any_of(
    mark.closing[0]
    for mark in _THINKING
    if mark.opening in {f"<{name}>" for name in _NAMES if "think" in name or "thought" in name}
    or mark.opening in {"[think]", "\u25c1think\u25b7", "<|begin_of_thought|>", "<|start_thinking|>", "<unused94>"}
)
_OPENED = re.compile(r"<(?:\w+:|longcat_|ant)?(?:think(?:ing)?|thoughts?)>|\[think\]", re.IGNORECASE)
_FENCE = re.compile("```")
_JSON = re.compile(r"\s*+(?:\{|\[\s*[\[{\"]|```)")


class ThinkingFilter:
    """Removes the thinking from a reply that arrives in pieces.

    Args:
        may_start_inside: whether the reply may start inside of its thinking, without a mark. Everything is then held
            back until the thinking ends, or the reply.

    Attributes:
        has_removed: whether thinking was removed.
        started_inside: whether it was thinking without a mark at its start.
    """

    def __init__(self, *, may_start_inside: bool) -> None:
        self._may_start_inside = may_start_inside
        self._held = ""
        self._searched = 0  # characters of the held text in which no end was found
        self._judged = self._fences = 0  # characters in which opening tags and fences are counted, and the fences
        self._has_opened = False
        self._open: _Mark | None = None
        self._tail: tuple[str, ...] = ()
        self._is_undecided = self._is_answer = False
        self.has_removed = self.started_inside = False

    def feed(self, piece: str) -> str:
        """Process a piece of the reply; return the text of the answer that is known now."""
        self._held += piece
        return self._advance(is_end=False)

    def end(self) -> str:
        """Return the rest of the answer."""
        return self._advance(is_end=True)

    def _advance(self, *, is_end: bool) -> str:
        while not self._is_answer:
            if self._open is not None:
                is_decided = self._close(self._open, is_end=is_end)
            elif self._is_undecided:
                is_decided = self._search_unopened(is_end=is_end)
            else:
                is_decided = self._start(is_end=is_end)
            if not is_decided:
                return ""
        return self._without_tail(is_end=is_end)

    def _start(self, *, is_end: bool) -> bool:
        """Decide by the start of the held text; return whether it is decided."""
        text = self._held.lstrip()
        marks = (*_THINKING, *_AROUND_ANSWER) if self.has_removed else _THINKING
        mark = next((mark for mark in marks if mark.opens(text)), None)
        if mark is not None:
            self._held, self._searched = text, 0
            if mark.closing:
                self._open = mark
            else:
                self._remove(len(mark.opening), mark)
            return True
        if not is_end and (not text or any(mark.may_open(text) for mark in marks)):
            return False
        self._searched = 0
        if self.has_removed:
            self._held = text
        self._is_undecided = self._may_start_inside and not self.has_removed
        self._is_answer = not self._is_undecided
        return True

    def _close(self, mark: _Mark, *, is_end: bool) -> bool:
        found = _any_of(mark.closing).search(self._held, self._searched)
        if found is not None:
            self._remove(found.end(), mark)
            return True
        self._searched = max(0, len(self._held) - _LONGEST_TAG)
        if is_end and mark.is_word:
            self._open, self._is_answer = None, True
        elif is_end:  # it has thought until the end
            self._remove(len(self._held), mark)
        return is_end

    def _search_unopened(self, *, is_end: bool) -> bool:
        while (found := _UNOPENED.search(self._held, self._searched)) is not None:
            if found.end() == len(self._held) and not is_end:
                return False  # the next character belongs to the decision
            if self._ends_thinking(found):
                self._is_undecided, self.started_inside = False, True
                self._remove(found.end(), None)
                return True
            self._searched = found.end()
        self._searched = max(self._searched, len(self._held) - _LONGEST_TAG)
        self._is_answer = is_end
        return is_end

    def _ends_thinking(self, found: re.Match[str]) -> bool:
        """Return whether a closing tag is not a part of an answer about such tags, or of JSON.

        Only the text after the last closing tag is searched: all tags together take one search of the text.
        """
        end = found.start()
        self._fences += sum(1 for _ in _FENCE.finditer(self._held, self._judged, end))
        self._has_opened |= _OPENED.search(self._held, self._judged, end) is not None
        self._judged = found.end()
        is_quoted = self._held.startswith(_QUOTES, max(0, end - 1)) or self._held.startswith(_QUOTES, found.end())
        in_code = self._fences % 2 == 1
        return not (is_quoted or in_code or self._has_opened or _JSON.match(self._held, 0, end))

    def _remove(self, characters: int, mark: _Mark | None) -> None:
        self._held = self._held[characters:].lstrip()
        self._searched, self._open, self.has_removed = 0, None, True
        if mark is not None and mark.tail:
            self._tail = mark.tail

    def _without_tail(self, *, is_end: bool) -> str:
        text, self._held = self._held, ""
        if not self._tail:
            return text
        text = _any_of(self._tail).sub("", text)
        if not is_end:
            held = _start_of_mark(text, self._tail)
            text, self._held = text[:held], text[held:]
        return text


def without_thinking(text: str) -> str:
    """Return a reply without its thinking; empty if it contains nothing else."""
    thinking = ThinkingFilter(may_start_inside=True)
    return thinking.feed(text) + thinking.end()


def _start_of_mark(text: str, marks: tuple[str, ...]) -> int:
    """Return the offset of the end of a text that may become a mark; its length if nothing may."""
    for start in range(max(0, len(text) - _LONGEST_TAG), len(text)):
        if any(mark.startswith(text[start:].lower()) for mark in marks):
            return start
    return len(text)
