"""The texts and attributes of an HTML template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.page.words.literals import Literal, Part

CODE = {"code", "pre", "kbd", "samp"}  # their texts are the same in every language
_VALUE = "\ue000"  # stands for a value: no module contains this character
_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*)((?:[^>\"]|\"[^\"]*\")*)>")
_ATTRIBUTE = re.compile(r"([^\s=\"]+)=(?:\"([^\"]*)\"|([^\s\">]+))")


@dataclass(frozen=True)
class Run:
    """Text and values between two tags, or in an attribute.

    Args:
        items: texts, and indices of values.
        attribute: its name; empty for text between tags.
        is_code: whether an element of code contains it.
    """

    items: list[Part | int]
    attribute: str = ""
    is_code: bool = False


def runs(template: Literal) -> Iterator[Run]:
    """Return the texts and attributes of a template."""
    markup = _VALUE.join(part.raw for part in template.parts)
    code = at = 0
    for tag in _TAG.finditer(markup):
        yield Run(_items(template, markup, at, tag.start()), is_code=code > 0)
        for found in _ATTRIBUTE.finditer(markup, tag.start(3), tag.end(3)):
            group = 2 if found[2] is not None else 3
            yield Run(_items(template, markup, found.start(group), found.end(group)), found[1])
        if tag[2] in CODE:
            code += -1 if tag[1] else 1
        at = tag.end()
    yield Run(_items(template, markup, at, len(markup)), is_code=code > 0)


def _items(template: Literal, markup: str, start: int, end: int) -> list[Part | int]:
    """Return the texts between two positions, with their positions in the module, and the values between them."""
    index = markup.count(_VALUE, 0, start)
    within = start - (markup.rfind(_VALUE, 0, start) + 1)  # of the current part
    items: list[Part | int] = []
    for number, raw in enumerate(markup[start:end].split(_VALUE)):
        if number:
            items.append(index)
            index, within = index + 1, 0
        if raw:
            items.append(Part(raw, template.parts[index].start + within))
    return items
