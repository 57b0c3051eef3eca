"""The state of reading a part of a Word file: open paragraphs, cells, tables and fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from shared.ingest.parse.readers.office.package import Relation
from shared.ingest.parse.readers.word.blocks import WordBlock
from shared.ingest.parse.readers.word.fields import Field
from shared.ingest.parse.readers.word.numbering import BULLET, Numbering
from shared.ingest.parse.readers.word.paragraphs import OpenParagraph, block_of
from shared.ingest.parse.readers.word.styles import WordStyles
from shared.ingest.parse.readers.word.tables import WordRow
from shared.ingest.parse.readers.xml_tree import Element

Leave = Callable[[], None]
Visit = tuple[Iterable[Element], Leave | None] | None
"""The children of an element to read, and what to do after them; None to skip it."""


class StoryContext(Protocol):
    """The rest of the file, as far as the text refers to it."""

    styles: WordStyles
    numbering: Numbering

    def note(self, kind: str, identifier: str, own_mark: str | None) -> tuple[str, WordBlock | None]:
        """Return the mark of a note and its text."""
        ...

    def comment(self, identifier: str) -> WordBlock | None:
        """Return a comment."""
        ...

    def figure(self, kind: str, relation: Relation) -> list[WordBlock]:
        """Return the data of a chart or a diagram."""
        ...

    def alternative(self, relation: Relation) -> WordBlock | None:
        """Return the text of a part in another format."""
        ...

    def embed(self, program: str, relation: Relation | None) -> None:
        """Record an object of a program, which is read after the text."""
        ...

    def leave_out(self, program: str) -> None:
        """Record an object of a program that is not read."""
        ...


@dataclass(slots=True)
class WordFlow:
    """Blocks of the body, a cell or a text box.

    Args:
        blocks: its blocks so far.
        carried: a paragraph that the next one continues.
    """

    blocks: list[WordBlock] = field(default_factory=list)
    carried: OpenParagraph | None = None


class Story:
    """The open elements of a part, the innermost last.

    Args:
        around: the rest of the file.
        relations: relations of the part.
    """

    def __init__(self, around: StoryContext, relations: Mapping[str, Relation]) -> None:
        self.around = around
        self.relations = relations
        self.tables: list[list[WordRow]] = []
        self.fields: list[Field] = []
        self.notes: list[WordBlock] = []
        self.description = ""  # of the next picture
        self.reading = ""  # of the next word with ruby characters
        self._flows = [WordFlow()]
        self._paragraphs: list[OpenParagraph] = []
        self._boxes = 0
        self._held_notes: list[WordBlock] = []

    @property
    def paragraph(self) -> OpenParagraph | None:
        """The innermost open paragraph."""
        return self._paragraphs[-1] if self._paragraphs else None

    def add(self, text: str) -> None:
        """Append text to the open paragraph, except the result of a field that is inside another one's code."""
        if any(not outer.result for outer in self.fields[:-1]):
            return
        if self._paragraphs:
            self._paragraphs[-1].texts.append(text)
        elif text.strip():
            self._flows[-1].blocks.append(WordBlock(text.strip()))

    def open_paragraph(self, properties: Element | None) -> None:
        """Start a paragraph, or continue the one before it."""
        flow = self._flows[-1]
        paragraph = flow.carried or OpenParagraph()
        flow.carried = None
        paragraph.properties = {} if properties is None else {one.tag: one for one in reversed(properties)}
        self._paragraphs.append(paragraph)

    def close_paragraph(self) -> None:
        """End the open paragraph, unless the next one continues it."""
        paragraph = self._paragraphs.pop()
        if self.fields:  # code ends in its paragraph, or the file is damaged and would lose the rest of its text
            self.fields = [field for field in self.fields if field.result or field.paragraph != id(paragraph)]
        if paragraph.joins_next:
            self._flows[-1].carried = paragraph
        else:
            self._append_paragraph(paragraph)

    def open_flow(self, *, box: bool = False) -> None:
        """Start a cell or a text box."""
        self._flows.append(WordFlow())
        self._boxes += box

    def close_flow(self, *, box: bool = False) -> list[WordBlock]:
        """End a cell or a text box, and return its blocks."""
        blocks = self._finished()
        self._flows.pop()
        self._boxes -= box
        return blocks

    def end(self) -> list[WordBlock]:
        """Return the blocks of the part."""
        return [*self._finished(), *self._held_notes, *self.notes]

    def append(self, block: WordBlock) -> None:
        """Append a block; notes follow it, or the list that it is in."""
        flow = self._flows[-1].blocks
        if len(self._flows) > 1:
            flow.append(block)
            return
        if block.tight:
            flow.append(block)
            self._held_notes += self.notes
        else:
            flow += (*self._held_notes, block, *self.notes)
            self._held_notes = []
        self.notes = []

    def put_after(self, blocks: Iterable[WordBlock]) -> None:
        """Append blocks after the open paragraph."""
        if self._paragraphs:
            self._paragraphs[-1].after += blocks
        else:
            for block in blocks:
                self.append(block)

    def _finished(self) -> list[WordBlock]:
        flow = self._flows[-1]
        if flow.carried:
            self._append_paragraph(flow.carried)
            flow.carried = None
        return flow.blocks

    def _append_paragraph(self, paragraph: OpenParagraph) -> None:
        block = block_of(paragraph, self.around.styles, self.around.numbering, headings=not self._boxes)
        is_number_in_cell = len(self._flows) > 1 and block.label not in ("", BULLET)
        if block.text or block.pictures or is_number_in_cell:
            self.append(block)
        for each in paragraph.after:
            self.append(each)
