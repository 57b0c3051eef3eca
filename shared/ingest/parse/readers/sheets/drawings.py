"""Texts that float over a sheet: text boxes, shapes and form controls."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shared.ingest.parse.readers.sheets.plain_cells import plain_texts
from shared.ingest.parse.readers.sheets.tables import paragraph
from shared.ingest.parse.readers.xml_tree import Element, local_name

_PARAGRAPH_END = re.compile(rb"</(?:\w{1,20}:)?p>|<(?:\w{1,20}:)?br\b")


def without_fallbacks(root: Element) -> None:
    """Remove the copies that a drawing has for old programs."""
    for fallback in list(root.iter("{*}Fallback")):
        parent = fallback.getparent()
        if parent is not None:
            parent.remove(fallback)


def shape_texts(root: Element) -> Iterator[str]:
    """Yield the text of each shape of a drawing."""
    for body in root.iter("{*}txBody"):
        text = rich_text(body)
        if text:
            yield paragraph(text)


def plain_shapes(content: bytes) -> Iterator[str]:
    """Yield the paragraphs of a drawing without an XML parser; none if it has copies for old programs."""
    if b"Fallback" not in content:
        for lined in _PARAGRAPH_END.split(content):
            yield "".join(plain_texts(lined, 0, len(lined)))


def rich_text(body: Element) -> str:
    """Return the paragraphs of DrawingML as lines."""
    lines = ("".join(_run(part) for part in lined.iter("{*}t", "{*}br")) for lined in body.iter("{*}p"))
    return "\n".join(line.strip() for line in lines if line.strip())


def _run(part: Element) -> str:
    return (part.text or "") if local_name(part) == "t" else "\n"


def control_texts(root: Element) -> Iterator[str]:
    """Yield the texts of form controls and old text boxes in a VML drawing; comments are read elsewhere."""
    for shape in root.iter("{*}shape"):
        data = next(shape.iter("{*}ClientData"), None)
        if data is not None and data.get("ObjectType") == "Note":
            continue
        for box in shape.iter("{*}textbox"):
            text = " ".join("".join(box.itertext()).split())
            if text:
                yield paragraph(text)
