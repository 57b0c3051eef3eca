"""Excel 97 and Excel 5: values as they are shown, comments, charts, damaged and protected files."""

import struct
import time

import pytest

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.sheets import xls
from tests.support.compound import compound_file
from tests.support.planted import guards

BIFF8, BIFF5 = 0x600, 0x500
SHEET, CHART = 0x10, 0x20


def record(kind, data=b""):
    return struct.pack("<HH", kind, len(data)) + data


def bof(sort, version=BIFF8):
    return record(0x809, struct.pack("<HH", version, sort) + bytes(12))


def string(text, length="<H"):
    wide = not text.isascii()
    return struct.pack(length, len(text)) + bytes([wide]) + text.encode("utf-16-le" if wide else "ascii")


def cell(kind, row, column, data, style=0):
    return record(kind, struct.pack("<HHH", row, column, style) + data)


def number(row, column, value, style=0):
    return cell(0x203, row, column, struct.pack("<d", value), style)


def strings(*texts):
    return record(0xFC, struct.pack("<II", len(texts), len(texts)) + b"".join(map(string, texts)))


def workbook(*cells, settings=b"", name="Prices", version=BIFF8, stream="Workbook"):
    """Return a workbook with one sheet of these records."""
    stated = string(name, "<B") if version == BIFF8 else bytes([len(name)]) + name.encode("cp1251")
    size = len(bof(5, version)) + len(settings) + 4 + 6 + len(stated) + 4
    globals_ = bof(5, version) + settings + record(0x85, struct.pack("<IBB", size, 0, 0) + stated) + record(0x0A)
    sheet = bof(SHEET, version) + b"".join(cells) + record(0x0A)
    return compound_file({stream: (globals_ + sheet).ljust(4096, b"\0")})


def text_of(content):
    reading = xls.read(content)
    assert guarded(reading.parts).coverage in (1, None)
    return "\n\n".join(part.markdown for part in reading.parts)


def label(row, column, index):
    return cell(0xFD, row, column, struct.pack("<I", index))


def test_table_has_values_as_shown():
    formats = record(0x41E, struct.pack("<H", 200) + string("0.00 \u20ac")) + b"".join(
        record(0xE0, struct.pack("<HH", 0, form) + bytes(16)) for form in (0, 200, 14, 9)
    )
    content = workbook(
        label(0, 0, 0),
        label(0, 1, 1),
        label(0, 2, 2),
        label(1, 0, 3),
        number(1, 1, 4.5, 1),
        cell(0x27E, 1, 2, struct.pack("<I", 45000 << 2 | 2), 2),
        label(2, 0, 4),
        record(0xBD, struct.pack("<HHHIHIH", 2, 1, 1, 1050 << 2 | 3, 2, 45001 << 2 | 2, 2)),
        settings=formats + strings("Name", "Price", "Since", "Tea", "Gr\u00fcner Tee"),
    )

    assert text_of(content) == (
        "## Prices\n\n| Name | Price | Since |\n| --- | --- | --- |\n"
        "| Tea | 4.50 \u20ac | 3/15/2023 |\n| Gr\u00fcner Tee | 10.50 \u20ac | 3/16/2023 |"
    )


@guards(
    "shared/ingest/parse/readers/sheets/biff.py",
    "flags = self._pieces[self._piece][self._at]\n                self._at += 1",
    "self._at += 1",
    means="a string that continues in another width is garbled",
)
def test_string_continues_in_next_record():
    first = struct.pack("<IIHB", 2, 2, 8, 0) + b"half"
    rest = b"\1" + "w\u00fcst".encode("utf-16-le") + string("next")
    content = workbook(label(0, 0, 0), label(1, 0, 1), settings=record(0xFC, first) + record(0x3C, rest))

    assert "halfw\u00fcst" in text_of(content)
    assert "next" in text_of(content)


