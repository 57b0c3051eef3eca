"""The blocks of a page: paragraphs, items of lists and tables, from its lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from shared.ingest.parse.readers.pdf.layout.cells import with_whole_header
from shared.ingest.parse.readers.pdf.layout.lines import FIELD, LABEL, Flow, Item, PageLine, PageTable, is_right_to_left
from shared.ingest.parse.readers.pdf.text.characters import UNSPACED

_SPACED = 0.25  # of the font size: more space than between the lines of a paragraph
_OTHER_SIZE = 0.08
_MOST_WEIGHED = 100  # lines of a paragraph: a page may be one paragraph of thousands
_INDENT = 0.8  # of the font size
_LONG_HEADER = 300  # characters of a cell in the first row: the lines only arrange paragraphs
_SHORT = 0.2  # share of the width that a last line leaves empty
_BULLETS = frozenset("•▪➢✓□■●○◦‣\u2043·∙*\u2013—-")
_ENDS = (".", ":", ";", "!", "?", ")", "。", "”", '"')
_CONJUNCTION = re.compile(r"(?:and|or|und|oder)\s")
"""The word after a hyphen that is kept, as in "short- and long-term"."""

MAYBE_HYPHEN = "\x02"
"""Replaces a hyphen that may only divide a word, until the words of all pages are known."""

_LEADERS = re.compile(r"_{5,}|\.(?: ?\.){4,}")
"""The line of a field to fill in, or the dots in front of a number: the words of a chunk matter, not their length."""

_MARKUP = re.compile(r"^(\s*)(#{1,6}(?=\s|$)|>|\||[+*-](?=\s|$)|=+\s*$|-{2,}\s*$|```|~~~)", re.MULTILINE)


@dataclass(slots=True)
class PageBlock:
    """A paragraph, an item of a list, or a table.

    Args:
        kind: `text`, `item` or `table`.
        text: its Markdown, without the marks of a heading.
        top: height of its upper end in points.
        bottom: height of its lower end.
        size: size of its font.
        bold: whether all its words are bold.
        lines: number of its printed lines.
        alone: whether no other words are on its lines, and it is not the value of a field.
        level: level of the heading that the document itself calls it; 0 for none.
        columns: left ends of a table's columns.
        rows: cells of a table.
        turned: whether its lines have another direction than most lines of the page.
        continues: whether its rows continue a table on the page before it.
    """

    kind: str
    text: str
    top: float
    bottom: float
    size: float
    bold: bool = False
    lines: int = 1
    alone: bool = True
    level: int = 0
    chars: int = 0
    marks: frozenset[int] = frozenset()
    columns: tuple[float, ...] = ()
    rows: list[list[str]] = field(default_factory=list)
    turned: bool = False
    continues: bool = False


def blocks_of(items: Iterable[Item]) -> list[PageBlock]:
    """Return the blocks of a page's items, in their order."""
    blocks = list[PageBlock]()
    for item in items:
        if isinstance(item, PageTable):
            while _has_caption(item):
                blocks += map(_paragraph, _paragraphs(Flow([line for cell in item.rows.pop(0) for line in cell])))
            if item.ruled:
                item.rows = with_whole_header(item.rows, _spans(item))
            block = _table(item)
            blocks += [block] if max(map(len, block.rows[0])) <= _LONG_HEADER else _cells(item)
            continue
        for index, lines in enumerate(_paragraphs(item)):
            block = _paragraph(lines)
            if index == 0 and blocks and _goes_on(blocks[-1], block):
                _append(blocks[-1], block)
            else:
                blocks.append(block)
    return blocks


def _spans(table: PageTable) -> list[tuple[float, float]]:
    right = max(line.x1 for line in table.lines)
    return list(pairwise((*table.edges, right)))


