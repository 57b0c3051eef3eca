"""Charts of Office files: titles, labels, and the stored data as a table.

ECMA-376 part 1, 21.2; charts of Office 2016 (chartex) as in MS-ODRAWXML, 2.24.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import isfinite

from shared.ingest.parse.readers.office.drawingml import TextBody, is_on
from shared.ingest.parse.readers.sheets.number_formats import NumberFormat, general
from shared.ingest.parse.readers.sheets.tables import one_line, paragraph, table
from shared.ingest.parse.readers.xml_tree import Element, local_name

MOST_POINTS = 500
"""A longer series whose cells are read from their sheet is named by their range."""

_MOST_POINTS_READ = 20_000
_MOST_SERIES = 300
_LONGEST_INDEX = 7  # digits; rows of a sheet
_CATEGORY, _POSITION, _SIZE = "Category", "X", "Size"


@dataclass(frozen=True, slots=True)
class _Series:
    """A series of a chart; points by their index.

    Args:
        name: name of the series.
        axis: name of the column of categories.
        categories: names of categories, or horizontal positions.
        values: shown values.
        sizes: sizes of bubbles.
        cells: range of cells with the values, such as `Sheet1!$B$2:$B$9`.
    """

    name: str
    axis: str
    categories: Mapping[int, str]
    values: Mapping[int, str]
    sizes: Mapping[int, str]
    cells: str


def chart(space: Element, *, cells_are_read: bool = False) -> Iterator[str]:
    """Yield a chart's title and other texts, and its data: a row for each category, a column for each series.

    Args:
        space: root of the chart's part.
        cells_are_read: whether the cells of its data are read, too, so that a long series need not be repeated.
    """
    titles, axes, labels = _texts(space)
    if titles:
        yield paragraph(f"Chart: {' '.join(titles)}")
    if axes:
        yield paragraph("Axes: " + "; ".join(axes))
    if labels:
        yield paragraph("Labels: " + "; ".join(labels))
    for body in space.iter("{*}txBody"):  # text boxes inside the chart
        yield from TextBody(body).blocks()
    is_extended = next(space.iter("{*}chartData"), None) is not None
    series = list(islice(_extended_series(space) if is_extended else _series(space), _MOST_SERIES))
    named = [each for each in series if cells_are_read and each.cells and len(each.values) > MOST_POINTS]
    for each in named:
        yield paragraph(f"{each.name}: {each.cells}")
    yield from _tables([each for each in series if each not in named])


def _texts(space: Element) -> tuple[list[str], list[str], list[str]]:
    """Return the chart's title, the titles of its axes, and all other texts that it shows."""
    titles, axes, labels = list[str](), list[str](), list[str]()
    for holder in space.iter("{*}rich", "{*}strRef", "{*}txData"):
        outer = [local_name(element) for element in holder.iterancestors()]
        text = _text(holder) if outer[:2] not in (["tx", "ser"], ["tx", "series"]) and outer[0] == "tx" else ""
        if not text:
            continue
        within = outer[outer.index("title") + 1] if "title" in outer else ""
        chosen = titles if within in ("chart", "chartSpace") else axes if within.endswith(("Ax", "axis")) else labels
        chosen.append(text)
    return titles, axes, labels


def _text(holder: Element) -> str:
    if local_name(holder) == "rich":
        return TextBody(holder).line()
    return one_line(" ".join(value.text or "" for value in holder.iter("{*}v")))


def _series(space: Element) -> Iterator[_Series]:
    date1904 = next(space.iter("{*}date1904"), None)
    since_1904 = date1904 is not None and is_on(date1904.get("val", "1"))
    for number, each in enumerate(space.iter("{*}ser"), start=1):
        parts = {local_name(child): child for child in each}
        values = parts.get("val", parts.get("yVal"))
        yield _Series(
            name=_name(parts.get("tx"), number),
            axis=_POSITION if "xVal" in parts else _CATEGORY,
            categories=_points(parts.get("cat", parts.get("xVal")), since_1904=since_1904),
            values=_points(values, since_1904=since_1904),
            sizes=_points(parts.get("bubbleSize"), since_1904=since_1904),
            cells=next((formula.text or "" for formula in values.iter("{*}f")), "") if values is not None else "",
        )


