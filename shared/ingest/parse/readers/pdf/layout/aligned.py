"""Tables without ruling lines, from cells that are aligned in columns; figures and forms only look like them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median

from shared.ingest.parse.readers.pdf.layout.cells import (
    are_flush,
    cells_of,
    crosses,
    ends_header,
    is_bold,
    is_value,
    table_columns,
    with_whole_header,
)
from shared.ingest.parse.readers.pdf.layout.columns import at_columns, by_column, columns_of, is_marginal
from shared.ingest.parse.readers.pdf.layout.lines import FIELD, Flow, Item, PageLine, PageTable, add_lines, rows_of

_APART = 2.6  # of the font size: lines that are farther apart belong to two tables
_LEAST_ROWS = 3
_MOST_TOTALS = 8
_SAME_END = 6.0  # points
_FLUSH = 2.0  # points
_LEAST_SCALE = 4  # numbers of an axis
_TWO_KINDS = 1.25  # a distance between rows is so much larger than one within a cell
_BESIDE = 1.1  # of the font size: texts next to each other are farther apart than the words of a line
_MOST_NEIGHBOURS = 500  # texts next to each other
_OTHER_SIZE = 0.08
_OFTEN = 0.3
_MOSTLY = 0.6
_FULL = 0.4
_FULL_WITHOUT_HEADER = 0.65  # the same if the first row has empty cells, as figures have
_FULL_COLUMNS, _MANY_ROWS = 3, 6  # a table of many rows with so many columns of numbers may have empty columns
_PROSE_GAP = 2.0  # of the font size: a narrower gap between long texts is only a wide space
_PROSE_CHARS = 12
_HEADER_GAP = 0.5  # of the font size
_LABEL_GAP = 0.5  # of the font size


def add_tables(items: list[Item], rows: Sequence[list[PageLine]]) -> None:
    """Add the tables in rows of lines, and the lines around them."""
    for part in _parts(rows):
        if any(line.table for line in part[0]):
            add_lines(items, part)
            continue
        lead = int(_is_header_line(part))
        while lead < len(part) - _LEAST_ROWS and (_is_caption(part[lead]) or _is_above_title(part[lead:])):
            lead += 1
        _add_rows(items, part[:lead])
        part = part[lead:]  # noqa: PLW2901
        end = _end(part)
        totals = _totals(part[:end])
        if table := table_of(part[: end - totals]):
            table.rows += [_total(row, len(table.edges)) for row in part[end - totals : end]]
            items.append(table)
            add_lines(items, part[end:])
        else:
            _add_untabular(items, part)


def table_of(rows: Sequence[list[PageLine]]) -> PageTable | None:
    """Return the table that rows are; None if they are labels in front of values, prose, or scattered words."""
    columns = table_columns(rows)
    several = sum(len(row) > 1 for row in rows)
    if len(columns) < 2 or several < _LEAST_ROWS:  # noqa: PLR2004 - a table has two of both
        return None
    table = _table(rows, columns)
    is_table = not _are_labels(rows, len(columns)) and _is_filled(table) and are_flush(table.rows)
    is_table = is_table and not _is_prose(rows, columns) and not _are_blocks_beside(rows, columns)
    return table if is_table else None


def _end(rows: Sequence[list[PageLine]]) -> int:
    """Return the number of rows up to the end of a table: paragraphs below it start at no column."""
    end = len(rows)
    if len(rows[-1]) > 1:
        return end
    columns = table_columns([row for row in rows if len(row) > 1])
    starts = sorted(line.x0 for row in rows if len(row) > 1 for line in row)
    while end > 1 and len(at_columns(rows[end - 1], columns)) == 1:
        (line,) = rows[end - 1]
        if not crosses([line], columns) and bisect_left(starts, line.x0 - 1) < bisect_right(starts, line.x0 + 1):
            break
        end -= 1
    return end


def _totals(rows: Sequence[list[PageLine]]) -> int:
    """Return the number of rows at the end that are totals: a label, and a number below the numbers of a column."""
    count = 0
    while count < min(_MOST_TOTALS, len(rows) - _LEAST_ROWS) and _is_total(rows, len(rows) - 1 - count):
        count += 1
    above = rows[: len(rows) - count]
    columns = table_columns(above) if count else []
    return count if len(columns) > max(2, len(table_columns(rows))) else 0


def _is_total(rows: Sequence[list[PageLine]], at: int) -> bool:
    label, *numbers = rows[at]
    if len(numbers) != 1 or len(rows[0]) <= 2 or not is_value(numbers):  # noqa: PLR2004 - a label and a number
        return False
    return label.x0 > rows[0][0].x1 and abs(numbers[0].x1 - rows[at - 1][-1].x1) <= _SAME_END


def _total(row: Sequence[PageLine], columns: int) -> list[list[PageLine]]:
    return [*([] for _ in range(columns - 2)), [row[0]], [row[1]]]


def _add_untabular(items: list[Item], rows: Sequence[list[PageLine]]) -> None:
    """Add rows that are not a table: the labels of a figure, columns, or lines."""
    columns = columns_of(line for row in rows for line in row)
    several = sum(len(row) > 1 for row in rows)
    if len(columns) > 2 and several >= _LEAST_ROWS and not _are_labels(rows, len(columns)):  # noqa: PLR2004 - of text
        _add_labels(items, rows)
        return
    lead = _above(rows)
    _add_rows(items, rows[:lead])
    rows = rows[lead:]
    if (several == 1 and any(map(_is_scale, rows))) or _are_boxes(rows):
        _add_labels(items, rows)
        return
    columns = columns_of(line for row in rows for line in row)
    parts = by_column(rows, columns)
    longer = sum(len(part) > 1 for part in parts)
    are_columns = several * 2 < len(rows) or (len(columns) == 2 and _are_blocks_beside(rows, columns))  # noqa: PLR2004
    if are_columns and longer > 1 and not is_marginal(parts[0]):
        for column in parts:
            add_lines(items, rows_of(column))
    else:
        _add_rows(items, rows)


def _add_rows(items: list[Item], rows: Sequence[list[PageLine]]) -> None:
    """Add rows; texts next to each other whose lines are at other heights are read one after the other."""
    if sum(_are_beside(above, below) for above, below in pairwise(rows)) > 1:
        _add_labels(items, rows)
    else:
        add_lines(items, rows)


def _are_beside(above: Sequence[PageLine], below: Sequence[PageLine]) -> bool:
    """Return whether a line is lower than another one of its size next to it, but not below it."""
    if len(above) > 1 or len(below) > 1 or abs(above[0].size - below[0].size) > _OTHER_SIZE * below[0].size:
        return False
    one, two = above[0], below[0]
    return one.bottom < two.top and max(one.x0, two.x0) - min(one.x1, two.x1) > _BESIDE * one.size


def _add_labels(items: list[Item], rows: Iterable[Sequence[PageLine]]) -> None:
    for label in _labels(rows):
        for line in label:
            line.divided = True
        items.append(Flow(label))


def _are_boxes(rows: Sequence[Sequence[PageLine]]) -> bool:
    """Return whether rows are texts of several lines next to each other, and no labels in front of values.

    The texts are centred, as in boxes, or three or more, such as captions or labels above values.
    """
    neighbours = [line for row in rows if len(row) > 1 for line in row]
    if len(neighbours) > _MOST_NEIGHBOURS or any(
        FIELD.match(line.text) or line.text.endswith((":", "\uff1a")) for line in neighbours
    ):
        return False
    several = [label for label in _labels(rows) if len(label) > 1]
    are_few = len(several) > 2 and len(rows) <= _LEAST_ROWS  # noqa: PLR2004 - two texts may be a label and a value
    if are_few and all(len(row) == len(several) for row in rows):
        return True
    if any(is_value([line]) for line in neighbours):
        return False
    centred = filter(_is_centred, several)
    return any(one[0].y > two[-1].y and two[0].y > one[-1].y for one, two in pairwise(centred))


def _is_centred(lines: Sequence[PageLine]) -> bool:
    return _extent(lines, _middle) <= _FLUSH < _extent(lines, _start)


def _is_scale(row: Sequence[PageLine]) -> bool:
    """Return whether a row has only numbers, as the axis of a chart has."""
    return len(row) >= _LEAST_SCALE and all(is_value([line]) for line in row)


def _above(rows: Sequence[list[PageLine]]) -> int:
    """Return the number of rows at the start that have one line each, above all rows below them, as titles have."""
    pairs = enumerate(pairwise([*rows, []]))
    apart = (
        at for at, (row, below) in pairs if len(row) > 1 or (below and row[0].bottom < max(line.top for line in below))
    )
    return next(apart, len(rows))


def _is_filled(table: PageTable) -> bool:
    """Return whether enough cells have text; scattered words fill only few."""
    cells = [bool(cell) for row in table.rows for cell in row]
    header = all(table.rows[0])
    least = _FULL if header else _FULL_WITHOUT_HEADER
    if len(table.rows) >= (_LEAST_ROWS - 1 if header else _LEAST_ROWS) and sum(cells) >= len(cells) * least:
        return True
    if len(table.rows) < _MANY_ROWS:
        return False
    numbers = (sum(map(is_value, column)) for column in zip(*table.rows, strict=True))
    return sum(count >= len(table.rows) - 1 for count in numbers) >= _FULL_COLUMNS


def _is_prose(rows: Sequence[Sequence[PageLine]], columns: Sequence[list[float]]) -> bool:
    """Return whether two columns are the halves of lines with wide spaces at about the same position."""
    if len(columns) > 2 or columns[1][0] - columns[0][1] > _PROSE_GAP * rows[0][0].size:  # noqa: PLR2004
        return False
    return all(median(line.chars for line in part) >= _PROSE_CHARS for part in by_column(rows, columns))


def _labels(rows: Iterable[Sequence[PageLine]]) -> list[list[PageLine]]:
    """Return the lines of a figure by its labels: lines below each other that are close are one label."""
    labels = list[list[PageLine]]()
    open_labels = list[list[PageLine]]()
    for row in rows:
        below = list[list[PageLine]]()
        for line in row:
            near = (label for label in open_labels if _is_under(label[-1], line))
            if label := next(near, None):
                label.append(line)
                open_labels.remove(label)
            else:
                label = [line]
                labels.append(label)
            below.append(label)
        highest = row[0].y + _APART * row[0].size
        open_labels = [*below, *(label for label in open_labels if label[-1].y < highest)]
    return labels


def _is_under(above: PageLine, line: PageLine) -> bool:
    shared = min(above.x1, line.x1) - max(above.x0, line.x0)
    size = min(above.size, line.size)
    near = above.bottom - line.top <= _LABEL_GAP * size and abs(above.size - line.size) <= _LABEL_GAP * size
    return near and shared >= min(above.x1 - above.x0, line.x1 - line.x0) / 2


def _are_labels(rows: Sequence[Sequence[PageLine]], columns: int) -> bool:
    """Return whether rows are labels with a colon, each in front of its value, as in forms."""
    ended = sum(row[0].words[-1].text.endswith((":", "\uff1a")) for row in rows)
    return columns == 2 and ended * 2 > len(rows)  # noqa: PLR2004


def _are_blocks_beside(rows: Sequence[Sequence[PageLine]], columns: Sequence[list[float]]) -> bool:
    """Return whether two columns are blocks of a letter's or page's head: the second has fields, or is flush right."""
    if len(columns) > 2:  # noqa: PLR2004
        return False
    left, right = by_column(rows, columns)
    fields = sum(bool(FIELD.match(line.text)) for line in right)
    if any(FIELD.match(line.text) for line in left):
        return False
    return fields >= max(2, len(right) * _MOSTLY) or (_is_flush_right(right) and _extent(left, _start) <= _FLUSH)


def _is_flush_right(lines: Sequence[PageLine]) -> bool:
    """Return whether lines of letters end, but do not start, at one distance from the left."""
    words = all(line.words and line.words[0].text[:1].isalpha() for line in lines)
    return words and len(lines) >= _LEAST_ROWS and _extent(lines, _end_of) <= _FLUSH < _extent(lines, _start)


def _extent(lines: Iterable[PageLine], position: Callable[[PageLine], float]) -> float:
    positions = [position(line) for line in lines]
    return max(positions) - min(positions)


def _middle(line: PageLine) -> float:
    return (line.x0 + line.x1) / 2


def _start(line: PageLine) -> float:
    return line.x0


def _end_of(line: PageLine) -> float:
    return line.x1


def _is_header_line(rows: Sequence[Sequence[PageLine]]) -> bool:
    """Return whether the first row is the header of a page: several texts over a line of its own that is apart."""
    if len(rows) <= _LEAST_ROWS or len(rows[0]) == 1 or any(len(row) > 1 for row in rows[1:_LEAST_ROWS]):
        return False
    return rows[0][0].bottom - rows[1][0].top > _HEADER_GAP * rows[0][0].size


def _is_caption(row: Sequence[PageLine]) -> bool:
    return len(row) == 1


def _is_above_title(rows: Sequence[Sequence[PageLine]]) -> bool:
    """Return whether the first row is in front of the title of a table with more columns."""
    first, title, header, *_ = rows
    return len(title) == 1 and len(header) > len(first) and is_bold(title) and not is_bold(first)


def _parts(rows: Sequence[list[PageLine]]) -> list[list[list[PageLine]]]:
    """Divide rows at large gaps."""
    parts = [[rows[0]]]
    for row in rows[1:]:
        above = parts[-1][-1]
        gap = min(line.bottom for line in above) - max(line.top for line in row)
        if gap > _APART * row[0].size or any(line.table for line in (*above, *row)):
            parts.append([])
        parts[-1].append(row)
    return parts


def _table(rows: Sequence[list[PageLine]], columns: Sequence[list[float]]) -> PageTable:
    cells = [cells_of(row, columns) for row in rows]
    table = list[list[list[PageLine]]]()
    limit = _pitch_limit(rows, cells)
    for index, row in enumerate(cells):
        if table and _wraps(rows[index - 1], rows[index], table[-1], row, limit):
            for cell, more in zip(table[-1], row, strict=True):
                cell.extend(more)
        else:
            table.append(row)
    return PageTable(with_whole_header(_with_second_line(table), columns), tuple(start for start, _ in columns))


def _with_second_line(rows: list[list[list[PageLine]]]) -> list[list[list[PageLine]]]:
    """Join a second line of a header with the first one: it has gaps and no numbers, as the rows below it have."""
    if len(rows) <= _LEAST_ROWS or not all(rows[0]) or all(rows[1]) or any(map(_has_digit, rows[1])):
        return rows
    if not all(any(map(_has_digit, row)) for row in rows[2:]):
        return rows
    return [[above + below for above, below in zip(rows[0], rows[1], strict=True)], *rows[2:]]


def _has_digit(cell: Sequence[PageLine]) -> bool:
    return any(char.isdigit() for line in cell for word in line.words for char in word.text[:1])


def _pitch_limit(rows: Sequence[list[PageLine]], cells: Sequence[Sequence[list[PageLine]]]) -> float:
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


def _wraps(
    above: Sequence[PageLine],
    below: Sequence[PageLine],
    last: Sequence[Sequence[PageLine]],
    cells: Sequence[Sequence[PageLine]],
    limit: float,
) -> bool:
    """Return whether a printed line continues the cells of the row above it."""
    if ends_header(above, below):
        return False
    if limit:
        return above[0].y - below[0].y < limit and _numbers_below_numbers(last, cells) <= 1
    few = not cells[0] and sum(map(bool, cells)) * 2 <= len(cells)
    return few and not _is_below_number(last, cells) and not _numbers_below_numbers(last, cells)


def _numbers_below_numbers(last: Sequence[Sequence[PageLine]], cells: Sequence[Sequence[PageLine]]) -> int:
    """Return how many columns have a number in both rows. A list of numbers continues after a comma."""
    return sum(
        is_value(above[-1:]) and is_value(below) and not above[-1].text.endswith(",")
        for above, below in zip(last, cells, strict=True)
    )


def _is_below_number(last: Sequence[Sequence[PageLine]], cells: Sequence[Sequence[PageLine]]) -> bool:
    """Return whether a text is below a number, which never continues on the next line."""
    return any(
        is_value(above) and any(char.isalpha() for line in below for char in line.text)
        for above, below in zip(last, cells, strict=True)
    )
