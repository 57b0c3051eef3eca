"""Text of PDF fonts without a map to Unicode is read if the font itself says which letters its glyphs are."""

import struct

import pytest

from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.pdf import library, read
from tests.support.drawn_pdfs import pdf
from tests.support.planted import guards

TEXT = "Volumes of 2026, Peru"
STANDARD = dict(zip(map(chr, range(32, 127)), range(3, 98), strict=True))
OWN = {char: code for code, char in enumerate(sorted(set(TEXT)), 3)}


def ranges(glyphs):
    """Return a table of format 4, which has a range for each character."""
    codes = [*sorted(map(ord, glyphs)), 0xFFFF]
    deltas = [(glyphs.get(chr(code), 0) - code) & 0xFFFF for code in codes]
    packed = struct.pack(f">{len(codes)}H", *codes)
    head = struct.pack(">7H", 4, 16 + 8 * len(codes), 0, 2 * len(codes), 0, 0, 0)
    return head + packed + bytes(2) + packed + struct.pack(f">{len(codes)}H", *deltas) + bytes(2 * len(codes))


def groups(glyphs):
    """Return a table of format 12."""
    found = b"".join(struct.pack(">III", ord(char), ord(char), glyph) for char, glyph in sorted(glyphs.items()))
    return struct.pack(">HHIII", 12, 0, 16 + len(found), 0, len(glyphs)) + found


def font_file(table, encoding):
    """Return a TrueType font whose glyphs are empty."""
    count = 200
    tables = {
        b"cmap": struct.pack(">HHHHI", 0, 1, 3, encoding, 12) + table,
        b"glyf": bytes(4),
        b"head": struct.pack(">IIIIHH16x4hHHhhh", 0x10000, 0, 0, 0x5F0F3CF5, 0, 1000, 0, 0, 1000, 1000, 0, 8, 2, 0, 0),
        b"hhea": struct.pack(">I3hH22xH", 0x10000, 800, -200, 0, 600, 1),
        b"hmtx": struct.pack(">Hh", 600, 0) + bytes(2 * count),
        b"loca": bytes(2 * count + 2),
        b"maxp": struct.pack(">IH26x", 0x10000, count),
    }
    font, at = struct.pack(">I4H", 0x10000, len(tables), 64, 2, 0), 12 + 16 * len(tables)
    for tag, data in tables.items():
        font += tag + struct.pack(">III", 0, at, len(data))
        at += len(data)
    return font + b"".join(tables.values())


def font_objects(font):
    """Return the objects of a composite font, with its file if it has one."""
    descriptor = "<< /Type /FontDescriptor /FontName /Sample /Flags 4 /FontBBox [0 0 1000 1000]"
    descriptor += " /ItalicAngle 0 /Ascent 900 /Descent -200 /CapHeight 700 /StemV 80"
    system = b"<< /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>"
    more = [
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Sample /Encoding /Identity-H /DescendantFonts [101 0 R] >>",
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Sample /FontDescriptor 102 0 R /CIDSystemInfo %s >>"
        % system,
        (descriptor + (" /FontFile2 103 0 R >>" if font else " >>")).encode(),
    ]
    if font:
        more.append(b"<< /Length %d /Length1 %d >> stream\n%s\nendstream" % (len(font), len(font), font))
    return more


def printed(text, glyphs, font=None):
    """Return a PDF file whose text has the numbers of glyphs as its codes."""
    codes = "".join(f"{glyphs[char]:04x}" for char in text)
    content = f"BT /F1 12 Tf 50 700 Td <{codes}> Tj ET\n"
    return pdf(content, page="/Resources << /Font << /F1 100 0 R >> >>", more=font_objects(font))


@guards(
    "shared/ingest/parse/readers/pdf/text/characters.py",
    "chars[at] = chr(letters[ord(text[at])])",
    "pass",
    means="the text of fonts without a map to Unicode is lost",
)
@pytest.mark.parametrize(
    ("glyphs", "font"),
    [
        (STANDARD, None),
        (OWN, font_file(ranges(OWN), 1)),
        (OWN, font_file(groups(OWN), 10)),
    ],
)
def test_numbers_of_glyphs_become_letters(glyphs, font):
    checked = guarded(read(printed(TEXT, glyphs, font)).parts)

    assert checked.parts[0].markdown.lstrip("# ") == TEXT
    assert not checked.losses


@pytest.mark.parametrize("font", [None, font_file(b"\0\4\0\0\xff", 1), b"\0\1\0\0\0\xff", b"OTTO"])
def test_glyphs_without_known_letters_stay_lost(font):
    checked = guarded(read(printed("Volumes", {char: code for code, char in enumerate("Volumes", 1)}, font)).parts)

    assert checked.losses


def test_signs_of_formulas_become_no_letters():
    text = read(printed("+ = <", {"+": 3, " ": 4, "=": 5, "<": 6})).parts[0].markdown

    assert text.replace(" ", "").replace("\ufffd", "") == ""


def test_code_beyond_unicode_has_no_character():
    assert library.code_points([0x50, 0xE0E0E0, 0x10FFFF]) == [0x50, 0xFFFD, 0x10FFFF]
