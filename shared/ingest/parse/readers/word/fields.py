"""Fields of Word, whose result is text and whose code is not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from shared.ingest.parse.readers.word.names import W, child, is_on, number, value
from shared.ingest.parse.readers.xml_tree import Element

_ADDRESS = re.compile(r'\s*HYPERLINK\s+(?:"([^"]*)"|([^\s"\\]\S*))', re.IGNORECASE)
_BUTTON = re.compile(r"\s*(?:MACROBUTTON|GOTOBUTTON)\s+\S+\s+(.*)", re.IGNORECASE | re.DOTALL)
_ON, _OFF = "☒", "☐"


@dataclass(slots=True)
class Field:
    """A field without its end.

    Args:
        paragraph: identity of the paragraph of its first mark.
        code: parts of its code.
        form: text of its form field.
        result: whether its code has ended.
        start: number of the texts in the paragraph at the start of its result.
    """

    paragraph: int
    code: list[str] = field(default_factory=list)
    form: str = ""
    result: bool = False
    start: int = 0

    @property
    def address(self) -> str:
        """The address that it links to, empty if it does not."""
        found = _ADDRESS.match("".join(self.code))
        return (found[1] or found[2] or "") if found else ""

    @property
    def shown(self) -> str:
        """The text that it shows if it has no result."""
        found = _BUTTON.match("".join(self.code))
        return self.form or (found[1].strip() if found else "")


def form_text(data: Element | None) -> str:
    """Return the text of a form field that has no result: a box with or without a tick, or the chosen entry."""
    box = child(data, "checkBox")
    if box is not None:
        ticked = is_on(box, "checked") if child(box, "checked") is not None else is_on(box, "default")
        return _ON if ticked else _OFF
    choice = child(data, "ddList")
    if choice is None:
        return ""
    entries = [entry.get(W + "val") or "" for entry in choice.iterchildren(W + "listEntry")]
    at = number(value(choice, "result") or value(choice, "default")) or 0
    return entries[at] if 0 <= at < len(entries) else ""
