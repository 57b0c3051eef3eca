"""The columns of a page: rows that have the same columns, and columns that are read one after the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from shared.ingest.parse.readers.pdf.layout.lines import PageLine, divided
from shared.ingest.parse.readers.pdf.text.words import Word

_GAP = 0.6  # of the font size: wider than a space
_ESTABLISHED = 3  # rows with several columns: a line may be the cells of two columns whose gap is narrow
_NOTE_SIZE, _NOTE_GAP = 0.92, 0.5  # of the font size of a column, and of its footnotes
_TEXT_CHARS = 18  # median length of the lines of a text column
_TEXT_LINES = 4
_MANY_LINES = 8
_PAGE_LINES = 20
_MARK_CHARS = 4
_TABLE_ROWS = 3
_MOST_LEVEL = 0.7  # share of the rows of a table that happen to be level with lines of the text next to it
_LEAST_NUMBERS = 8
_RUNNING = 0.8  # share of its width that the median line of running text fills
_FILLED_PAGE = 0.25  # the same for a column as long as a page: lists and questions have short lines
_FILLED = 0.55  # share of its width that the median line of a text column fills


def runs(rows: Sequence[list[PageLine]]) -> list[list[list[PageLine]]]:
    """Divide rows where the number of columns changes from one to several, or the gaps between columns are closed."""
    runs = list[list[list[PageLine]]]()
    columns = list[list[float]]()
    established = 0
    for row in rows:
        own = columns_of(row)
        together = merged([*columns, *own]) if columns else own
        if established >= _ESTABLISHED and len(together) == 1:
            row = at_columns(row, columns, wide=True)  # noqa: PLW2901
            own = columns_of(row)
            together = merged([*columns, *own])
        if runs and _continues(columns, own, together):
            runs[-1].append(row)
            columns = together
        else:
            runs.append([row])
            columns, established = own, 0
        established += len(row) > 1
    return runs


def with_first_lines(runs: list[list[list[PageLine]]]) -> list[list[list[PageLine]]]:
    """Move single lines above columns of text into them, if one is the first line of another column than the first."""
    for above, below in pairwise(runs):
        columns = columns_of(line for row in below for line in row)
        if len(columns) < 2 or len(above[-1]) > 1 or not text_columns(below, columns):  # noqa: PLR2004 - columns
            continue
        start = len(above)
        for at in range(len(above) - 1, -1, -1):
            inside = [
                column for column in columns if column[0] - 1 <= above[at][0].x0 and above[at][0].x1 <= column[1] + 1
            ]
            if len(above[at]) > 1 or not inside:
                break
            start = at if inside[0] != columns[0] else start
        below[:0] = above[start:]
        del above[start:]
    return [run for run in runs if run]


def at_columns(row: Iterable[PageLine], columns: Sequence[Sequence[float]], *, wide: bool = False) -> list[PageLine]:
    """Return the lines of a row; a line over the gap between two columns is divided if no word crosses the gap.

    Args:
        row: the lines.
        columns: left and right end of each column.
        wide: whether the gap must be wider than a space, because the row may be no part of the columns.
    """
    starts = [start for start, _ in columns]

    def is_gap(last: Word, word: Word) -> bool:
        return _is_between(last, word, starts) and (not wide or _is_gap(last, word))

    return [part for line in row for part in divided(line, is_gap)]


def _is_between(last: Word, word: Word, starts: Sequence[float]) -> bool:
    """Return whether a column starts between two words, or with the second one."""
    at = bisect_left(starts, last.x1)
    return at < len(starts) and starts[at] <= word.x0 + 1


def split_at_gaps(row: Iterable[PageLine]) -> list[PageLine]:
    """Return the lines of a row, divided at gaps that are wider than spaces."""
    return [part for line in row for part in divided(line, _is_gap)]


def _is_gap(last: Word, word: Word) -> bool:
    return word.x0 - last.x1 > _GAP * last.style.size


def _continues(columns: Sequence[list[float]], own: Sequence[list[float]], together: Sequence[list[float]]) -> bool:
    if len(columns) == 1:
        return len(own) == 1 or len(together) > 1
    return len(together) > 1


def columns_of(lines: Iterable[PageLine]) -> list[list[float]]:
    return merged([[line.x0, line.x1] for line in lines])


def merged(spans: list[list[float]]) -> list[list[float]]:
    """Return the spans that overlapping spans cover, from the left."""
    merged = list[list[float]]()
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def by_column(rows: Iterable[Sequence[PageLine]], columns: Sequence[Sequence[float]]) -> list[list[PageLine]]:
    starts = [start for start, _ in columns]
    parts: list[list[PageLine]] = [[] for _ in columns]
    for row in rows:
        for line in row:
            parts[max(0, bisect_right(starts, line.x0 + 0.5) - 1)].append(line)
    return parts


def text_columns(rows: Sequence[Sequence[PageLine]], columns: Sequence[list[float]]) -> Sequence[list[float]]:
    """Return the columns that are read one after the other; none if they are cells of a table."""
    parts = by_column(rows, columns)
    if _have_line_numbers(parts, columns):
        return columns
    texts = [is_text(part, end - start) for part, (start, end) in zip(parts, columns, strict=True)]
    if all(texts):
        return columns
    if sum(texts) > 1 and all(len(part) >= _MANY_LINES for part, text in zip(parts, texts, strict=True) if text):
        return [column for index, column in enumerate(columns) if texts[index] or not index]
    if sum(texts) == 1 and len(columns) > 2 and _is_beside(rows, parts[texts.index(True)], columns[texts.index(True)]):  # noqa: PLR2004
        if texts[-1]:
            return [columns[0], columns[-1]]
        if texts[0]:
            return columns[:2]
    are_blocks = len(columns) == 2 and any(texts) and not _are_level(rows, columns)  # noqa: PLR2004 - a column of text and a second column
    return columns if are_blocks and not is_marginal(parts[0]) else ()


def _is_beside(rows: Sequence[Sequence[PageLine]], text: Sequence[PageLine], column: Sequence[float]) -> bool:
    """Return whether a column is running text next to a table, whose rows are at other heights than its lines."""
    start, end = column
    if len(text) < _MANY_LINES or not _runs_on(text):
        return False
    if median(line.x1 - line.x0 for line in text) < (end - start) * _RUNNING:
        return False
    lines = set(map(id, text))
    others = [row for row in rows if any(id(line) not in lines for line in row)]
    level = sum(any(id(line) in lines for line in row) for row in others)
    return len(others) >= _TABLE_ROWS and level <= len(others) * _MOST_LEVEL


def _have_line_numbers(parts: Sequence[Sequence[PageLine]], columns: Sequence[Sequence[float]]) -> bool:
    """Return whether the outer column only counts the lines of a column of running text, as manuscripts do."""
    if len(columns) != 2:  # noqa: PLR2004 - text and numbers
        return False
    left, right = parts
    for numbers, text, (start, end) in ((left, right, columns[1]), (right, left, columns[0])):
        values = [_number(line) for line in numbers]
        steps = {two - one for one, two in pairwise(values)}
        if len(values) >= _LEAST_NUMBERS and steps == {1}:
            return _runs_on(text) and median(line.x1 - line.x0 for line in text) >= (end - start) * _RUNNING
    return False


def _runs_on(lines: Sequence[PageLine]) -> bool:
    """Return whether sentences continue on the next line, unlike notes and items of lists."""
    return sum(line.words[0].text[:1].islower() for line in lines if line.words) * 4 >= len(lines) > 0


def _number(line: PageLine) -> int:
    """Return the number that is all of a line; 0 if there is another text."""
    text = line.words[0].text if len(line.words) == 1 else ""
    return int(text) if text.isdecimal() and len(text) <= _MARK_CHARS else 0


def with_notes_last(parts: Sequence[list[PageLine]]) -> list[list[PageLine]]:
    """Return columns of text, and the footnotes of all columns but the last one as a part after them."""
    notes = list[PageLine]()
    kept = list[list[PageLine]]()
    for part in parts[:-1]:
        end = _notes_start(part)
        kept.append(part[:end])
        notes += part[end:]
    return [*kept, parts[-1], notes] if notes else list(parts)


def _notes_start(lines: Sequence[PageLine]) -> int:
    """Return the number of lines of a column above its footnotes, which are smaller and apart."""
    usual = median(line.size for line in lines) if lines else 0.0
    start = len(lines)
    while start and lines[start - 1].size <= _NOTE_SIZE * usual and not lines[start - 1].table:
        start -= 1
    if not len(lines) * 2 / 3 <= start < len(lines):
        return len(lines)
    return start if lines[start - 1].bottom - lines[start].top > _NOTE_GAP * lines[start].size else len(lines)


def is_marginal(lines: Sequence[PageLine]) -> bool:
    """Return whether a column has only numbers or marks of the lines next to it."""
    return all(line.chars <= _MARK_CHARS and not line.table for line in lines)


def is_text(lines: Sequence[PageLine], width: float) -> bool:
    """Return whether the lines of a column are long enough for running text."""
    if len(lines) < _TEXT_LINES:
        return False
    least = _FILLED if len(lines) < _PAGE_LINES else _FILLED_PAGE
    filled = median(line.x1 - line.x0 for line in lines) >= width * least
    return filled and median(line.chars for line in lines) >= _TEXT_CHARS


def _are_level(rows: Sequence[Sequence[PageLine]], columns: Sequence[Sequence[float]]) -> bool:
    """Return whether most rows have cells in both columns."""
    end = columns[0][1]
    return sum(row[0].x0 <= end < row[-1].x0 for row in rows) * 2 >= len(rows)
