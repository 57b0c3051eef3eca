"""The table of gaps as CSV, which people open in spreadsheets."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

from features.gaps.schemas import GapView

_COLUMNS = (
    *("question", "state", "times", "last_7_days", "7_days_before", "distinct_questions", "first_asked", "last_asked"),
    *("nearest_document", "nearest_score", "assigned_to", "resolved_by", "id"),
)
# A spreadsheet evaluates a cell that starts with one of these signs, which some read in other widths as well.
_SIGNS = "=+\\-@\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b\u2212"
# A cell starts with its text, or after a semicolon, a tab or a line break if one of these separates cells.
_SEPARATORS = ";\t\r\n"
# Spaces and invisible characters, which some spreadsheets skip at the start of a cell.
_SKIPPED = "\\s\\x00-\\x1f\\x7f-\\x9f\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
_FORMULA = re.compile(f"(?<![;{_SKIPPED}])[;{_SKIPPED}]*(?=[{_SIGNS}])")


def table_of(views: Iterable[GapView]) -> bytes:
    """Return the table in UTF-8, with the byte order mark by which spreadsheets recognise it."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(_COLUMNS)
    for view in views:
        nearest, resolution = view.nearest, view.resolved_by
        row = (
            *(view.question, view.state, view.times, view.last_week, view.week_before, view.distinct_questions),
            *(view.first_at.isoformat(), view.last_at.isoformat()),
            *((nearest.external_id, nearest.score) if nearest else ("", "")),
            *(view.assigned_to or "", resolution.external_id if resolution else "", view.id),
        )
        writer.writerow([cell(value) for value in row])
    return file.getvalue().encode("utf-8-sig")


def cell(value: object) -> str:
    """Return the text of a cell, with an apostrophe before each formula that a spreadsheet would evaluate."""
    if not isinstance(value, str):
        return str(value)
    written = _FORMULA.sub(_disarmed, value)
    return f"'{written}" if written.startswith(tuple(_SEPARATORS[1:])) else written


def _disarmed(found: re.Match[str]) -> str:
    """Return the characters before a sign, with an apostrophe if a cell starts with them."""
    before = found[0]
    start = max(map(before.rfind, _SEPARATORS)) + 1
    return f"{before[:start]}'{before[start:]}" if start or not found.start() else before
