"""A paragraph while it is read, and its kind and list."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.ingest.parse.chunks.blocks import TITLE_CHARS
from shared.ingest.parse.readers.word.blocks import WordBlock, tidied
from shared.ingest.parse.readers.word.names import W, child, number, value
from shared.ingest.parse.readers.word.numbering import BULLET, Numbering
from shared.ingest.parse.readers.word.styles import BODY_LEVEL, WordStyles, outline_level
from shared.ingest.parse.readers.xml_tree import Element

EQUATION = "\u2063"
"""Mark on both sides of an equation in a text: a space if letters would meet there, otherwise nothing."""

_BETWEEN_LETTERS = re.compile(rf"(?<=\w){EQUATION}+(?=\w)")
_STYLE, _OUTLINE, _LIST, _FRAME, _MARK, _DROP_CAP, _VALUE = (
    W + name for name in ("pStyle", "outlineLvl", "numPr", "framePr", "rPr", "dropCap", "val")
)
_LINKED = re.compile(r"(?:https?|ftps?|mailto):", re.IGNORECASE)
_UNSAFE = {ord(char): f"%{ord(char):02X}" for char in " ()<>\\\n\t"}


@dataclass(slots=True)
class OpenParagraph:
    """A paragraph whose end was not read yet.

    Args:
        properties: its properties by their tags.
        texts: its text so far.
        pictures: names of the parts that contain its pictures.
        after: text boxes, charts and diagrams that are anchored in it.
    """

    properties: Mapping[str, Element] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    after: list[WordBlock] = field(default_factory=list)

    @property
    def joins_next(self) -> bool:
        """Whether it and the next paragraph are one: its mark was deleted, or it is an initial letter."""
        frame, mark = self.properties.get(_FRAME), self.properties.get(_MARK)
        if frame is not None and frame.get(_DROP_CAP, "none") != "none":
            return True
        return mark is not None and (child(mark, "del") is not None or child(mark, "moveFrom") is not None)

    def value(self, tag: str) -> str | None:
        """Return the value of a property."""
        found = self.properties.get(tag)
        return None if found is None else found.get(_VALUE)

    def link(self, start: int, address: str) -> None:
        """Make the texts from an index on a link, unless the text says its address itself."""
        text = tidied("".join(self.texts[start:]))
        if not text or not _LINKED.match(address) or set("[]\n") & set(text) or _says(text, address):
            return
        self.texts[start:] = [f"[{text}]({address.strip().translate(_UNSAFE)})"]


def _says(text: str, address: str) -> bool:
    bare = re.sub(r"^(?:\w+:)?(?://)?(?:www\.)?", "", address.strip().lower()).rstrip("/")
    return bare.partition("?")[0] in text.lower() if address.lower().startswith("mailto:") else bare in text.lower()


def block_of(paragraph: OpenParagraph, styles: WordStyles, numbering: Numbering, *, headings: bool) -> WordBlock:
    """Return a complete paragraph as a block, and count it in its list.

    Args:
        paragraph: the paragraph.
        styles: the styles of the file.
        numbering: the lists of the file.
        headings: whether it may be a heading: text boxes contain none.
    """
    text = "".join(paragraph.texts)
    if EQUATION in text:
        text = _BETWEEN_LETTERS.sub(" ", text).replace(EQUATION, "")
    block = WordBlock(tidied(text), pictures=paragraph.pictures)
    identifier = paragraph.value(_STYLE)
    style = styles.style(identifier)
    outline = outline_level(paragraph.value(_OUTLINE))
    level = style.outline if outline is None else outline
    if headings and block.text and len(block.text) <= TITLE_CHARS:
        if style.title:
            block.kind, block.level = "heading", 1
        elif level is not None and level < BODY_LEVEL:
            block.kind, block.level = "heading", level + 1
    _number(block, paragraph.properties.get(_LIST), identifier or styles.default, styles, numbering)
    return block


def _number(
    block: WordBlock, stated: Element | None, identifier: str | None, styles: WordStyles, numbering: Numbering
) -> None:
    style = styles.style(identifier)
    own, list_level = value(stated, "numId"), number(value(stated, "ilvl"))
    list_id = style.list_id if own is None else own
    if list_id is None or list_id == "0":
        label = BULLET if style.bullet and own is None and list_id is None else None
    else:
        if list_level is None:
            list_level = numbering.level_of(list_id, identifier)
        if list_level is None and own is None:
            list_level = style.list_level
        list_level = list_level or 0
        label = numbering.label(list_id, list_level)
    if label is None:
        return
    if block.kind == "heading":
        block.label = "" if label == BULLET else label
    else:
        block.kind, block.label, block.level = "item", label, list_level or 0
