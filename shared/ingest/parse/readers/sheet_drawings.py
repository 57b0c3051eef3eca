"""Texts that float over a sheet: text boxes, shapes, and charts as tables of their stored values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from lxml import etree

from shared.ingest.parse.readers.formulas import local_name
from shared.ingest.parse.readers.number_formats import NumberFormat, general
from shared.ingest.parse.readers.sheet_cells import plain_texts
from shared.ingest.parse.readers.table_rows import paragraph, table

MOST_POINTS = 500
"""A series with more points than this whose cells are known is named by their range."""

_PARAGRAPH_END = re.compile(rb"</(?:\w{1,20}:)?p>|<(?:\w{1,20}:)?br\b")
_MOST_POINTS_READ = 20_000
_MOST_SERIES = 300
_CATEGORY = "Category"


def without_fallbacks(root: etree._Element) -> None:
    """Remove the copies that a drawing has for old programs."""
    for fallback in list(root.iter("{*}Fallback")):
        parent = fallback.getparent()
        if parent is not None:
            parent.remove(fallback)


def shape_texts(root: etree._Element) -> Iterator[str]:
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


def rich_text(body: etree._Element) -> str:
    """Return the paragraphs of DrawingML as lines."""
    lines = ("".join(_run(part) for part in lined.iter("{*}t", "{*}br")) for lined in body.iter("{*}p"))
    return "\n".join(line.strip() for line in lines if line.strip())


def _run(part: etree._Element) -> str:
    return (part.text or "") if local_name(part) == "t" else "\n"


def control_texts(root: etree._Element) -> Iterator[str]:
    """Yield the texts of form controls and old text boxes in a VML drawing; comments are read elsewhere."""
    for shape in root.iter("{*}shape"):
        data = next(shape.iter("{*}ClientData"), None)
        if data is not None and data.get("ObjectType") == "Note":
            continue
        for box in shape.iter("{*}textbox"):
            text = " ".join("".join(box.itertext()).split())
            if text:
                yield paragraph(text)


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    categories: Mapping[int, str]
    values: Mapping[int, str]
    sizes: Mapping[int, str]
    cells: str


def chart_blocks(root: etree._Element) -> Iterator[str]:
    """Yield the title, the axes and the values of a chart."""
    extended = local_name(root) == "chartSpace" and next(root.iter("{*}chartData"), None) is not None
    title = _title(root)
    series = (_extended_series(root) if extended else _series(root))[:_MOST_SERIES]
    axes = [
        text for axis in root.iter("{*}catAx", "{*}dateAx", "{*}valAx", "{*}serAx", "{*}axis") if (text := _title(axis))
    ]
    if title or axes or series:
        yield paragraph(f"Chart: {title or _names(series)}".rstrip(": "))
    if axes:
        yield paragraph("Axes: " + "; ".join(axes))
    labels = [text for label in root.iter("{*}dLbl") if (text := _own_title(label))]
    if labels:
        yield paragraph("Labels: " + "; ".join(labels))
    named = [each for each in series if each.cells and len(each.values) > MOST_POINTS]
    for each in named:
        yield paragraph(f"Series {each.name}: {each.cells}")
    yield from _tables([each for each in series if each not in named])


def _names(series: Sequence[_Series]) -> str:
    return ", ".join(each.name for each in series if each.name)


def _title(element: etree._Element) -> str:
    """Return the title of a chart or of an axis."""
    holder = next((child for child in element if local_name(child) == "chart"), element)
    title = next((child for child in holder if local_name(child) == "title"), None)
    return _own_title(title) if title is not None else ""


def _own_title(element: etree._Element) -> str:
    text = rich_text(element)
    if not text:
        text = " ".join(value.text or "" for value in element.iter("{*}v"))
    return " ".join(text.split())


def _series(root: etree._Element) -> list[_Series]:
    found = []
    for each in root.iter("{*}ser"):
        parts = {local_name(child): child for child in each}
        categories = parts.get("cat", parts.get("xVal"))
        values = parts.get("val", parts.get("yVal"))
        name = " ".join(value.text or "" for value in parts["tx"].iter("{*}v")) if "tx" in parts else ""
        found.append(
            _Series(
                " ".join(name.split()),
                _points(categories),
                _points(values),
                _points(parts.get("bubbleSize")),
                next((formula.text or "" for formula in values.iter("{*}f")), "") if values is not None else "",
            )
        )
    return found


def _points(data: etree._Element | None) -> dict[int, str]:
    """Return the stored points of categories or values by index; levels of categories are joined."""
    points: dict[int, str] = {}
    if data is None:
        return points
    levels = list(data.iter("{*}lvl"))
    for level in reversed(levels) if levels else [data]:
        code = next((element.text for element in level.iter("{*}formatCode") if element.text), None)
        form = NumberFormat(code) if code and code.lower() != "general" else None
        numeric = not levels and next(level.iter("{*}numCache", "{*}numLit"), None) is not None
        found = dict(_level(level, form, numeric=numeric))
        points = _under(points, found) if points else found
    return points


def _level(level: etree._Element, form: NumberFormat | None, *, numeric: bool) -> Iterator[tuple[int, str]]:
    for count, point in enumerate(level.iter("{*}pt")):
        if count == _MOST_POINTS_READ:
            return
        index = point.get("idx") or str(count)
        text = next((value.text or "" for value in point.iter("{*}v")), point.text or "")
        if index.isascii() and index.isdigit() and len(index) < 8 and text.strip():  # noqa: PLR2004 - rows of a sheet
            yield int(index), _shown(text, form) if numeric else " ".join(text.split())


def _under(upper: Mapping[int, str], lower: Mapping[int, str]) -> dict[int, str]:
    """Return the points of a level with the ones of the level above it, each of which holds until the next."""
    out, label = dict[int, str](), ""
    for index in sorted({*upper, *lower}):
        label = upper.get(index, label)
        out[index] = f"{label} {lower.get(index, '')}".strip()
    return out


def _shown(text: str, form: NumberFormat | None) -> str:
    try:
        value = float(text)
    except ValueError:
        return " ".join(text.split())
    if not isfinite(value):
        return text
    return form.number(value) if form else general(value)


def _extended_series(root: etree._Element) -> list[_Series]:
    """Return the series of a chart of Office 2016, such as a waterfall."""
    data = {each.get("id"): each for each in root.iter("{*}data")}
    found = []
    for each in root.iter("{*}series"):
        parts = {local_name(child): child for child in each}
        name = " ".join(value.text or "" for value in parts["tx"].iter("{*}v")) if "tx" in parts else ""
        source = data.get(parts["dataId"].get("val")) if "dataId" in parts else None
        categories, values = dict[int, str](), dict[int, str]()
        for dimension in source if source is not None else ():
            levels = [
                dict(_level(level, _format(level), numeric=local_name(dimension) == "numDim"))
                for level in dimension.iter("{*}lvl")
            ]
            if local_name(dimension) == "strDim":
                for level_points in reversed(levels):
                    categories = _under(categories, level_points) if categories else level_points
            elif levels:
                values = levels[0]
        found.append(_Series(" ".join(name.split()), categories, values, {}, ""))
    return found


def _format(level: etree._Element) -> NumberFormat | None:
    code = level.get("formatCode")
    return NumberFormat(code) if code and code.lower() != "general" else None


def _tables(series: Sequence[_Series]) -> Iterator[str]:
    """Yield one table for all series with the same categories."""
    rest = [each for each in series if each.values or each.categories]
    while rest:
        first = rest[0]
        alike = [each for each in rest if not each.categories or each.categories == first.categories]
        if first.sizes:
            alike = [first]
        rest = [each for each in rest if each not in alike]
        indexes = sorted({index for each in alike for index in (*each.values, *each.categories)})
        columns: list[tuple[str, Mapping[int, str]]] = [(each.name or "Value", each.values) for each in alike]
        if first.sizes:
            columns.append(("Size", first.sizes))
        if first.categories:
            columns.insert(0, (_CATEGORY, first.categories))
        rows = [
            (index, {at: points[index] for at, (_, points) in enumerate(columns) if index in points})
            for index in indexes
        ]
        yield from table(range(len(columns)), {at: name for at, (name, _) in enumerate(columns)}, rows)
