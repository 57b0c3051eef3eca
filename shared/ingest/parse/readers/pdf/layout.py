"""The order of a page: lines, columns and tables without ruling lines."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from shared.ingest.parse.readers.pdf.words import UNSPACED, Word

_LEVEL = 0.35  # of the font size: baselines that are not farther are one line
_WIDE = 1.1  # of the font size: a wider gap divides a line, as between columns
_WIDE_AFTER_LABEL = 4.0  # of the font size: the same after the number or bullet of a list
_APART = 2.6  # of the font size: lines that are farther apart belong to two tables
_MOST_DEPTH = 6
_LEAST_ROWS = 3
_TEXT_CHARS = 18  # median length of the lines of a text column
_TEXT_LINES = 4
_MANY_LINES = 8
_PAGE_LINES = 20
_MARK_CHARS = 4
_TWO_KINDS = 1.25  # a distance between rows is so much larger than one within a cell
_OFTEN = 0.3
_MOSTLY = 0.6
_FULL = 0.4
_FULL_WITHOUT_HEADER = 0.65  # the same if the first row has empty cells, as figures have
_PROSE_GAP = 2.0  # of the font size: a narrower gap between long texts is only a wide space
_PROSE_CHARS = 12
_HEADER_GAP = 0.5  # of the font size
_LABEL_GAP = 0.5  # of the font size
_FILLED_PAGE = 0.25  # the same for a column as long as a page: lists and questions have short lines
_FILLED = 0.55  # share of its width that the median line of a text column fills

LABEL = re.compile(
    r"(?:[•▪➢✓□■●○◦‣\u2043·∙*\u2013—-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]|\d{0,2}(?:\.\d{1,2}){1,3}\.?)$"
)
"""The number, letter or bullet of an item of a list."""

_RTL = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")


@dataclass(slots=True)
class Line:
    """Words on one baseline, in the order of reading; a part of a printed line between two wide gaps."""

    words: list[Word]
    x0: float
    x1: float
    y: float
    size: float
    divided: bool = False  # by a wide gap, or from the others in its figure
    table: Table | None = None  # in ruling lines, which this line represents

    @property
    def top(self) -> float:
        """Return the height of its letters' upper end."""
        return self.y + self.size * 0.75

    @property
    def bottom(self) -> float:
        """Return the height of its letters' lower end."""
        return self.y - self.size * 0.25

    @property
    def text(self) -> str:
        """Return its words with spaces."""
        return joined(self.words)

    @property
    def chars(self) -> int:
        """Return the number of its letters."""
        return sum(len(word.text) for word in self.words)


@dataclass(slots=True)
class Flow:
    """Lines of one column, from above."""

    lines: list[Line]


@dataclass(slots=True)
class Table:
    """Rows of cells; each cell has its lines."""

    rows: list[list[list[Line]]]
    edges: tuple[float, ...] = ()
    ruled: bool = False

    @property
    def lines(self) -> list[Line]:
        """Return the lines of all cells."""
        return [line for row in self.rows for cell in row for line in cell]


Item = Flow | Table


def joined(words: Sequence[Word]) -> str:
    """Return the words of a line with spaces between words that do not touch."""
    parts = list[str]()
    last: Word | None = None
    for word in words:
        if last and not _touches(last, word):
            parts.append(" ")
        parts.append(word.text)
        last = word
    return "".join(parts)


def _touches(last: Word, word: Word) -> bool:
    if word.glued:
        return True
    if UNSPACED.match(last.text[-1]) and UNSPACED.match(word.text[0]):
        return word.x0 - last.x1 < word.style.size / 2
    return False


def lines_of(words: Sequence[Word]) -> list[Line]:
    """Return the lines of a page, divided at wide gaps, from above."""
    chains = list[list[Word]]()
    for word in words:
        if word.glued and chains:
            chains[-1].append(word)
        else:
            chains.append([word])
    found = list[Line]()
    for row in _rows([_line(chain) for chain in chains]):
        found += _divided(row)
    return found


def _line(words: list[Word]) -> Line:
    largest = max(words, key=_size)
    return Line(words, min(word.x0 for word in words), max(word.x1 for word in words), largest.y, largest.style.size)


def _size(word: Word) -> float:
    return word.style.size


def _rows(lines: Iterable[Line]) -> list[list[Line]]:
    """Return lines by their baselines, from above; each row from the left."""
    rows = list[list[Line]]()
    y = size = 0.0
    for line in sorted(lines, key=lambda line: -line.y):
        if rows and y - line.y <= _LEVEL * min(size, line.size):
            rows[-1].append(line)
        else:
            rows.append([line])
            y, size = line.y, line.size
    for row in rows:
        row.sort(key=lambda line: line.x0)
    return rows


