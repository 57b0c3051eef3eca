"""Charts and diagrams of Word files: their data is in parts of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.ingest.parse.readers.word.blocks import Block
from shared.ingest.parse.readers.word.names import Element, local_name, number

_MOST_LEVELS = 9
_MOST_POINTS = 100_000
_DAY_ZERO = datetime(1899, 12, 30)  # noqa: DTZ001 - a chart's dates have no zone
_QUOTED = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_DATE = re.compile(r"[dmy]+[^a-z0#]+[dmy]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    categories: Mapping[int, str]
    values: Mapping[int, str]


def chart(root: Element) -> list[Block]:
    """Return the texts of a chart, and its data as tables: a row for each category, a column for each series."""
    blocks = [Block(text) for text in _titles(root)]
    series = [*_classic_series(root), *_extended_series(root)]
    while series:
        first = series[0].categories
        together = [one for one in series if one.categories == first]
        series = [one for one in series if one.categories != first]
        if rows := _rows(together):
            blocks.append(Block(kind="table", rows=rows))
    return blocks


def diagram(root: Element) -> list[Block]:
    """Return the points of a SmartArt graphic as a list with levels."""
    points = {one.get("modelId") or "": one for one in root.iter("{*}pt") if one.get("modelId")}
    below: dict[str, list[tuple[int, str]]] = {}
    for link in root.iter("{*}cxn"):
        if link.get("type", "parOf") == "parOf":
            entry = (number(link.get("srcOrd")) or 0, link.get("destId") or "")
            below.setdefault(link.get("srcId") or "", []).append(entry)
    starts = [name for name, point in points.items() if point.get("type") == "doc"]
    waiting = [(name, 0) for name in reversed([*starts, *(name for name in points if name not in starts)])]
    blocks, seen = list[Block](), set[str]()
    while waiting:
        name, level = waiting.pop()
        if name in seen or name not in points:
            continue
        seen.add(name)
        text = _point_text(points[name])
        if text:
            blocks.append(Block(text, "item", level, "-"))
        children = sorted(below.get(name, ()), reverse=True)
        waiting += [(child, min(level + bool(text), _MOST_LEVELS)) for _, child in children]
    return blocks


def _point_text(point: Element) -> str:
    body = point.find("{*}t")
    if body is None or point.get("type") in ("pres", "parTrans", "sibTrans"):
        return ""
    return " ".join(_runs(paragraph) for paragraph in body.iter("{*}p")).strip()


def _runs(element: Element) -> str:
    return " ".join("".join(node.text or "" for node in element.iter("{*}t", "{*}br")).split())


def _titles(root: Element) -> Iterator[str]:
    """Yield the titles of the chart and its axes, and labels that the author wrote."""
    for body in root.iter("{*}rich"):
        text = " ".join(filter(None, (_runs(paragraph) for paragraph in body.iter("{*}p"))))
        if text:
            yield text


def _rows(series: Sequence[_Series]) -> list[list[str]]:
    categories = series[0].categories
    indexes = sorted({index for one in series for index in (*one.values, *one.categories)})
    if not indexes:
        return []
    header = ["", *(one.name for one in series)]
    return [
        header,
        *([categories.get(index, str(index + 1)), *(one.values.get(index, "") for one in series)] for index in indexes),
    ]


def _classic_series(root: Element) -> Iterator[_Series]:
    for at, element in enumerate(root.iter("{*}ser"), start=1):
        name = " ".join(_points(element.find("{*}tx")).values()) or f"Series {at}"
        values = _points(_first(element, "val", "yVal"))
        for index, size in _points(element.find("{*}bubbleSize")).items():
            values[index] = f"{values.get(index, '')} ({size})"
        yield _Series(name, _categories(_first(element, "cat", "xVal")), values)


def _extended_series(root: Element) -> Iterator[_Series]:
    """Yield the series of charts of Office 2016, such as waterfalls and treemaps."""
    names: dict[str, str] = {}
    for series in root.iter("{*}series"):
        data, name = series.find("{*}dataId"), series.find(".//{*}txData/{*}v")
        if data is not None and name is not None:
            names[data.get("val") or ""] = name.text or ""
    for at, data in enumerate(root.iter("{*}data"), start=1):
        if local_name(data.getparent().tag) == "chartData":
            name = names.get(data.get("id") or "") or f"Series {at}"
            yield _Series(name, _categories(data.find("{*}strDim")), _points(data.find("{*}numDim")))


def _categories(element: Element | None) -> dict[int, str]:
    """Return the names of categories; names of several levels are joined, the outer ones first."""
    levels = [] if element is None else [_points(level) for level in element.iter("{*}lvl")]
    if not levels:
        return _points(element)
    names = dict(levels[0])
    for level in levels[1:]:
        outer = ""
        for index in sorted(names):
            outer = level.get(index, outer)
            names[index] = f"{outer} / {names[index]}" if outer else names[index]
    return names


def _points(element: Element | None) -> dict[int, str]:
    """Return stored values by their index."""
    if element is None:
        return {}
    code = element.find(".//{*}formatCode")
    form = "" if code is None else code.text or ""
    found: dict[int, str] = {}
    for point in element.iter("{*}pt"):
        stored = point.find("{*}v")
        text = (point.text if stored is None else stored.text) or ""
        index = number(point.get("idx"))
        found[len(found) if index is None else index] = _shown(" ".join(text.split()), point.get("formatCode") or form)
        if len(found) >= _MOST_POINTS:
            break
    if not found and (single := element.find("{*}v")) is not None:
        found[0] = " ".join((single.text or "").split())
    return found


def _shown(text: str, form: str) -> str:
    """Return a number as a percentage or a date if its format says so, and without the noise of its last digits."""
    form = _QUOTED.sub("", form)
    try:
        amount = float(text)
        if _DATE.search(form):
            return (_DAY_ZERO + timedelta(days=int(amount))).date().isoformat()
    except (ValueError, OverflowError):
        return text
    if "%" in form:
        return f"{amount * 100:.10g}%"
    return f"{amount:.12g}" if form else text


def _first(element: Element, *names: str) -> Element | None:
    found = (element.find("{*}" + name) for name in names)
    return next((one for one in found if one is not None), None)
