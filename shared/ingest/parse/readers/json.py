"""Reader of JSON (RFC 8259): `path: value` lines, and tables of similar objects.

All names and values are read. Data in texts, such as base64, is left out before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from json import JSONDecodeError, JSONDecoder
from typing import Any

from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.sheets.tables import one_line, paragraph, table

MOST_LEVELS = 64
"""A file that is nested deeper is shown as it is."""

_PATH_CHARS = 80
"""A longer path is written once, above the lines of its object."""

_LINE_CHARS = 300
"""A longer text is a paragraph of its own."""

_LEAST_FILLED = 0.5
"""Objects are a table if together they fill this share of its cells."""

_LEAST_ROWS = 2
_MOST_COLUMNS = 60
_SPACE = re.compile(r"\s*")
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*+:)?|[^\s{}\[\],:"]++', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\n", "b": "", "f": "\n"}


class _Object(tuple[tuple[str, Any], ...]):
    """The members of an object in order; a name may occur several times."""

    __slots__ = ()


class _Literal(str):
    """A number, `true` or `false` as the file writes it."""

    __slots__ = ()


def read(text: str) -> FileReading | None:
    """Return the text of a file of one or more values; None if it is empty, damaged or too deep."""
    try:
        values = _values(text)
        value = values[0] if len(values) == 1 else values
        markdown = "\n\n".join(_Writer().blocks(value))
    except (JSONDecodeError, RecursionError):
        return None
    if not markdown.strip():
        return None
    title = next((text for name, text in value if name == "title"), None) if isinstance(value, _Object) else None
    return FileReading((Part(_joined_surrogates(markdown), _plain(text)),), title if _is_text(title) else None)


def _values(text: str) -> list[Any]:
    decoder = JSONDecoder(
        object_pairs_hook=_Object, parse_float=_Literal, parse_int=_Literal, parse_constant=_Literal, strict=False
    )
    found, at = list[Any](), _after_space(text, 0)
    while at < len(text) or not found:
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        at = _after_space(text, at)
    return found


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


class _Writer:
    """Writes values as blocks of Markdown.

    An array of records has a section after the lines of its object, in which paths start at the record. In a record,
    the elements of an array have numbers.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._sections: list[tuple[str, Sequence[Any], int]] = []
        self._in_record = False

    def blocks(self, value: Any) -> Iterator[str]:
        """Yield the blocks of a file."""
        yield from self._value("", value, 0)
        yield from self._end()
        self._in_record = True
        for path, records, level in self._sections:
            if path:
                yield f"## {path}"
            for record in records:
                yield from self._value("", record, level + 1)
                if not _is_scalar(record):
                    yield from self._end()
            yield from self._end()

    def _end(self) -> Iterator[str]:
        if self._lines:
            yield paragraph("\n".join(self._lines))
            self._lines = []

    def _value(self, path: str, value: Any, level: int) -> Iterator[str]:
        if level > MOST_LEVELS:
            raise RecursionError
        if isinstance(value, _Object):
            yield from self._object(path, value, level)
        elif isinstance(value, list):
            yield from self._array(path, value, level)
        elif _is_text(value) and (len(value) > _LINE_CHARS or "\n" in value.strip()):
            yield from self._long(path, value)
        else:
            shown = "null" if value is None else _scalar(value)
            self._lines.append(f"{path}: {shown}" if path else shown)

    def _long(self, path: str, text: str) -> Iterator[str]:
        if path:
            self._lines.append(f"{path}:")
        yield from self._end()
        yield from (paragraph(part) for part in re.split(r"\n[ \t]*+\n", text) if part.strip())

    def _object(self, path: str, members: _Object, level: int) -> Iterator[str]:
        if not members:
            self._lines.append(f"{path}: (empty)" if path else "(empty)")
        elif rows := _rows([value for _, value in members]):
            named = [{"": _Literal(name), **row} for (name, _), row in zip(members, rows, strict=True)]
            yield from self._table(path, named)
        else:
            yield from self._members(path, members, level)

    def _members(self, path: str, members: Sequence[tuple[str, Any]], level: int) -> Iterator[str]:
        if len(path) > _PATH_CHARS:
            yield from self._end()
            self._lines.append(f"{path}:")
            path = ""
        for name, value in members:
            yield from self._value(f"{path}.{one_line(name)}" if path else one_line(name), value, level + 1)

    def _array(self, path: str, values: Sequence[Any], level: int) -> Iterator[str]:
        if rows := _rows(values):
            yield from self._table(path, rows)
        elif (short := _short(values)) is not None:
            self._lines.append(f"{path}: {short}" if path else short)
        elif self._in_record:
            yield from self._members(path, [(str(number), value) for number, value in enumerate(values, 1)], level)
        else:
            self._sections.append((path, values, level))

    def _table(self, path: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        yield from self._end()
        if path:
            yield paragraph(f"{path}:")
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = {name: column for column, name in enumerate(names)}
        cells = [(number, {columns[name]: _cell(row[name]) for name in row}) for number, row in enumerate(rows)]
        headers = {column: one_line(name) for name, column in columns.items()}
        yield from table(range(len(names)), headers, cells)


def _rows(values: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the rows of a table; none if the values are not several flat objects with the same names."""
    if len(values) < _LEAST_ROWS or not all(isinstance(value, _Object) and value for value in values):
        return []
    rows, names = list[dict[str, Any]](), set[str]()
    for value in values:
        row = dict(value)
        names.update(row)
        if len(row) < len(value) or len(names) > _MOST_COLUMNS or not all(map(_is_flat, row.values())):
            return []
        rows.append(row)
    return rows if sum(map(len, rows)) >= len(rows) * len(names) * _LEAST_FILLED else []


def _is_flat(value: Any) -> bool:
    return _is_scalar(value) or (isinstance(value, list) and _short(value) is not None)


def _short(values: Sequence[Any]) -> str | None:
    """Return an array of scalars, or of arrays of scalars, as one line; None for another array."""
    if all(isinstance(value, list) and all(map(_is_literal, value)) for value in values):
        return "; ".join(", ".join(map(_scalar, value)) for value in values)
    if all(map(_is_literal, values)):
        return ", ".join(map(_scalar, values))
    if not all(map(_is_scalar, values)):
        return None
    line = ", ".join(map(_scalar, values))
    return line if len(line) <= _LINE_CHARS else None


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, (_Object, list))


def _is_literal(value: Any) -> bool:
    return _is_scalar(value) and not _is_text(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, _Literal)


def _cell(value: Any) -> str:
    return (_short(value) or "") if isinstance(value, list) else _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else " ".join(value.split())


def _plain(text: str) -> str:
    """Return the values of a file without a parser, and each name once; `null` is not a word."""
    names, values = dict[str, None](), list[str]()
    for literal in _LITERAL.finditer(text):
        if literal[2]:
            names[literal[1]] = None
        elif literal[1] is not None:
            values.append(literal[1])
        elif literal[0] != "null":
            values.append(literal[0])
    return _joined_surrogates(_ESCAPE.sub(_unescaped, ";\n".join((*names, *values))))


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)) if escape[1] else _SHORT_ESCAPES.get(escape[2], escape[2])


def _joined_surrogates(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
