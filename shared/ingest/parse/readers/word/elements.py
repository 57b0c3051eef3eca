"""Elements of Word's text: paragraphs, tables, fields, links and notes. Each function reads the start of one."""

from __future__ import annotations

import re

from shared.ingest.parse.readers.office.omml import linear
from shared.ingest.parse.readers.word.fields import Field, form_text
from shared.ingest.parse.readers.word.names import R, W, child, is_on, number, value
from shared.ingest.parse.readers.word.paragraphs import EQUATION
from shared.ingest.parse.readers.word.story import Leave, Story, Visit
from shared.ingest.parse.readers.word.symbols import symbol, without_private
from shared.ingest.parse.readers.word.tables import MOST_COLUMNS, WordCell, WordRow, blocks_of
from shared.ingest.parse.readers.xml_tree import Element, local_name

_PRIVATE = re.compile(r"[\uf000-\uf0ff]")
_OFF = frozenset(("0", "false", "off"))


def text(story: Story, element: Element) -> Visit:
    found = element.text
    if not found:
        return None
    if not found.isascii() and _PRIVATE.search(found):
        fonts = child(element.getparent(), "rPr", "rFonts")
        found = without_private(found, "" if fonts is None else fonts.get(W + "ascii", ""))
    story.add(found.replace("\r", " ").replace("\n", " "))
    return None


def symbol_of_font(story: Story, element: Element) -> Visit:
    try:
        code = int(element.get(W + "char", ""), 16)
    except ValueError:
        return None
    story.add(symbol(element.get(W + "font", ""), code))
    return None


def equation(story: Story, element: Element) -> Visit:
    story.add(f"{EQUATION}{linear(element)}{EQUATION}")
    return None


def displayed_equations(story: Story, element: Element) -> Visit:
    story.add("\n")
    return element, lambda: story.add("\n")


def ruby(story: Story, element: Element) -> Visit:
    def leave() -> None:
        if story.reading:
            story.add(f"({story.reading})")
        story.reading = ""

    return element, leave


def ruby_text(story: Story, element: Element) -> Visit:
    """Take the reading of a word out of the text: it follows the word."""
    paragraph = story.paragraph
    if paragraph is None:
        return element, None
    start = len(paragraph.texts)

    def leave() -> None:
        story.reading = "".join(paragraph.texts[start:])
        del paragraph.texts[start:]

    return element, leave


def paragraph(story: Story, element: Element) -> Visit:
    story.open_paragraph(child(element, "pPr"))
    return element, story.close_paragraph


def table(story: Story, element: Element) -> Visit:
    rows: list[WordRow] = []
    story.tables.append(rows)

    def leave() -> None:
        story.tables.pop()
        if any(row.cells for row in rows):
            for block in blocks_of(rows):
                story.append(block)

    return element, leave


def row(story: Story, element: Element) -> Visit:
    properties = child(element, "trPr")
    if child(properties, "del") is not None:
        return None
    if story.tables:
        before = min(max(number(value(properties, "gridBefore")) or 0, 0), MOST_COLUMNS)
        story.tables[-1].append(WordRow(header=is_on(properties, "tblHeader"), before=before))
    return element, None


def cell(story: Story, element: Element) -> Visit:
    if not story.tables or not story.tables[-1]:
        return element, None
    properties = child(element, "tcPr")
    if child(properties, "cellDel") is not None:
        return None
    cells = story.tables[-1][-1].cells
    if _merged(properties, "hMerge") == "continue" and cells:
        current = cells[-1]
        current.span = min(current.span + 1, MOST_COLUMNS)
    else:
        span = min(max(number(value(properties, "gridSpan")) or 1, 1), MOST_COLUMNS)
        current = WordCell(span=span, merged=_merged(properties, "vMerge"))
        cells.append(current)
    story.open_flow()

    def leave() -> None:
        current.blocks += story.close_flow()

    return element, leave


def field_mark(story: Story, element: Element) -> Visit:
    kind, current = element.get(W + "fldCharType"), story.paragraph
    if kind == "begin":
        story.fields.append(Field(id(current), form=form_text(child(element, "ffData"))))
    elif kind == "separate" and story.fields:
        story.fields[-1].result = True
        story.fields[-1].start = len(current.texts) if current else 0
    elif kind == "end" and story.fields:
        ended = story.fields[-1]
        if ended.form or not ended.result:
            story.add(ended.shown)
        elif current and ended.paragraph == id(current) and ended.address:
            current.link(ended.start, ended.address)
        story.fields.pop()
    return None


def field_code(story: Story, element: Element) -> Visit:
    if story.fields and not story.fields[-1].result:
        story.fields[-1].code.append(element.text or "")
    return None


def simple_field(story: Story, element: Element) -> Visit:
    return element, _linking(story, Field(0, [element.get(W + "instr", "")]).address)


def hyperlink(story: Story, element: Element) -> Visit:
    relation = story.relations.get(element.get(R + "id", ""))
    return element, _linking(story, relation.target if relation and relation.external else "")


def note(story: Story, element: Element) -> Visit:
    kind = local_name(element).removesuffix("Reference")
    own = None
    if element.get(W + "customMarkFollows", "0").lower() not in _OFF:
        own = "".join(follower.text or "" for follower in element.itersiblings(W + "t")).strip() or "*"
    mark, block = story.around.note(kind, element.get(W + "id", ""), own)
    story.add(mark)
    if block:
        story.notes.append(block)
    return None


def comment(story: Story, element: Element) -> Visit:
    block = story.around.comment(element.get(W + "id", ""))
    if block:
        story.notes.append(block)
    return None


def _linking(story: Story, address: str) -> Leave | None:
    current = story.paragraph
    if not address or current is None:
        return None
    start = len(current.texts)
    return lambda: current.link(start, address)


def _merged(properties: Element | None, name: str) -> str | None:
    found = child(properties, name)
    return None if found is None else found.get(W + "val", "continue")