def _extended_series(space: Element) -> Iterator[_Series]:
    """Yield the series of a chart of Office 2016, such as a waterfall or a treemap."""
    data = {each.get("id"): each for each in space.iter("{*}data")}
    series = {each.get("val"): parent for parent in space.iter("{*}series") for each in parent.iter("{*}dataId")}
    for number, (key, source) in enumerate(data.items(), start=1):
        named = series.get(key)
        categories = _levels([level for each in source.iterchildren("{*}strDim") for level in each.iter("{*}lvl")])
        first = source.find("{*}numDim/{*}lvl")
        yield _Series(
            name=_name(named.find("{*}tx") if named is not None else None, number),
            axis=_CATEGORY,
            categories=categories,
            values=dict(_level(first, since_1904=False)) if first is not None else {},
            sizes={},
            cells="",
        )


def _name(holder: Element | None, number: int) -> str:
    text = " ".join(value.text or "" for value in holder.iter("{*}v")) if holder is not None else ""
    return one_line(text) or f"Series {number}"


def _points(data: Element | None, *, since_1904: bool) -> Mapping[int, str]:
    """Return the stored points of categories or values."""
    if data is None:
        return {}
    levels = list(data.iter("{*}lvl"))
    return _levels(levels) if levels else dict(_level(data, since_1904=since_1904))


def _levels(levels: list[Element]) -> Mapping[int, str]:
    """Return the names of categories of several levels, from the inner one; names are joined, the outer ones first."""
    points = dict[int, str]()
    for level in reversed(levels):
        inner = dict(_level(level, since_1904=False))
        points = _below(points, inner) if points else inner
    return points


def _below(outer: Mapping[int, str], inner: Mapping[int, str]) -> dict[int, str]:
    """Return the points of a level after the names of the level above it, each of which holds until the next."""
    points, name = dict[int, str](), ""
    for index in sorted({*outer, *inner}):
        name = outer.get(index, name)
        points[index] = " / ".join(filter(None, (name, inner.get(index, ""))))
    return points


def _level(level: Element, *, since_1904: bool) -> Iterator[tuple[int, str]]:
    """Yield the points of one level as the chart shows them; numbers have the format of the cells."""
    code = level.get("formatCode") or next((each.text for each in level.iter("{*}formatCode") if each.text), "")
    forms = dict[str, NumberFormat | None]()
    is_text = next(level.iter("{*}strCache", "{*}strLit"), None) is not None
    for count, point in enumerate(islice(level.iter("{*}pt"), _MOST_POINTS_READ)):
        index = point.get("idx") or str(count)
        text = next((value.text or "" for value in point.iter("{*}v")), point.text or "").strip()
        if not text or not (index.isascii() and index.isdigit() and len(index) <= _LONGEST_INDEX):
            continue
        own = point.get("formatCode") or code
        if own not in forms:
            is_general = not own or own.lower() == "general"
            forms[own] = None if is_general else NumberFormat(own, since_1904=since_1904)
        yield int(index), one_line(text) if is_text else _shown(text, forms[own])


def _shown(text: str, form: NumberFormat | None) -> str:
    try:
        value = float(text)
    except ValueError:
        return one_line(text)
    if not isfinite(value):
        return text
    if form is None or form.is_date:
        return form.number(value) if form else general(value)
    shown = form.number(value)
    is_percent = "%" in shown
    exact = general(value * 100 if is_percent else value)
    if _digits(shown) == _digits(exact):
        return shown
    return f"{exact}%" if is_percent else exact  # people see the length of a bar, not a rounded number


def _digits(shown: str) -> str:
    return "".join(filter(str.isdigit, shown)).strip("0")


def _tables(series: list[_Series]) -> Iterator[str]:
    """Yield one table for all series with the same categories."""
    rest = [each for each in series if each.values or each.categories]
    while rest:
        first = rest[0]
        alike = [each for each in rest if not each.categories or each.categories == first.categories]
        if first.sizes:
            alike = [first]
        rest = [each for each in rest if each not in alike]
        indexes = sorted({index for each in alike for index in (*each.values, *each.categories)})
        columns = [(each.name, each.values) for each in alike]
        if first.sizes:
            columns.append((_SIZE, first.sizes))
        if first.categories:
            columns.insert(0, (first.axis, first.categories))
        rows = [
            (index, {at: points[index] for at, (_, points) in enumerate(columns) if index in points})
            for index in indexes
        ]
        yield from table(range(len(columns)), {at: name for at, (name, _) in enumerate(columns)}, rows)