def _divided(row: list[Line]) -> list[Line]:
    """Join the neighbours of a row, except at wide gaps."""
    parts = list[list[Line]]()
    end = 0.0
    for chain in row:
        size = chain.size
        wide = _WIDE * (max(size, parts[-1][-1].size) if parts else size)
        if parts and len(parts[-1]) == 1 and LABEL.match(parts[-1][0].words[0].text):
            wide = _WIDE_AFTER_LABEL * size
        if parts and chain.x0 - end <= wide:
            parts[-1].append(chain)
        else:
            parts.append([chain])
            end = chain.x1
        end = max(end, chain.x1)
    return [_whole(part) for part in parts]


def _whole(chains: Sequence[Line]) -> Line:
    """Return neighbours as one line, in the order of reading."""
    largest = max(chains, key=lambda chain: (chain.chars, chain.size))
    words = [word for chain in _logical(chains) for word in chain.words]
    return Line(words, chains[0].x0, max(chain.x1 for chain in chains), largest.y, largest.size)


def _with_gaps(row: Sequence[Line]) -> Line:
    line = _whole(row)
    line.divided = True
    return line


def _logical(chains: Sequence[Line]) -> Sequence[Line]:
    """Return the words of a line in the order of reading, if it has words that are written from the right."""
    leading = [chain.words[0].text for chain in chains]
    right = sum(bool(_RTL.search(text)) for text in leading)
    if not right:
        return chains
    if right * 2 < sum(any(char.isalpha() for char in text) for text in leading):
        return _with_turned(chains, leading, right_to_left=False)
    return _with_turned(chains[::-1], leading[::-1], right_to_left=True)


def _with_turned(chains: Sequence[Line], leading: Sequence[str], *, right_to_left: bool) -> list[Line]:
    """Reverse the runs of words whose direction differs from their line's."""
    ordered, run = list[Line](), list[Line]()
    for chain, text in zip(chains, leading, strict=True):
        if bool(_RTL.search(text)) == right_to_left or (not right_to_left and not run):
            if bool(_RTL.search(text)) != right_to_left:
                run = [chain]
                continue
            ordered += [*run[::-1], chain]
            run = []
        else:
            run.append(chain)
    return [*ordered, *run[::-1]]


def is_right_to_left(lines: Sequence[Line]) -> bool:
    """Return whether most lines are written from the right."""
    return sum(bool(line.words and _RTL.search(line.words[0].text)) for line in lines) * 2 > len(lines)


def arranged(lines: Sequence[Line], depth: int = 0) -> list[Item]:
    """Return the lines of a region in the order of reading: columns one after the other, and tables."""
    items = list[Item]()
    for run in _runs(_rows(lines)):
        columns = _columns(line for row in run for line in row)
        if len(columns) == 1:
            _flow(items, run)
        elif depth < _MOST_DEPTH and (texts := _text_columns(run, columns)):
            parts = _by_column(run, texts)
            for part in parts[::-1] if is_right_to_left([line for row in run for line in row]) else parts:
                items += arranged(part, depth + 1)
        else:
            _tables(items, run)
    return items


def _flow(items: list[Item], rows: Iterable[Sequence[Line]]) -> None:
    for row in rows:
        items += [line.table for line in row if line.table]
        texts = [line for line in row if not line.table]
        if not texts:
            continue
        line = _with_gaps(texts) if len(texts) > 1 else texts[0]
        if items and isinstance(items[-1], Flow):
            items[-1].lines.append(line)
        else:
            items.append(Flow([line]))


def in_place_of(table: Table, box: tuple[float, float, float, float]) -> Line:
    """Return a line that represents a table with ruling lines."""
    left, bottom, right, top = box
    size = min(top - bottom, 12.0)
    return Line([], left, right, top - size, size, table=table)


def _runs(rows: Sequence[list[Line]]) -> list[list[list[Line]]]:
    """Divide rows where the number of columns changes from one to several, or the gaps between columns are closed."""
    runs = list[list[list[Line]]]()
    columns = list[list[float]]()
    for row in rows:
        own = _columns(row)
        together = _merged([*columns, *own]) if columns else own
        if runs and _continues(columns, own, together):
            runs[-1].append(row)
            columns = together
        else:
            runs.append([row])
            columns = own
    return runs


def _continues(columns: Sequence[list[float]], own: Sequence[list[float]], together: Sequence[list[float]]) -> bool:
    if len(columns) == 1:
        return len(own) == 1 or len(together) > 1
    return len(together) > 1


def _columns(lines: Iterable[Line]) -> list[list[float]]:
    return _merged([[line.x0, line.x1] for line in lines])