def _has_caption(table: PageTable) -> bool:
    """Return whether the first row is one cell over all columns, the title of the table."""
    first, *rest = table.rows
    cells = [cell for cell in first if cell]
    if not table.ruled or len(cells) != 1 or len(rest) < 2 or len(table.edges) < 2:  # noqa: PLR2004 - header and a row
        return False
    return max(line.x1 for line in cells[0]) > table.edges[1] or (cells[0] is first[0] and all(rest[0]))


def _goes_on(last: PageBlock, block: PageBlock) -> bool:
    """Return whether a paragraph continues in the next column."""
    if last.kind == "table" or block.kind != "text" or abs(last.size - block.size) > _OTHER_SIZE * block.size:
        return False
    return last.lines > 1 and block.text[:1].islower() and not last.text.endswith(_ENDS) and last.bold == block.bold


def _append(last: PageBlock, block: PageBlock) -> None:
    last.text = _together(last.text, block.text, " ")
    last.lines += block.lines
    last.chars += block.chars
    last.top, last.bottom = max(last.top, block.top), min(last.bottom, block.bottom)


def _paragraphs(flow: Flow) -> list[list[PageLine]]:
    lines = flow.lines
    pitch = _pitch(lines)
    right = max(line.x1 for line in lines)
    left = min(line.x0 for line in lines)
    mirrored = is_right_to_left(lines)
    found = [[lines[0]]]
    for line in lines[1:]:
        if _starts(found[-1], line, pitch, (left, right), mirrored=mirrored):
            found.append([])
        found[-1].append(line)
    return found


def _pitch(lines: Sequence[PageLine]) -> float:
    """Return the usual distance of lines in font sizes."""
    distances = [
        (above.y - below.y) / below.size
        for above, below in pairwise(lines)
        if abs(above.size - below.size) <= _OTHER_SIZE * below.size and 0 < above.y - below.y < 2.2 * below.size
    ]
    return min(median(distances), 2.0) if distances else 1.2


def _starts(
    before: Sequence[PageLine], line: PageLine, pitch: float, sides: tuple[float, float], *, mirrored: bool
) -> bool:
    """Return whether a line starts a paragraph."""
    last = before[-1]
    size = max(last.size, line.size)
    if last.y - line.y > (pitch + _SPACED) * size or abs(last.size - line.size) > _OTHER_SIZE * size:
        return True
    if _is_other_weight(before, line, sides[1]):
        return True
    if (label := _label(line)) and (label in _BULLETS or _is_over(last, line, sides)):
        return True
    if mirrored:
        return False
    if line.x0 > last.x0 + _INDENT * size:
        return last.text.endswith(_ENDS) and not (len(before) == 1 and _label(last))
    outdented = line.x0 < last.x0 - _INDENT * size and len(before) > 1
    return outdented or (
        last.text.endswith(_ENDS)
        and sides[1] - last.x1 > _SHORT * (sides[1] - sides[0])
        and not line.text[:1].islower()
    )


def _is_other_weight(before: Sequence[PageLine], line: PageLine, right: float) -> bool:
    """Return whether a line has another weight than the lines before it, or follows a bold title."""
    before = before[-_MOST_WEIGHED:]
    if _weights(before).isdisjoint(_weights([line])):
        return True
    return _is_bold(before) and not _is_bold([line]) and _is_forced(before[-1], line, right)


def _is_over(last: PageLine, line: PageLine, sides: tuple[float, float]) -> bool:
    return last.text.endswith((*_ENDS, ",")) or _is_forced(last, line, sides[1]) or bool(_label(last))


def _is_forced(last: PageLine, line: PageLine, right: float) -> bool:
    """Return whether the first word of a line would have fit on the line before it."""
    first = line.words[0]
    return last.x1 + (first.x1 - first.x0) + last.size * 0.8 < right


def _label(line: PageLine) -> str:
    """Return the bullet or number of an item of a list."""
    first = line.words[0].text
    if len(line.words) > 1 and LABEL.match(first):
        return first
    if first[0] == "·" and not first[1:2].isalpha():
        return ""
    return first[0] if first[0] in "•▪➢✓●○◦‣\u2043·" else ""


