"""The walk over a part of a Word file.

It has its own stack, because nothing limits the depth of a damaged or hostile file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from shared.ingest.parse.readers.office.package import Relation
from shared.ingest.parse.readers.word import drawings, elements
from shared.ingest.parse.readers.word.blocks import WordBlock
from shared.ingest.parse.readers.word.names import CHART, CHART_2016, DIAGRAM, MC, OFFICE, VML, WP, A, M, W
from shared.ingest.parse.readers.word.story import Leave, Story, StoryContext, Visit
from shared.ingest.parse.readers.xml_tree import Element

_LITERALS = {W + "tab": "\t", W + "ptab": "\t", W + "br": "\n", W + "cr": "\n", W + "noBreakHyphen": "-"}
_SKIPPED = frozenset(
    W + name
    for names in (
        ("del", "moveFrom", "delText", "delInstrText"),
        ("pPr", "rPr", "tblPr", "tblPrEx", "tblGrid", "trPr", "tcPr", "sectPr"),
        ("sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr", "fldData", "ffData"),
        ("proofErr", "bookmarkStart", "bookmarkEnd", "lastRenderedPageBreak", "softHyphen"),
    )
    for name in names
)
_STARTS: Mapping[str, Callable[[Story, Element], Visit]] = {
    W + "t": elements.text,
    W + "p": elements.paragraph,
    W + "tbl": elements.table,
    W + "tr": elements.row,
    W + "tc": elements.cell,
    W + "fldChar": elements.field_mark,
    W + "instrText": elements.field_code,
    W + "fldSimple": elements.simple_field,
    W + "hyperlink": elements.hyperlink,
    W + "footnoteReference": elements.note,
    W + "endnoteReference": elements.note,
    W + "commentReference": elements.comment,
    W + "sym": elements.symbol_of_font,
    W + "ruby": elements.ruby,
    W + "rt": elements.ruby_text,
    M + "oMath": elements.equation,
    M + "oMathPara": elements.displayed_equations,
    W + "txbxContent": drawings.text_box,
    W + "altChunk": drawings.other_format,
    W + "subDoc": drawings.subdocument,
    MC + "AlternateContent": drawings.alternatives,
    WP + "docPr": drawings.properties,
    VML + "shape": drawings.shape,
    VML + "imagedata": drawings.picture,
    VML + "textpath": drawings.word_art,
    A + "blip": drawings.picture,
    A + "p": drawings.drawn_paragraph,
    OFFICE + "OLEObject": drawings.embedded_object,
    CHART + "chart": drawings.chart,
    CHART_2016 + "chart": drawings.chart,
    DIAGRAM + "relIds": drawings.diagram,
}


def blocks_below(root: Element, around: StoryContext, relations: Mapping[str, Relation]) -> list[WordBlock]:
    """Return the text below an element in the order of reading.

    Args:
        root: the element.
        around: the rest of the file.
        relations: relations of the element's part.
    """
    story = Story(around, relations)
    stack: list[tuple[Iterator[Element], Leave | None]] = [(iter(root), None)]
    while stack:
        children, leave = stack[-1]
        for element in children:
            tag = element.tag
            if tag in _SKIPPED:
                continue
            if tag in _LITERALS:
                story.add(_LITERALS[tag])
                continue
            start = _STARTS.get(tag)
            visit = start(story, element) if start else (element, None)
            if visit:
                stack.append((iter(visit[0]), visit[1]))
                break
        else:
            stack.pop()
            if leave:
                leave()
    return story.end()