def _merged(spans: list[list[float]]) -> list[list[float]]:
    """Return the spans that overlapping spans cover, from the left."""
    merged = list[list[float]]()
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def _by_column(rows: Iterable[Sequence[Line]], columns: Sequence[Sequence[float]]) -> list[list[Line]]:
    starts = [start for start, _ in columns]
    parts: list[list[Line]] = [[] for _ in columns]
    for row in rows:
        for line in row:
            parts[max(0, bisect_right(starts, line.x0 + 0.5) - 1)].append(line)
    return parts


def _text_columns(rows: Sequence[Sequence[Line]], columns: Sequence[list[float]]) -> Sequence[list[float]]:
    """Return the columns that are read one after the other; none if they are cells of a table."""
    parts = _by_column(rows, columns)
    texts = [_is_text(part, end - start) for part, (start, end) in zip(parts, columns, strict=True)]
    if all(texts):
        return columns
    if sum(texts) > 1 and all(len(part) >= _MANY_LINES for part, text in zip(parts, texts, strict=True) if text):
        return [column for index, column in enumerate(columns) if texts[index] or not index]
    beside = len(columns) == 2 and any(texts) and not _are_level(rows)  # noqa: PLR2004 - a column of text and another one
    return columns if beside and not _is_marginal(parts[0]) else ()


def _is_marginal(lines: Sequence[Line]) -> bool:
    """Return whether a column has only numbers or marks of the lines next to it."""
    return all(line.chars <= _MARK_CHARS and not line.table for line in lines)


def _is_text(lines: Sequence[Line], width: float) -> bool:
    if len(lines) < _TEXT_LINES:
        return False
    least = _FILLED if len(lines) < _PAGE_LINES else _FILLED_PAGE
    filled = median(line.x1 - line.x0 for line in lines) >= width * least
    return filled and median(line.chars for line in lines) >= _TEXT_CHARS


def _are_level(rows: Sequence[Sequence[Line]]) -> bool:
    """Return whether most rows have several cells."""
    return sum(len(row) > 1 for row in rows) * 2 >= len(rows)


def _tables(items: list[Item], rows: Sequence[list[Line]]) -> None:
    for part in _parts(rows):
        if any(line.table for line in part[0]):
            _flow(items, part)
            continue
        lead = int(_is_header_line(part))
        while lead < len(part) - _LEAST_ROWS and _is_caption(part[lead]):
            lead += 1
        if lead:
            _flow(items, part[:lead])
            part = part[lead:]  # noqa: PLW2901
        columns = _columns(line for row in part for line in row)
        several = sum(len(row) > 1 for row in part)
        table = _table(part, columns) if len(columns) > 1 and several >= _LEAST_ROWS else None
        if table and not _are_labels(part, len(columns)) and _is_filled(table) and not _is_prose(part, columns):
            items.append(table)
        else:
            _untabled(items, part, columns, is_figure=bool(table) and len(columns) > 2)  # noqa: PLR2004 - columns of text


def _untabled(
    items: list[Item], rows: Sequence[list[Line]], columns: Sequence[list[float]], *, is_figure: bool
) -> None:
    """Add rows that are not a table: the labels of a figure, columns, or lines."""
    if is_figure and not _are_labels(rows, len(columns)):
        for label in _labels(rows):
            for line in label:
                line.divided = True
            items.append(Flow(label))
        return
    parts = _by_column(rows, columns)
    if sum(len(row) > 1 for row in rows) * 2 < len(rows) and len(columns) > 1 and not _is_marginal(parts[0]):
        for column in parts:
            _flow(items, _rows(column))
    else:
        _flow(items, rows)


def _is_filled(table: Table) -> bool:
    """Return whether enough cells have text; scattered words fill only few."""
    cells = [bool(cell) for row in table.rows for cell in row]
    least = _FULL if all(table.rows[0]) else _FULL_WITHOUT_HEADER
    return len(table.rows) > 1 and sum(cells) >= len(cells) * least


def _is_prose(rows: Sequence[Sequence[Line]], columns: Sequence[list[float]]) -> bool:
    """Return whether two columns are the halves of lines with wide spaces at about the same position."""
    if len(columns) > 2 or columns[1][0] - columns[0][1] > _PROSE_GAP * rows[0][0].size:  # noqa: PLR2004
        return False
    return all(median(line.chars for line in part) >= _PROSE_CHARS for part in _by_column(rows, columns))


