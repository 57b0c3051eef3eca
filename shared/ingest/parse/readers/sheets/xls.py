"""Reader of Excel 97 and Excel 5 workbooks (MS-XLS, and its predecessor): one part for each sheet.

Read: the values that the file shows, comments, text boxes, names of the series of charts. Not read: pictures and
macros. python-calamine is the rejected alternative: it gives numbers without their formats, and no comments or text
boxes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.charsets import codec_of_page
from shared.ingest.parse.readers.compound import CompoundFile, embedded_documents, summary_title
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.sheets.biff import (
    BOF,
    EOF,
    Encoding,
    Record,
    SharedStrings,
    continued_text,
    records,
    rk_number,
)
from shared.ingest.parse.readers.sheets.grid import Grid, markdown_of
from shared.ingest.parse.readers.sheets.number_formats import BUILT_IN, NumberFormat, general
from shared.ingest.parse.readers.sheets.references import CellRange, column_letters
from shared.ingest.parse.readers.sheets.tables import one_line, paragraph

KIND = "Excel 97 workbook"

_DAMAGED = f"the {KIND} file is damaged and cannot be read; create or download it again"
_PROTECTED = f"the {KIND} file is protected with a password; remove the password and add it again"
_MOST_SHEETS = 4_096
_MOST_CHARS = 256 * 1024 * 1024
_MOST_MERGES = 100_000
_TOO_LARGE = f"the {KIND} file is too large when unpacked; divide it"

_FILEPASS, _CODEPAGE, _DATEMODE, _FORMAT, _XF, _BOUNDSHEET, _SST = 0x2F, 0x42, 0x22, 0x41E, 0xE0, 0x85, 0xFC
_NUMBER, _RK, _MULRK, _LABEL, _RSTRING, _LABELSST = 0x203, 0x27E, 0xBD, 0x204, 0xD6, 0xFD
_FORMULA, _STRING, _BOOLERR, _MERGED, _NOTE, _OBJECT, _TEXT, _SERIES = (
    0x06,
    0x207,
    0x205,
    0xE5,
    0x1C,
    0x5D,
    0x1B6,
    0x100D,
)
_ERRORS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A"}
_MACROS = 6  # a sheet of Visual Basic
_CHART = b"\x20\0"
_DRAWN = (_OBJECT, _TEXT, _SERIES)


def read(content: bytes) -> FileReading:
    """Return the sheets of a workbook, hidden ones included.

    Raises:
        Unreadable: it is damaged, protected with a password, or too large.
    """
    file = CompoundFile(content, KIND)
    names = {name.lower(): name for name in file.root.streams}
    stream = next((data for name in ("workbook", "book") if (data := file.read(file.root, names.get(name, "")))), b"")
    if len(stream) < 8 or struct.unpack_from("<H", stream)[0] != BOF:  # noqa: PLR2004 - a header and a version
        raise Unreadable(_DAMAGED)
    workbook = _XlsWorkbook(stream)
    parts = [part for name, offset in workbook.sheets if (part := _XlsSheet(workbook, name).read(stream, offset))]
    title = summary_title(file.read(file.root, "\x05SummaryInformation"))
    return FileReading(tuple(parts), title, embedded_documents(file.root))


class _XlsWorkbook:
    """The globals of a workbook: strings, number formats and the names of its sheets."""

    def __init__(self, stream: bytes) -> None:
        self.encoding = Encoding(struct.unpack_from("<H", stream, 4)[0], "cp1252")
        self.strings: list[str] = []
        self.sheets: list[tuple[str, int]] = []
        self.chars = 0
        self._bytes_left = 2 * len(stream)
        self._since_1904 = False
        self._codes: dict[int, str] = {}
        self._styles: list[int] = []
        self._formats: dict[int, NumberFormat | None] = {}
        for record in records(stream):
            try:
                self._take(record)
            except (struct.error, IndexError):  # a damaged record says nothing
                continue

    def _take(self, record: Record) -> None:
        data = record.data
        match record.kind:
            case kind if kind == _FILEPASS:
                raise Unreadable(_PROTECTED)
            case kind if kind == _CODEPAGE:
                codec = codec_of_page(struct.unpack_from("<H", data)[0]) or "cp1252"
                self.encoding = Encoding(self.encoding.version, codec)
            case kind if kind == _DATEMODE:
                self._since_1904 = bool(data[0])
            case kind if kind == _FORMAT:
                size = 2 if self.encoding.is_unicode else 1
                self._codes[struct.unpack_from("<H", data)[0]] = self.encoding.text(data, 2, size)
            case kind if kind == _XF:
                self._styles.append(struct.unpack_from("<H", data.ljust(4, b"\0"), 2)[0])
            case kind if kind == _BOUNDSHEET and len(self.sheets) < _MOST_SHEETS:
                offset, _, sort = struct.unpack_from("<IBB", data)
                if sort != _MACROS:
                    self.sheets.append((one_line(self.encoding.text(data, 6, 1)), offset))
            case kind if kind == _SST:
                self.strings = SharedStrings(record).read()

    def spend(self, count: int) -> None:
        """Count the bytes of the sheets, which do not overlap in a sound file."""
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise Unreadable(_DAMAGED)

    def shown(self, value: float, style: int) -> str:
        """Return a number as a cell of a style shows it."""
        if not isfinite(value):
            return ""
        if style not in self._formats:
            identifier = self._styles[style] if style < len(self._styles) else 0
            code = self._codes.get(identifier) or BUILT_IN.get(identifier, "General")
            is_plain = code.strip().lower() in ("general", "@", "")
            self._formats[style] = None if is_plain else NumberFormat(code, since_1904=self._since_1904)
        form = self._formats[style]
        return form.number(value) if form else general(value)


@dataclass(slots=True)
class _XlsSheet:
    workbook: _XlsWorkbook
    name: str
    grid: Grid = field(default_factory=Grid)
    merges: list[CellRange] = field(default_factory=list)
    notes: list[tuple[int, int, int, str]] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    plain: list[str] = field(default_factory=list)
    series: dict[str, None] = field(default_factory=dict)
    awaits: tuple[int, int] | None = None
    last_object: int = -1

    def read(self, stream: bytes, offset: int) -> Part | None:
        """Return the sheet at an offset; None if it has no text."""
        open_charts = list[bool]()
        for record in records(stream, offset):
            self.workbook.spend(len(record.data) + 4)
            if record.kind == BOF:
                open_charts.append(record.data[2:4] == _CHART)
            elif record.kind == EOF and open_charts:
                open_charts.pop()
            # A chart stores copies of the values that it draws as cells.
            elif (take := _TAKERS.get(record.kind)) and (not any(open_charts) or record.kind in _DRAWN):
                try:
                    take(self, record)
                except (struct.error, IndexError):  # a damaged record has no value
                    continue
        self.grid.rows = {number: dict(sorted(self.grid.rows[number].items())) for number in sorted(self.grid.rows)}
        self.grid.merges = self.merges
        blocks = [*markdown_of(self.grid), *self._others()]
        if not blocks:
            return None
        plain = ";\n".join((self.name, *self.plain))
        return Part("\n\n".join((f"## {self.name}", *blocks)), plain, f'sheet "{self.name}"')

    def _others(self) -> Iterator[str]:
        """Yield comments, text boxes and the names of a chart's series."""
        lines = list[str]()
        for row, column, number, author in self.notes:
            text = " ".join(self.texts.pop(number, "").split())
            by = f" by {author}" if author else ""
            if text:
                text = text.removeprefix(f"{author}:").strip() if author else text
                lines.append(f"- Comment on {column_letters(column)}{row + 1}{by}: {text}")
        if lines:
            yield "\n".join(lines)
        yield from (paragraph(text) for text in self.texts.values() if text.strip())
        if self.series:
            yield paragraph(f"Chart: {', '.join(self.series)}")

    def _set(self, row: int, column: int, text: str) -> None:
        self.workbook.chars += len(text)
        if self.workbook.chars > _MOST_CHARS:
            raise Unreadable(_TOO_LARGE)
        text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
        if text and not text.isspace():
            self.grid.rows.setdefault(row, {})[column] = text
            self.plain.append(text)

    def number(self, record: Record) -> None:
        row, column, style, value = struct.unpack_from("<HHHd", record.data)
        self._set(row, column, self.workbook.shown(value, style))

    def rk(self, record: Record) -> None:
        row, column, style, value = struct.unpack_from("<HHHI", record.data)
        self._set(row, column, self.workbook.shown(rk_number(value), style))

    def several_rk(self, record: Record) -> None:
        row, column = struct.unpack_from("<HH", record.data)
        for at in range(4, len(record.data) - 6, 6):
            style, value = struct.unpack_from("<HI", record.data, at)
            self._set(row, column, self.workbook.shown(rk_number(value), style))
            column += 1

    def label(self, record: Record) -> None:
        row, column = struct.unpack_from("<HH", record.data)
        self._set(row, column, self.workbook.encoding.text(record.data, 6, 2))

    def shared_label(self, record: Record) -> None:
        row, column, _, index = struct.unpack_from("<HHHI", record.data)
        self._set(row, column, self.workbook.strings[index])

    def formula(self, record: Record) -> None:
        row, column, style = struct.unpack_from("<HHH", record.data)
        result = record.data[6:14]
        self.awaits = None
        if result[6:8] != b"\xff\xff":
            self._set(row, column, self.workbook.shown(struct.unpack("<d", result)[0], style))
        elif result[0] == 0:
            self.awaits = row, column
        elif result[0] in (1, 2):
            self._set(row, column, _word(result[2], is_error=result[0] == 2))  # noqa: PLR2004 - an error

    def string(self, record: Record) -> None:
        if not self.awaits:
            return
        text = self.workbook.encoding.text(record.data, 0, 2)
        if record.more and len(record.data) > 2:  # noqa: PLR2004 - the length
            text += continued_text(record.more, struct.unpack_from("<H", record.data)[0] - len(text))
        self._set(*self.awaits, text)
        self.awaits = None

    def word(self, record: Record) -> None:
        row, column, _, value, is_error = struct.unpack_from("<HHHBB", record.data)
        self._set(row, column, _word(value, is_error=bool(is_error)))

    def merged(self, record: Record) -> None:
        for at in range(2, len(record.data) - 7, 8):
            if len(self.merges) < _MOST_MERGES:
                self.merges.append(CellRange(*struct.unpack_from("<HHHH", record.data, at)))

    def note(self, record: Record) -> None:
        row, column, length, number = struct.unpack_from("<HHHH", record.data.ljust(8, b"\0"))
        if self.workbook.encoding.is_unicode:
            self.notes.append((row, column, number, one_line(self.workbook.encoding.text(record.data, 8, 2))))
        elif row != 0xFFFF:  # noqa: PLR2004 - the rest of a long note
            self.notes.append((row, column, -len(self.notes) - 2, ""))
            self.texts[self.notes[-1][2]] = self._decoded(record.data[6 : 6 + length])
        elif self.notes:
            self.texts[self.notes[-1][2]] += self._decoded(record.data[6 : 6 + length])

    def _decoded(self, data: bytes) -> str:
        return data.decode(self.workbook.encoding.codec, "replace")

    def object(self, record: Record) -> None:
        self.last_object = struct.unpack_from("<H", record.data, 6)[0]

    def text(self, record: Record) -> None:
        length = struct.unpack_from("<H", record.data, 10)[0]
        text = continued_text(record.more, length).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
        if text.strip():
            self.texts[self.last_object if self.last_object not in self.texts else -1_000 - len(self.texts)] = text

    def series_text(self, record: Record) -> None:
        if text := one_line(self.workbook.encoding.text(record.data, 2, 1)):
            self.series[text] = None


def _word(value: int, *, is_error: bool) -> str:
    if is_error:
        return _ERRORS.get(value, "#N/A")
    return "TRUE" if value else "FALSE"


_TAKERS: Mapping[int, Callable[[_XlsSheet, Record], None]] = {
    _NUMBER: _XlsSheet.number,
    _RK: _XlsSheet.rk,
    _MULRK: _XlsSheet.several_rk,
    _LABEL: _XlsSheet.label,
    _RSTRING: _XlsSheet.label,
    _LABELSST: _XlsSheet.shared_label,
    _FORMULA: _XlsSheet.formula,
    _STRING: _XlsSheet.string,
    _BOOLERR: _XlsSheet.word,
    _MERGED: _XlsSheet.merged,
    _NOTE: _XlsSheet.note,
    _OBJECT: _XlsSheet.object,
    _TEXT: _XlsSheet.text,
    _SERIES: _XlsSheet.series_text,
}
