"""Charts of Office's drawings: titles, and the data as a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lxml import etree

from shared.ingest.parse.readers.drawingml import TextBody, is_on, number_of
from shared.ingest.parse.readers.formulas import local_name
from shared.ingest.parse.readers.rows import as_paragraph, as_table, one_line

_DAY_ZERO = {False: datetime(1899, 12, 30), True: datetime(1904, 1, 1)}  # noqa: DTZ001 - a chart's dates have no zone
_DATE_FORMAT = re.compile(r"(?i)(?<![a-z\\\"])[dmy]{1,4}[-/. ,]+[dmy]")


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    categories: Mapping[int, str]
    values: Mapping[int, str]


def chart(space: etree._Element) -> Iterator[str]:
    """Yield a chart's title and other texts, and its data: a row for each category, a column for each series."""
    title, *others = [*_texts(space), ""]
    if title:
        yield f"Chart: {title}"
    yield from (as_paragraph(text) for text in others if text)
    for body in space.iter("{*}txBody"):  # text boxes inside the chart
        yield from TextBody(body).blocks()
    series = list(_extended_series(space)) if local_name(space[0] if len(space) else space) == "chartData" else []
    epoch = is_on((_child(space, "date1904", "val")) or "0")
    series = series or [
        _series(element, number, epoch=epoch) for number, element in enumerate(space.iter("{*}ser"), start=1)
    ]
    while series:
        together = [one for one in series if one.categories == series[0].categories]
        series = [one for one in series if one.categories != together[0].categories]
        if text := _chart_table(together):
            yield text


def _texts(space: etree._Element) -> Iterator[str]:
    """Yield the title first, then the titles of axes and the texts of labels."""
    found = [holder for holder in space.iter("{*}rich", "{*}strRef") if _is_text(holder)]
    found.sort(key=lambda holder: not _in_chart_title(holder))
    for holder in found:
        is_rich = local_name(holder) == "rich"
        text = TextBody(holder).line() if is_rich else " ".join(_points(holder).values())
        if text:
            yield text


def _is_text(holder: etree._Element) -> bool:
    """Return whether a text is shown as such: not the name, the categories or the values of a series."""
    parent = holder.getparent()
    if local_name(holder) == "rich":
        return True
    grand = parent.getparent() if parent is not None else None
    return local_name(parent) == "tx" and grand is not None and local_name(grand) != "ser"


def _in_chart_title(holder: etree._Element) -> bool:
    title = next(holder.iterancestors("{*}title"), None)
    return title is not None and local_name(title.getparent()) == "chart"


def _chart_table(series: Sequence[_Series]) -> str:
    categories = series[0].categories
    rows = sorted({index for one in series for index in (*one.values, *one.categories)})
    header = ["", *(one.name for one in series)]
    return as_table(
        [
            header,
            *(
                [categories.get(index, str(index + 1)), *(one.values.get(index, "") for one in series)]
                for index in rows
            ),
        ]
    )


def _series(element: etree._Element, number: int, *, epoch: bool) -> _Series:
    name = " ".join(_points(element.find("{*}tx")).values()) or f"Series {number}"
    categories = _first(element, "cat", "xVal")
    values = _points(_first(element, "val", "yVal"), epoch=epoch)
    sizes = _points(element.find("{*}bubbleSize"), epoch=epoch)
    for index, size in sizes.items():
        values[index] = f"{values.get(index, '')} ({size})"
    return _Series(one_line(name), _categories(categories, epoch=epoch), values)


def _categories(element: etree._Element | None, *, epoch: bool) -> dict[int, str]:
    """Return the names of categories; names of more levels are joined, the outer ones first."""
    if element is None:
        return {}
    levels = [_points(level, epoch=epoch) for level in element.iter("{*}lvl")]
    if not levels:
        return _points(element, epoch=epoch)
    names = dict(levels[0])
    for level in levels[1:]:
        outer = ""
        for index in sorted(names):
            outer = level.get(index, outer)
            names[index] = f"{outer} / {names[index]}" if outer else names[index]
    return names


def _points(element: etree._Element | None, *, epoch: bool = False) -> dict[int, str]:
    """Return the stored values of a reference by their index."""
    if element is None:
        return {}
    code = element.find(".//{*}formatCode")
    form = (code.text or "") if code is not None else ""
    found: dict[int, str] = {}
    for point in element.iter("{*}pt"):
        value = point.find("{*}v")
        text = (value.text if value is not None else point.text) or ""
        own = point.get("formatCode") or form
        found[number_of(point.get("idx"), len(found))] = one_line(_shown(text, own, epoch=epoch))
    if not found and (value := element.find("{*}v")) is not None:
        found[0] = one_line(value.text or "")
    return found


def _shown(text: str, form: str, *, epoch: bool) -> str:
    """Return a number with the percent sign or as the date of its format; other formats do not change its digits."""
    if not form:
        return text
    try:
        number = float(text)
        if _DATE_FORMAT.search(form):
            return (_DAY_ZERO[epoch] + timedelta(days=int(number))).date().isoformat()
    except (ValueError, OverflowError):
        return text
    return f"{number * 100:.10g} %" if "%" in form else f"{number:.12g}"


def _extended_series(space: etree._Element) -> Iterator[_Series]:
    """Yield the data of charts of Office 2016, such as waterfalls and treemaps."""
    names = {
        data.get("val", ""): series for series in space.iter("{*}series") for data in series.iterchildren("{*}dataId")
    }
    for number, data in enumerate(space.iter("{*}data"), start=1):
        series = names.get(data.get("id", ""))
        name = series.find(".//{*}txData/{*}v") if series is not None else None
        levels = [_points(level) for dimension in data.iterchildren("{*}strDim") for level in dimension.iter("{*}lvl")]
        categories = dict(levels[0]) if levels else {}
        for level in levels[1:]:
            categories = {
                index: f"{level[index]} / {text}" if index in level else text for index, text in categories.items()
            }
        values = data.find("{*}numDim")
        shown = (name.text or "") if name is not None else f"Series {number}"
        yield _Series(one_line(shown), categories, _points(values))


def _first(element: etree._Element, *names: str) -> etree._Element | None:
    found = (element.find("{*}" + name) for name in names)
    return next((child for child in found if child is not None), None)


def _child(element: etree._Element, name: str, attribute: str) -> str | None:
    found = element.find("{*}" + name)
    return None if found is None else found.get(attribute)
