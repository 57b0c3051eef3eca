"""The words that modules pass to `say` and `plural`, and words that they do not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from tests.page.words.literals import Literal, Reader, nested
from tests.page.words.markup import runs

MARKUP = {"html", "svg"}
SAID = {"aria-label", "aria-description", "title", "placeholder", "alt", "label"}  # attributes that users read
SHOWN_BY = {"notify", "confirm", "alert", "Error"}  # functions that show a text
LETTER = re.compile(r"[^\W\d_]")
SENTENCE = re.compile(r"^[A-Z][a-z]+(?![a-z]*[A-Z(/])(?:\W|$)|[a-z]{2,} [a-z]{2,}")
# Of parts of the page: users read them.
FIELDS = {"label", "hint", "words", "title", "text", "action", "busy", "mismatch"}
FIELD = re.compile(r"[{,]\s*([\w$]+)\s*:$")  # the code in front of a field's value in an object
RESULT = re.compile(r"(?:\?|:|\|\||&&|=>|^)\s*\(?$")  # the code in front of a result of an expression


class Where(Enum):
    """The use of a value.

    Attributes:
        CODE: unknown, because it belongs to no template, or to a handler of events.
        SHOWN: text that users read.
        HIDDEN: an attribute that users do not read, or code.
    """

    CODE = auto()
    SHOWN = auto()
    HIDDEN = auto()


@dataclass(frozen=True)
class Unsaid:
    """Words that users read, and that cannot be translated; `start` and `end` are positions in the module."""

    text: str
    start: int
    end: int


def messages(source: str) -> Iterator[str]:
    """Return the keys of a module's words."""
    reader = Reader(source)
    literals = list(nested(reader.read()))
    for literal in literals:
        if literal.tag == "say":
            yield literal.key
    for call in reader.calls:
        if call[1] == "plural":
            arguments = {each.argument: each.key for each in literals if each.call == call}
            if 1 not in arguments:
                raise ValueError(f"A call of plural has no literal noun: {call}")
            yield f"{{0}} {arguments[1]}|{{0}} {arguments.get(2, arguments[1] + 's')}"


def unsaid(source: str) -> list[Unsaid]:
    """Return words that users read, and that cannot be translated."""
    found: dict[tuple[int, int], Unsaid] = {}

    def report(text: str, start: int, end: int) -> None:
        words = " ".join(text.replace("\0", "\u2026").split())
        found[start, end] = Unsaid(words, start, end)

    def check(literals: list[Literal], where: Where) -> None:
        for each in literals:
            if each.tag in MARKUP:
                for start, end, text in _texts(each):
                    report(text, start, end)
            elif not each.tag and is_shown(each, where):
                report(each.text, each.start, each.end)
            for value, inner in zip(each.values, values_of(each, where), strict=True):
                check(value, inner)

    check(Reader(source).read(), Where.CODE)
    return sorted(found.values(), key=lambda each: each.start)


def _texts(template: Literal) -> Iterator[tuple[int, int, str]]:
    for run in runs(template):
        if run.is_code or (run.attribute and run.attribute not in SAID):
            continue
        for item in run.items:
            if not isinstance(item, int) and LETTER.search(item.text):
                yield item.start, item.start + len(item.raw), item.text


def values_of(literal: Literal, where: Where) -> list[Where]:
    """Return the use of each value of a literal."""
    if literal.tag == "say":
        return [Where.SHOWN] * len(literal.values)
    if literal.tag not in MARKUP:
        return [where] * len(literal.values)
    found = [Where.HIDDEN] * len(literal.values)
    for run in runs(literal):
        if run.attribute.startswith("@"):
            use = Where.CODE
        else:
            use = Where.HIDDEN if run.is_code or run.attribute not in {"", *SAID} else Where.SHOWN
        for item in run.items:
            if isinstance(item, int):
                found[item] = use
    return found


def is_shown(literal: Literal, where: Where) -> bool:
    """Return whether users read a string, or a template without a function."""
    if not LETTER.search(literal.text) or literal.call[1] == "plural":
        return False
    if literal.call[1] in SHOWN_BY and literal.argument == 0:
        return True
    if literal.bracket == "{" and (field := FIELD.search(literal.before)):
        return field[1] in FIELDS and where != Where.HIDDEN
    if where == Where.SHOWN and not literal.call[1] and RESULT.search(literal.before):
        return True
    return where != Where.HIDDEN and SENTENCE.search(literal.text) is not None
