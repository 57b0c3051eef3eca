"""Header rows of tables in a sheet, recognised by their labels: texts, years and dates above other values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from shared.ingest.parse.readers.sheets.references import CellRange
from shared.ingest.parse.readers.sheets.tables import one_line

Cells = Mapping[int, str]
"""The cells of a row by column, from 0; none is blank."""

SEARCHED_ROWS = 30
"""A header is searched for in so many rows of a table."""

_ROWS_BELOW = 4
_MOST_HEADER_ROWS = 4
_LABELS_FILLED = 0.6
"""A header names this share of the columns that a row has."""

_NUMBER = re.compile(
    r"[^\w]{0,4}(?:[A-Z]{1,3}[ \u00a0]?)?[-+(]?\d[\d.,'\u2019/:%\s\u00a0-]{0,40}[^\w]{0,3}[A-Za-z€$£¥]{0,3}\)?\Z"
)
_YEAR = re.compile(r"(?:1[89]|20|21)\d\d\Z")
_LONG_NUMBER_CHARS = 60
Numbered = tuple[int, Cells]
Band = list[Numbered]


def header_rows(
    band: Band, declared: Collection[int], spans: Mapping[int, Sequence[tuple[int, int]]]
) -> tuple[int | None, int]:
    """Return the first row of the header in a band and the row after it; (None, 0) if it has none."""
    head = band[:SEARCHED_ROWS]
    at = next((index for index, (number, _) in enumerate(head) if number in declared), None)
    sure = at is not None
    if at is None:
        at = _labels_row(head, spans)
    if at is None or (at + 1 == len(band) and not sure):
        return None, 0
    first, after = at, at + 1
    while not sure and first and first > at - _MOST_HEADER_ROWS and _is_above(band[first - 1], band[first], spans):
        first -= 1
    while after - first < _MOST_HEADER_ROWS and after < len(band) - 1 and _is_below(band, after, spans):
        after += 1
    return first, after


def _labels_row(head: Band, spans: Mapping[int, Sequence[tuple[int, int]]]) -> int | None:
    """Return the first row that names most columns of the rows below it; None if a row of values is above it."""
    for index, (number, cells) in enumerate(head):
        below = sorted(
            len(following) for _, following in head[index + 1 : index + 1 + _ROWS_BELOW] if len(following) > 1
        )
        usual = below[len(below) // 2] if below else 0
        covered = len(cells) + sum(right - left for left, right in spans.get(number, ()))
        if len(cells) < 2 or covered < usual * _LABELS_FILLED:  # noqa: PLR2004 - one text is a title
            continue
        if _is_labels(cells):
            if len(cells) * 2 >= usual or _groups(head[index], spans):
                return index
        elif covered >= usual:
            return None
    return None


def _is_labels(cells: Cells) -> bool:
    return not any(is_value(text) for text in cells.values())


def is_value(text: str) -> bool:
    return is_number(text) and not _YEAR.match(text)


def is_number(text: str) -> bool:
    return len(text) < _LONG_NUMBER_CHARS and _NUMBER.match(text) is not None


def _groups(row: Numbered, spans: Mapping[int, Sequence[tuple[int, int]]]) -> Sequence[tuple[int, int]]:
    """Return the ranges of columns that the labels of a row are above of, if it has at least one merged range."""
    number, _ = row
    return [span for span in spans.get(number, ()) if span[1] > span[0]]


def _is_above(upper: Numbered, lower: Numbered, spans: Mapping[int, Sequence[tuple[int, int]]]) -> bool:
    """Return whether a row has labels of groups of the columns that the row below names."""
    cells, named = upper[1], lower[1]
    if upper[0] + 1 != lower[0] or not _is_labels(cells):
        return False
    if groups := _groups(upper, spans):
        whole = len(groups) == 1 and len(cells) == 1 and groups[0][1] - groups[0][0] + 1 >= len(named)
        return not whole
    if len(cells) < 2 or len(cells) * 2 > len(named) + 1:  # noqa: PLR2004 - one text is a title
        return False
    columns = sorted(named)
    starts = [column for column in cells if column in named]
    alone = [column for column in starts if column + 1 in cells or column + 1 not in named]
    return len(starts) == len(cells) and not alone and len(columns) > len(starts)


def _is_below(band: Band, at: int, spans: Mapping[int, Sequence[tuple[int, int]]]) -> bool:
    """Return whether the row `at` names the columns below the groups of the row above it."""
    upper, lower = band[at - 1], band[at]
    if upper[0] + 1 != lower[0] or not _is_labels(lower[1]):
        return False
    groups = _groups(upper, spans)
    grouped = {column for left, right in groups for column in range(left, min(right, left + 16_384) + 1)}
    both = [column for column in lower[1] if column in upper[1] and column not in grouped]
    numeric = any(
        is_value(text) for _, cells in band[at + 1 : at + 4] for column, text in cells.items() if column in lower[1]
    )
    if groups:
        labels = [text for column, text in lower[1].items() if column in grouped]
        repeated = len(set(labels)) < len(labels)
        return len(labels) > 1 and not both and (numeric or repeated or len(lower[1]) < len(upper[1]) + len(labels))
    gaps = {column for _, cells in band[at + 1 : at + 4] for column in cells} - set(upper[1])
    return bool(gaps) and gaps <= set(lower[1]) and not both and numeric and len(upper[1]) > 1


def column_names(
    header: Band, columns: Sequence[int], spans: Mapping[int, Sequence[tuple[int, int]]]
) -> dict[int, str]:
    """Return the name of each column, from all rows of the header; of no column if there is none."""
    names = dict.fromkeys(columns, "") if header else {}
    for depth, (number, cells) in enumerate(header):
        last = depth == len(header) - 1
        for column, text in _spread(cells, columns, spans.get(number, ()), last=last).items():
            if column in names:
                names[column] = _joined_name(names[column], one_line(text))
    return names


def _joined_name(upper: str, lower: str) -> str:
    if not upper or upper == lower:
        return lower
    return f"{lower} {upper}" if _YEAR.match(upper) and not _YEAR.match(lower) else f"{upper} {lower}"


def _spread(cells: Cells, columns: Sequence[int], spans: Iterable[tuple[int, int]], *, last: bool) -> Cells:
    """Return the labels of a header row in which the label of a group is repeated over its columns."""
    out = dict(cells)
    merged = dict(spans)
    wide = {left for left, right in merged.items() if right > left}
    for left, right in merged.items():
        if left in cells:
            out.update({column: cells[left] for column in columns if left <= column <= right})
    if last or wide:
        return out
    label = ""
    for column in columns:
        label = cells.get(column, label)
        if label and column not in merged:
            out.setdefault(column, label)
    return out


def spans_of(band: Band, merges: Sequence[CellRange]) -> dict[int, list[tuple[int, int]]]:
    """Return the merged ranges that start in the first rows of a band, by row."""
    rows = dict(band[:SEARCHED_ROWS])
    found: dict[int, list[tuple[int, int]]] = {}
    for merge in merges:
        if merge.top in rows and merge.left in rows[merge.top]:
            found.setdefault(merge.top, []).append((merge.left, merge.right))
    return found
