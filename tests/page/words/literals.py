"""Strings and templates of a JavaScript module, with the calls and templates that contain them.

The reader knows as much of the language as our modules use: strings, templates with values, comments and regular
expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r?\n|.)", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_WORD = re.compile(r"[\w$]+$")
_CONTEXT = 60  # characters in front of a sign that decide its meaning
_BEFORE_EXPRESSION = {"return", "typeof", "case", "await", "in", "of"}


@dataclass(frozen=True)
class Part:
    """A text of a literal as it is written, and its position in the module."""

    raw: str
    start: int

    @property
    def text(self) -> str:
        return cooked(self.raw)


@dataclass
class Literal:
    """A string, or a template.

    Args:
        tag: function of a template; empty for a string and for a template without one.
        before: the code in front of it, without white space.
        call: number and name of the innermost call that it is an argument of.
        argument: index among the arguments of the call.
        bracket: the innermost open bracket; empty if there is none.
    """

    start: int
    tag: str
    before: str
    call: tuple[int, str]
    argument: int
    is_template: bool
    bracket: str = ""
    parts: list[Part] = field(default_factory=list)
    values: list[list[Literal]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    end: int = 0

    @property
    def key(self) -> str:
        """Return the text with numbered placeholders, as catalogues contain it."""
        texts = [self.parts[0].text]
        for index, part in enumerate(self.parts[1:]):
            texts += [f"{{{index}}}", part.text]
        return "".join(texts)

    @property
    def text(self) -> str:
        return "\0".join(part.text for part in self.parts)


def cooked(raw: str) -> str:
    """Return the value of a text with escapes."""

    def value(escape: re.Match[str]) -> str:
        code = escape[1]
        if code[0] in "ux" and len(code) > 1:
            return chr(int(code[1:].strip("{}"), 16))
        return "" if code.strip() == "" and "\n" in code else _NAMED.get(code, code)

    return _ESCAPE.sub(value, raw)


def nested(literals: list[Literal]) -> Iterator[Literal]:
    """Return literals with those in their values."""
    for literal in literals:
        yield literal
        for value in literal.values:
            yield from nested(value)


class Reader:
    """Reads the literals of a module.

    Attributes:
        calls: number and name of each call.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.calls: list[tuple[int, str]] = []

    def read(self) -> list[Literal]:
        return self._code(is_value=False)

    def _code(self, *, is_value: bool) -> list[Literal]:
        """Read code to its end, or to the brace that ends a template's value."""
        found: list[Literal] = []
        open_brackets: list[tuple[str, tuple[int, str], int]] = []
        start = self.at
        while self.at < len(self.source):
            here = self.source[self.at]
            if here == "}" and is_value and not open_brackets:
                return found
            if here in "\"'`":
                call, argument = next(((call, n) for sign, call, n in reversed(open_brackets[-1:])), ((0, ""), 0))
                found.append(self._literal(start, call, argument))
                found[-1].bracket = open_brackets[-1][0] if open_brackets else ""
            elif self.source.startswith("//", self.at):
                self.at = self._after("\n", self.at)
            elif self.source.startswith("/*", self.at):
                self.at = self._after("*/", self.at)
            elif here == "/" and self._starts_expression(start):
                self._skip_expression()
            else:
                self._bracket(here, start, open_brackets)
                self.at += 1
        return found

    def _bracket(self, here: str, start: int, open_brackets: list[tuple[str, tuple[int, str], int]]) -> None:
        if here in "([{":
            name = _WORD.search(self._before(start)) if here == "(" else None
            call = (len(self.calls) + 1, name[0] if name else "")
            if name:
                self.calls.append(call)
            open_brackets.append((here, call, 0))
        elif here in ")]}" and open_brackets:
            open_brackets.pop()
        elif here == "," and open_brackets:
            sign, call, argument = open_brackets.pop()
            open_brackets.append((sign, call, argument + 1))

    def _literal(self, start: int, call: tuple[int, str], argument: int) -> Literal:
        quote = self.source[self.at]
        code = self._before(start)
        tag = _WORD.search(code) if quote == "`" else None
        name = tag[0] if tag and tag[0] not in _BEFORE_EXPRESSION else ""
        before = code[: len(code) - len(name)].rstrip()
        literal = Literal(self.at - len(name), name, before, call, argument, quote == "`")
        self.at += 1
        begin = self.at
        while self.source[self.at] != quote:
            if self.source[self.at] == "\\":
                self.at += 2
            elif quote == "`" and self.source.startswith("${", self.at):
                literal.parts.append(Part(self.source[begin : self.at], begin))
                self.at += 2
                value = self.at
                literal.values.append(self._code(is_value=True))
                literal.sources.append(self.source[value : self.at])
                self.at += 1
                begin = self.at
            else:
                self.at += 1
        literal.parts.append(Part(self.source[begin : self.at], begin))
        self.at += 1
        literal.end = self.at
        return literal

    def _starts_expression(self, start: int) -> bool:
        """Return whether a slash starts a regular expression: it does not after an operand."""
        before = self._before(start).rstrip()
        word = _WORD.search(before)
        return word[0] in _BEFORE_EXPRESSION if word else not before.endswith((")", "]", "`", '"', "'"))

    def _skip_expression(self) -> None:
        in_class = False
        self.at += 1
        while in_class or self.source[self.at] != "/":
            here = self.source[self.at]
            in_class = here == "[" or (in_class and here != "]")
            self.at += 2 if here == "\\" else 1
        self.at += 1

    def _before(self, start: int) -> str:
        """Return the code in front of the current position, without that in front of the template's value."""
        return self.source[max(start, self.at - _CONTEXT) : self.at]

    def _after(self, sign: str, start: int) -> int:
        found = self.source.find(sign, start)
        return len(self.source) if found < 0 else found + len(sign)