def _labels(rows: Iterable[Sequence[Line]]) -> list[list[Line]]:
    """Return the lines of a figure by its labels: lines below each other that are close are one label."""
    labels = list[list[Line]]()
    open_labels = list[list[Line]]()
    for row in rows:
        below = list[list[Line]]()
        for line in row:
            near = (label for label in open_labels if _is_under(label[-1], line))
            if label := next(near, None):
                label.append(line)
                open_labels.remove(label)
            else:
                label = [line]
                labels.append(label)
            below.append(label)
        lowest = row[0].y - _APART * row[0].size
        open_labels = [*below, *(label for label in open_labels if label[-1].y > lowest)]
    return labels


def _is_under(above: Line, line: Line) -> bool:
    shared = min(above.x1, line.x1) - max(above.x0, line.x0)
    size = min(above.size, line.size)
    near = above.bottom - line.top <= _LABEL_GAP * size and abs(above.size - line.size) <= _LABEL_GAP * size
    return near and shared >= min(above.x1 - above.x0, line.x1 - line.x0) / 2


def _are_labels(rows: Sequence[Sequence[Line]], columns: int) -> bool:
    """Return whether rows are labels with a colon, each in front of its value, as in forms."""
    ended = sum(row[0].words[-1].text.endswith((":", "\uff1a")) for row in rows)
    return columns == 2 and ended * 2 > len(rows)  # noqa: PLR2004


def _is_header_line(rows: Sequence[Sequence[Line]]) -> bool:
    """Return whether the first row is the header of a page: several texts over a line of its own that is apart."""
    if len(rows) <= _LEAST_ROWS or len(rows[0]) == 1 or any(len(row) > 1 for row in rows[1:_LEAST_ROWS]):
        return False
    return rows[0][0].bottom - rows[1][0].top > _HEADER_GAP * rows[0][0].size


def _is_caption(row: Sequence[Line]) -> bool:
    return len(row) == 1


def _parts(rows: Sequence[list[Line]]) -> list[list[list[Line]]]:
    """Divide rows at large gaps."""
    parts = [[rows[0]]]
    for row in rows[1:]:
        above = parts[-1][-1]
        gap = min(line.bottom for line in above) - max(line.top for line in row)
        if gap > _APART * row[0].size or any(line.table for line in (*above, *row)):
            parts.append([])
        parts[-1].append(row)
    return parts


def _table(rows: Sequence[list[Line]], columns: Sequence[list[float]]) -> Table:
    cells = [_by_column([row], columns) for row in rows]
    table = list[list[list[Line]]]()
    limit = _pitch_limit(rows, cells)
    for index, row in enumerate(cells):
        if table and _wraps(rows[index - 1], rows[index], row, limit):
            for cell, more in zip(table[-1], row, strict=True):
                cell.extend(more)
        else:
            table.append(row)
    return Table(_with_whole_header(table), tuple(start for start, _ in columns))


def _with_whole_header(rows: list[list[list[Line]]]) -> list[list[list[Line]]]:
    """Join a second line of a header with the first one: it has gaps and no numbers, as the rows below it have."""
    if len(rows) <= _LEAST_ROWS or all(rows[1]) or any(map(_has_digit, rows[1])):
        return rows
    if not all(any(map(_has_digit, row)) for row in rows[2:]):
        return rows
    return [[above + below for above, below in zip(rows[0], rows[1], strict=True)], *rows[2:]]


def _has_digit(cell: Sequence[Line]) -> bool:
    return any(char.isdigit() for line in cell for word in line.words for char in word.text[:1])


def _pitch_limit(rows: Sequence[list[Line]], cells: Sequence[Sequence[list[Line]]]) -> float:
    """Return the distance below which a printed line continues the row above it; 0 if cells do not wrap.

    The distances must be of two kinds, both frequent: one large gap is only the header's. Lines of a cell that wraps
    are next to cells without text.
    """
    pitches = [above[0].y - below[0].y for above, below in pairwise(rows)]
    least, most = min(pitches), max(pitches)
    limit = (least + most) / 2
    large = sum(pitch > limit for pitch in pitches)
    if most < least * _TWO_KINDS or large < len(pitches) * _OFTEN:
        return 0.0
    near = [index for index, pitch in enumerate(pitches) if pitch <= limit]
    partial = sum(not all(cells[index]) or not all(cells[index + 1]) for index in near)
    return limit if partial >= len(near) * _MOSTLY else 0.0


def _wraps(above: Sequence[Line], below: Sequence[Line], cells: Sequence[list[Line]], limit: float) -> bool:
    """Return whether a printed line continues the cells of the row above it."""
    if limit:
        return above[0].y - below[0].y < limit
    return not cells[0] and sum(map(bool, cells)) * 2 <= len(cells)


def normal(text: str) -> str:
    """Return the letters and digits of a text in one case, to compare it."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))