def test_formula_shows_stored_result():
    content = workbook(
        cell(0x06, 0, 0, struct.pack("<d", 2.5) + bytes(8)),
        cell(0x06, 1, 0, b"\0\0\0\0\0\0\xff\xff" + bytes(8)),
        record(0x207, string("word")),
        cell(0x06, 2, 0, b"\1\0\1\0\0\0\xff\xff" + bytes(8)),
        cell(0x06, 3, 0, b"\2\0\x07\0\0\0\xff\xff" + bytes(8)),
        cell(0x205, 4, 0, b"\0\0"),
    )
    assert text_of(content).split()[2:] == ["2.5", "word", "TRUE", "#DIV/0!", "FALSE"]


@guards(
    "shared/ingest/parse/readers/sheets/xls.py",
    "(not any(open_charts) or record.kind in _DRAWN)",
    "True",
    means="the copies of a chart replace the cells",
)
def test_chart_does_not_replace_cells():
    chart = bof(CHART) + number(0, 0, 99) + record(0x100D, b"\0\0" + string("Sales", "<B")) + record(0x0A)

    text = text_of(workbook(number(0, 0, 5), chart, number(1, 0, 6)))

    assert "99" not in text
    assert text.endswith("Chart: Sales")


def test_comment_and_text_box_are_read():
    def drawn(identity, text):
        shape = record(0x5D, struct.pack("<HHHH", 0x15, 18, 6, identity) + bytes(14))
        return shape + record(0x1B6, bytes(10) + struct.pack("<H", len(text)) + bytes(6)) + record(0x3C, b"\0" + text)

    note = record(0x1C, struct.pack("<HHHH", 0, 1, 0, 7) + string("Ann"))

    text = text_of(workbook(number(0, 0, 5), drawn(7, b"check this"), drawn(8, b"A box"), note))

    assert text.endswith("- Comment on B1 by Ann: check this\n\nA box")


def test_excel_5_has_code_page():
    texts = cell(0x204, 0, 0, struct.pack("<H", 5) + "\u0446\u0435\u043d\u044b\u0451".encode("cp1251"))
    content = workbook(
        texts,
        settings=record(0x42, struct.pack("<H", 1251)),
        version=BIFF5,
        stream="Book",
        name="\u0426\u0435\u043d\u044b",
    )
    assert text_of(content) == "## \u0426\u0435\u043d\u044b\n\n\u0446\u0435\u043d\u044b\u0451"


def test_dates_since_1904():
    settings = record(0x22, b"\1\0") + record(0xE0, struct.pack("<HH", 0, 14) + bytes(16))

    assert text_of(workbook(number(0, 0, 1.0), settings=settings)).endswith("1/2/1904")


@guards("shared/ingest/parse/readers/sheets/xls.py", "raise Unreadable(_PROTECTED)", "return", means="garbage is read")
def test_protected_workbook_is_refused():
    with pytest.raises(Unreadable, match="protected with a password; remove"):
        xls.read(workbook(settings=record(0x2F, bytes(54))))


@pytest.mark.parametrize("cut", [0, 600, 1_000, 1_500, 2_000, 3_000])
def test_damaged_workbook_is_refused_or_read_in_part(cut):
    content = workbook(*(number(row, 0, row) for row in range(50)), settings=strings("a", "b"))
    try:
        reading = xls.read(content[:cut])
    except Unreadable as error:
        assert "damaged" in error.message  # noqa: PT017 - either outcome is right
    else:
        assert len(reading.parts) <= 1


def test_hostile_records_take_linear_time():
    start = time.process_time()
    long = record(0xFC, struct.pack("<IIHB", 1, 1, 0xFFFF, 0)) + record(0x3C) * 50_000
    for settings in (long, bof(5) * 20_000):
        xls.read(workbook(*[number(9, 9, 1)] * 1_000, settings=settings))

    assert time.process_time() - start < 10


@guards(
    "shared/ingest/parse/readers/sheets/xls.py",
    "if self._bytes_left < 0:",
    "if False:",
    means="4,000 sheets take hours",
)
def test_overlapping_sheets_are_refused():
    sheets = record(0x85, struct.pack("<IBB", 0, 0, 0) + string("a", "<B")) * 500

    with pytest.raises(Unreadable, match="damaged"):
        xls.read(workbook(*[number(9, 9, 1)] * 1_000, settings=sheets))
