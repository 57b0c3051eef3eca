"""The text layer of a page: its words in each direction, and its plain text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.ingest.parse.readers.pdf.text.characters import Characters
from shared.ingest.parse.readers.pdf.text.styles import Fonts
from shared.ingest.parse.readers.pdf.text.vertical import turned_down
from shared.ingest.parse.readers.pdf.text.words import Finder, Word


@dataclass(frozen=True, slots=True)
class TextLayer:
    """The text of a page.

    Args:
        groups: the words of each direction, the direction with most characters first.
        plain: its characters in the order of the content, as pdfium joins them.
        illegible: words with characters that the file does not map to letters.
    """

    groups: tuple[tuple[int, list[Word]], ...]
    plain: str
    illegible: tuple[str, ...] = ()


def text_layer(text_page: Any, count: int, fonts: Fonts) -> TextLayer:
    """Return the words of a page.

    Args:
        text_page: pdfium's handle.
        count: number of its characters.
        fonts: the fonts of the document.
    """
    chars = Characters(text_page, count)
    words = Finder(text_page, chars, fonts).words()
    groups: dict[int, list[Word]] = {}
    for word in turned_down(words):
        groups.setdefault(word.style.angle, []).append(word)
    ordered = sorted(groups.items(), key=lambda group: -sum(len(word.text) for word in group[1]))
    return TextLayer(tuple(ordered), chars.plain(), chars.illegible())
