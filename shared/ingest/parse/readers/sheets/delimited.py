"""Reader of CSV and TSV (RFC 4180, and its many variants): one table, whatever its delimiter.

All cells are read. Rows above the header are paragraphs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.sheets.grid import Grid, markdown_of

DELIMITERS = "\t;|,"
"""The possible delimiters; if two divide all rows alike, the first one is used, because `,` also occurs in numbers."""

_SAMPLED_ROWS = 200
_MOST_FIELD_CHARS = 100_000
"""A quote that is not closed within so many characters is a character of the text."""

_SEPARATOR_LINE = re.compile(r"\s{0,9}sep=(.)\s{0,9}\Z", re.IGNORECASE)


def read(text: str, *, tabs: bool = False) -> FileReading:
    """Return the table of a file.

    Args:
        text: content of the file, with line feeds.
        tabs: whether the file is said to be delimited by tabs.
    """
    first, _, rest = text.partition("\n")
    stated = _SEPARATOR_LINE.match(first)
    body = rest if stated else text
    delimiter = stated[1] if stated else _delimiter(body, preferred="\t" if tabs else "")
    grid = Grid(side_by_side=False)
    for number, fields in enumerate(rows(body, delimiter)):
        cells = {column: field for column, field in enumerate(fields) if field and not field.isspace()}
        if cells:
            grid.rows[number] = cells
    # A line break between the rows of the plain text never divides a word, unlike one in a cell.
    return FileReading((Part("\n\n".join(markdown_of(grid)), body.replace("\n", " ,\n")),))


def rows(text: str, delimiter: str) -> Iterator[Sequence[str]]:
    """Yield the fields of each row; a quoted field may contain delimiters and lines, an unclosed quote may not."""
    at, wasted = 0, 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if text.find('"', at, end) < 0 or wasted > len(text) * 4 + _MOST_FIELD_CHARS:
            yield text[at:end].split(delimiter)
            at = end + 1
            continue
        fields, at, tried = _quoted_row(text, at, delimiter)
        wasted += tried
        yield fields


def _quoted_row(text: str, at: int, delimiter: str) -> tuple[list[str], int, int]:
    """Return the fields of the row at an index, the index after it, and the number of characters tried in vain."""
    fields, wasted = list[str](), 0
    while True:
        field, after = _quoted(text, at, delimiter) if text.startswith('"', at) else (None, at)
        if field is None:
            if text.startswith('"', at):
                wasted += after - at
            ends = (text.find("\n", at), text.find(delimiter, at))
            after = min((end for end in ends if end >= 0), default=len(text))
            field = text[at:after]
        fields.append(field)
        if after >= len(text) or text[after] == "\n":
            return fields, after + 1, wasted
        at = after + 1


def _quoted(text: str, start: int, delimiter: str) -> tuple[str | None, int]:
    """Return a quoted field and the index after it; None and the last index tried if its quote is not closed.

    A quote in a later line that does not close the field opens another one: the first quote was a character.
    """
    at, line_end = start + 1, text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    limit = min(len(text), start + _MOST_FIELD_CHARS)
    while (quote := text.find('"', at, limit)) >= 0:
        following = text[quote + 1 : quote + 2]
        if following == '"':
            at = quote + 2
        elif following in ("", "\n", delimiter):
            return text[start + 1 : quote].replace('""', '"'), quote + 1
        elif quote > line_end:
            return None, quote
        else:
            at = quote + 1
    return None, limit


def _delimiter(text: str, *, preferred: str) -> str:
    """Return the preferred delimiter if it occurs, or the one by which most rows have equally many fields."""
    best, best_share = ",", 0.0
    head = text[: 1 << 18]
    if preferred and preferred in head:
        return preferred
    for delimiter in DELIMITERS:
        if delimiter not in head:
            continue
        counts = Counter(len(fields) for fields, _ in zip(rows(head, delimiter), range(_SAMPLED_ROWS), strict=False))
        several = {count: number for count, number in counts.items() if count > 1}
        share = max(several.values(), default=0) / max(1, counts.total() - counts.get(1, 0) / 2)
        if share > best_share:
            best, best_share = delimiter, share
    return best