def _weights(lines: Iterable[PageLine]) -> set[bool]:
    return {word.style.bold for line in lines for word in line.words}


def _is_bold(lines: Iterable[PageLine]) -> bool:
    words = [word for line in lines for word in line.words if any(map(str.isalnum, word.text))]
    return bool(words) and all(word.style.bold for word in words)


def _paragraph(lines: Sequence[PageLine]) -> PageBlock:
    text = _text(lines)
    kind = "text"
    if label := _label(lines[0]):
        kind = "item"
        if label[0] in _BULLETS:
            mark = "*" if label == "*" else "-"
            text = f"{mark} {escaped(text[len(label) :].strip())}" if text[len(label) :].strip() else escaped(text)
        else:
            text = escaped(text)
    else:
        text = escaped(text)
    return PageBlock(
        kind,
        text,
        top=max(line.top for line in lines),
        bottom=min(line.bottom for line in lines),
        size=max(lines, key=lambda line: line.chars).size,
        bold=_is_bold(lines),
        lines=len(lines),
        alone=all(word.index >= 0 for word in lines[0].words) and not any(line.divided for line in lines),
        chars=sum(line.chars for line in lines),
        marks=frozenset(word.style.mark for line in lines for word in line.words),
    )


def _text(lines: Sequence[PageLine], *, flat: bool = False) -> str:
    right = max(line.x1 for line in lines)
    text = above = lines[0].text
    for last, line in pairwise(lines):
        here = line.text
        forced = not flat and (
            _is_forced(last, line, right) or (":" in here and FIELD.match(here) and FIELD.match(above))
        )
        text, above = _together(text, here, "\n" if forced else " "), here
    if "____" in text or ". . ." in text or "....." in text:
        text = _LEADERS.sub(lambda found: found[0][0] * 4, text)
    return text.replace("\xad", "")


def _together(text: str, following: str, gap: str) -> str:
    """Join two lines, without the hyphen that divides a word."""
    if text[-1:] in ("-", "\u2010", "\xad") and text[-2:-1].isalnum() and following[:1].isalnum():
        before = text[-40:-1].rpartition(" ")[2]
        if text[-1] == "\xad":
            return text[:-1] + following
        if _CONJUNCTION.match(following):
            return f"{text} {following}"
        return (text[:-1] + MAYBE_HYPHEN if _may_divide(before, following) else text) + following
    if UNSPACED.match(text[-1:]) and UNSPACED.match(following):
        return text + following
    return f"{text}{gap}{following}"


def _may_divide(before: str, after: str) -> bool:
    """Return whether a hyphen at the end of a line may only divide a word.

    Args:
        before: the characters in front of the hyphen.
        after: the first characters of the next line.
    """
    return before[-1:].isalpha() and "-" not in before and after[:1].islower()


def _table(table: PageTable) -> PageBlock:
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    lines = table.lines
    return PageBlock(
        "table",
        "",
        top=max(line.top for line in lines),
        bottom=min(line.bottom for line in lines),
        size=median(line.size for line in lines),
        lines=len(rows),
        chars=sum(line.chars for line in lines),
        columns=table.edges,
        rows=rows,
    )


def _cells(table: PageTable) -> list[PageBlock]:
    """Return the cells of a table that only arranges paragraphs, as paragraphs."""
    return [_paragraph(lines) for row in table.rows for cell in row if cell for lines in _paragraphs(Flow(cell))]


def _cell(lines: Sequence[PageLine]) -> str:
    return _text(lines, flat=True).replace("|", "\\|").replace("\n", " ") if lines else ""


def table_markdown(rows: Sequence[Sequence[str]], *, continues: bool = False) -> str:
    """Return a table, whose first row is its header unless it continues another table."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join((head, *body) if continues else (head, "|" + " --- |" * len(rows[0]), *body))


def escaped(text: str) -> str:
    """Return text in which no character is markup at the start of a line."""
    return _MARKUP.sub(r"\1\\\2", text)
