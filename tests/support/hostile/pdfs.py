"""PDF files with absurd pages, recursion, bombs, and pictures in damaged compression."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence

from tests.support.hostile.png import zeros
from tests.support.hostile.samples import saved, small

_BOXES = {
    "10**9 points": "0 0 1000000000 1000000000",
    "99,999 points": "0 0 99999 99999",
    "a negative size": "0 0 -595 -842",
    "reversed corners": "595 842 0 0",
    "no area": "0 0 0 0",
    "a width of 0.001": "0 0 0.001 842",
    "a height of 0.001": "0 0 595 0.001",
    "0.001 points": "0 0 0.001 0.001",
    "1 x 14,400 points": "0 0 1 14400",
    "14,400 x 1 points": "0 0 14400 1",
    "3 x 10**6 points": "0 0 3 1000000",
    "NaN": "0 0 NaN NaN",
    "infinity": "0 0 1e400 1e400",
    "numbers of 400 digits": f"0 0 {'9' * 400} {'9' * 400}",
    "three numbers": "0 0 595",
    "names": "/A /B /C /D",
    "nested arrays": "[[[[0 0 595 842]]]]",
    "far corners": "1000000000 1000000000 1000000595 1000000842",
    "2**31 points": "-2147483648 -2147483648 2147483647 2147483647",
}
_TRICKS = {
    "a rotation of 45 degrees": "/Rotate 45",
    "a rotation of 10**18 degrees": "/Rotate 1000000000000000000",
    "a unit of 10**9": "/UserUnit 1000000000",
    "a unit of 0": "/UserUnit 0",
    "a negative unit": "/UserUnit -1",
    "a crop box outside": "/CropBox [9000 9000 9001 9001]",
    "a crop box without area": "/CropBox [10 10 10 10]",
    "a crop box of NaN": "/CropBox [NaN NaN NaN NaN]",
}
_FILTERS = ("JPXDecode", "JBIG2Decode", "CCITTFaxDecode", "DCTDecode", "FlateDecode", "LZWDecode", "RunLengthDecode")
_DRAW = b"q 480 0 0 120 40 600 cm /X Do Q"


def pdf(objects: Mapping[int, bytes], root: int = 1, trailer: str = "") -> bytes:
    """Return a PDF file of these objects with a table of their offsets."""
    content, offsets = bytearray(b"%PDF-1.7\n"), {}
    for number, body in sorted(objects.items()):
        offsets[number] = len(content)
        content += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start, size = len(content), max(objects) + 1
    content += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        content += b"%010d 00000 %c \n" % (offsets.get(number, 0), b"n" if number in offsets else b"f")
    content += f"trailer\n<< /Size {size} /Root {root} 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(content)


def stream(data: bytes, entries: str = "") -> bytes:
    return f"<< /Length {len(data)} {entries} >>\nstream\n".encode() + data + b"\nendstream"


def one_page(
    drawing: bytes = _DRAW,
    box: str = "0 0 595 842",
    more: str = "",
    picture: bytes = b"",
    entries: str = "",
    others: Mapping[int, bytes] | None = None,
) -> bytes:
    """Return a PDF of a page that draws the object X; `others` are further objects by number.

    Args:
        drawing: content of the page.
        box: its media box.
        more: further entries of the page, such as other resources than X.
        picture: the object X.
        entries: entries of the drawing's stream.
    """
    resources = "" if "/Resources" in more else "/Resources << /XObject << /X 5 0 R >> >>"
    page = f"<< /Type /Page /Parent 2 0 R /MediaBox [{box}] /Contents 4 0 R {resources} {more} >>"
    return pdf(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R >>",
            2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            3: page.encode(),
            4: stream(drawing, entries),
            5: picture or image(small().tobytes(), small().size),
        }
        | dict(others or {})
    )


def image(data: bytes, size: tuple[int, int], more: str = "/BitsPerComponent 8 /ColorSpace /DeviceGray") -> bytes:
    return stream(data, f"/Type /XObject /Subtype /Image /Width {size[0]} /Height {size[1]} {more}")


def form(drawing: bytes, more: str = "") -> bytes:
    return stream(drawing, f"/Type /XObject /Subtype /Form /BBox [0 0 595 842] {more}")


def files() -> Iterator[tuple[str, bytes]]:
    for name, box in _BOXES.items():
        yield f"PDF page of {name}", one_page(box=box)
    for name, entry in _TRICKS.items():
        yield f"PDF page with {name}", one_page(more=entry)
    yield from _trees()
    yield from _recursion()
    yield from _bombs()
    yield from _pictures()
    yield from _tables()


def _trees() -> Iterator[tuple[str, bytes]]:
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] >>"
    catalog = b"<< /Type /Catalog /Pages 2 0 R >>"

    def pages(kids: Sequence[int], count: int) -> bytes:
        return f"<< /Type /Pages /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] /Count {count} >>".encode()

    for count in (1, 10_000):
        numbers = range(3, count + 3)
        yield (
            f"PDF of {count:,} empty pages",
            pdf({1: catalog, 2: pages(numbers, count)} | dict.fromkeys(numbers, page)),
        )
    yield "PDF that lists a page 10,000 times", pdf({1: catalog, 2: pages([3] * 10_000, 10_000), 3: page})
    for count in (-1, 0, 2**31 - 1):
        yield f"PDF that declares {count:,} pages", pdf({1: catalog, 2: pages([3], count), 3: page})
    yield "PDF whose pages are their own", pdf({1: catalog, 2: pages([2], 1)})
    yield "PDF whose pages are a ring", pdf({1: catalog, 2: pages([3], 1), 3: pages([2], 1)})
    depth = 3_000
    nested = {number: pages([number + 1], 1) for number in range(2, depth)}
    yield "PDF of pages 3,000 levels deep", pdf({1: catalog, depth: page} | nested)
    yield "PDF without pages", pdf({1: b"<< /Type /Catalog >>"})
    yield "PDF whose root is a number", pdf({1: b"7"})


def _recursion() -> Iterator[tuple[str, bytes]]:
    own, other = "/Resources << /XObject << /X 5 0 R /Y 6 0 R >> >>", b"/Y Do "
    yield "PDF with a form in itself", one_page(picture=form(b"/X Do", own))
    yield "PDF with forms in a ring", one_page(picture=form(other, own), others={6: form(b"/X Do", own)})
    yield "PDF with a form that doubles itself", one_page(picture=form(b"/X Do /X Do", own))
    doubling = {n: form(b"/X Do " * 10, f"/Resources << /XObject << /X {n + 1} 0 R >> >>") for n in range(6, 15)}
    last = {15: image(small().tobytes(), small().size)}
    yield (
        "PDF of 10**10 pictures",
        one_page(picture=form(b"/X Do " * 10, "/Resources << /XObject << /X 6 0 R >> >>"), others=doubling | last),
    )
    deep = {n: form(b"/X Do", f"/Resources << /XObject << /X {n + 1} 0 R >> >>") for n in range(6, 800)}
    yield (
        "PDF of forms 800 levels deep",
        one_page(
            picture=form(b"/X Do", "/Resources << /XObject << /X 6 0 R >> >>"),
            others=deep | {800: form(b"0 0 9 9 re f")},
        ),
    )
    tiled = "/Resources << /Pattern << /P 6 0 R >> >>"
    tile = "/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 1 1]"
    pattern = f"{tile} /XStep {{0}} /YStep {{0}} {tiled}"
    fill = b"/Pattern cs /P scn 0 0 595 842 re f"
    yield "PDF with a pattern in itself", one_page(fill, more=tiled, others={6: stream(fill, pattern.format(1))})
    yield (
        "PDF with a pattern of tiny steps",
        one_page(fill, more=tiled, others={6: stream(b"0 0 1 1 re f", pattern.format("0.0001"))}),
    )
    yield (
        "PDF with a pattern without steps",
        one_page(fill, more=tiled, others={6: stream(b"0 0 1 1 re f", pattern.format(0))}),
    )
    grey = "/BitsPerComponent 8 /ColorSpace /DeviceGray /SMask 5 0 R"
    yield "PDF with a picture that is its own mask", one_page(picture=image(small().tobytes(), small().size, grey))
    yield "PDF whose length is its own", one_page(picture=b"<< /Length 5 0 R >>\nstream\n\nendstream")
    glyphs = "/CharProcs << /a 7 0 R >> /Encoding << /Differences [97 /a] >> /FirstChar 97 /LastChar 97 /Widths [9]"
    own_font = "/Resources << /Font << /F 6 0 R >> >>"
    glyph = f"/Type /Font /Subtype /Type3 /FontBBox [0 0 9 9] /FontMatrix [1 0 0 1 0 0] {glyphs} {own_font}"
    text = b"BT /F 12 Tf (aaaa) Tj ET"
    yield (
        "PDF with a glyph that draws itself",
        one_page(text, more=own_font, others={6: f"<< {glyph} >>".encode(), 7: stream(text)}),
    )


def _bombs() -> Iterator[tuple[str, bytes]]:
    flate = "/Filter /FlateDecode"
    once = zeros(500 << 20)
    yield "PDF with a drawing of 500 MB", one_page(once, entries=flate)
    yield (
        "PDF with a drawing packed twice",
        one_page(zlib.compress(zeros(1 << 30), 9), entries="/Filter [/FlateDecode /FlateDecode]"),
    )
    yield "PDF with a hundred filters", one_page(entries=f"/Filter [{'/FlateDecode ' * 100}]")
    yield "PDF with a million lines", one_page(zlib.compress(b"0 0 m 595 842 l S\n" * 1_000_000), entries=flate)
    yield "PDF with 300,000 saved states", one_page(zlib.compress(b"q " * 300_000 + _DRAW), entries=flate)
    yield "PDF with 100,000 pictures", one_page(zlib.compress((_DRAW + b"\n") * 100_000), entries=flate)
    yield "PDF with arrays 100,000 levels deep", one_page(b"[" * 100_000 + b"]" * 100_000)
    yield "PDF with an object 100,000 levels deep", one_page(picture=b"[" * 100_000 + b"]" * 100_000)
    for side in (12_000, 30_000, 65_535):
        for bits in (1, 8):
            packed = zeros(min(side * side * bits // 8, 200 << 20))
            picture = image(packed, (side, side), f"/BitsPerComponent {bits} /ColorSpace /DeviceGray {flate}")
            yield f"PDF with a picture of {side:,} x {side:,}, {bits} bits", one_page(picture=picture)


def _pictures() -> Iterator[tuple[str, bytes]]:
    chance = random.Random(7)
    noise, jpeg = chance.randbytes(6_000), saved(small(), "JPEG")
    for name in _FILTERS:
        for kind, data in (("noise", noise), ("zeros", bytes(6_000)), ("nothing", b""), ("a JPEG", jpeg)):
            more = f"/BitsPerComponent 8 /ColorSpace /DeviceGray /Filter /{name}"
            yield f"PDF, {name} of {kind}", one_page(picture=image(data, (600, 400), more))
    for parameters in ("/K -1 /Columns 2147483647", "/K 4 /Columns 0", "/K 0 /Columns 65535 /Rows 2147483647"):
        more = f"/BitsPerComponent 1 /ColorSpace /DeviceGray /Filter /CCITTFaxDecode /DecodeParms << {parameters} >>"
        yield f"PDF, fax with {parameters}", one_page(picture=image(noise, (65_535, 900), more))
    for predictor, columns in ((15, 2**31 - 1), (2, 0), (99, 1)):
        parameters = f"/DecodeParms << /Predictor {predictor} /Columns {columns} /Colors 99 >>"
        more = f"/BitsPerComponent 8 /ColorSpace /DeviceGray /Filter /FlateDecode {parameters}"
        yield f"PDF, predictor {predictor} of {columns} columns", one_page(picture=image(zeros(9_000), (90, 90), more))
    jp2 = (
        b"\0\0\0\x0cjP  \r\n\x87\n\0\0\0\x14ftypjp2 \0\0\0\0jp2 "
        b"\0\0\0\x2djp2h\0\0\0\x16ihdr\xff\xff\xff\xff\xff\xff\xff\xff\0\x03\x07\x07\0\0"
    )
    yield "PDF, JPEG 2000 of 2**32 x 2**32", one_page(picture=image(jp2, (600, 400), "/Filter /JPXDecode"))
    segment = b"\0\0\0\x000\0\1\0\0\0\x13\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0"
    more = "/BitsPerComponent 1 /ColorSpace /DeviceGray /Filter /JBIG2Decode"
    yield "PDF, JBIG2 page of 2**32 x 2**32", one_page(picture=image(segment, (600, 400), more))
    for size in ((0, 0), (-1, -1), (2**31 - 1, 1), (1, 65_535)):
        yield f"PDF with a picture of {size[0]} x {size[1]}", one_page(picture=image(noise, size))
    for colours in (
        "/Pattern",
        "[/Indexed /DeviceRGB 99999 <00>]",
        "[/Indexed 5 0 R 1 <00>]",
        "[/ICCBased 5 0 R]",
        "7",
    ):
        yield (
            f"PDF with colours {colours}",
            one_page(picture=image(small().tobytes(), small().size, f"/BitsPerComponent 8 /ColorSpace {colours}")),
        )
    for matrix in ("1e30 0 0 1e30 0 0", "0 0 0 0 0 0", "NaN 0 0 NaN 0 0", "-500 0 0 -700 540 760", "1e-30 0 0 1 0 0"):
        yield f"PDF with a picture at {matrix}", one_page(f"q {matrix} cm /X Do Q".encode())
    yield "PDF with an inline picture without an end", one_page(b"BI /W 9999 /H 9999 /BPC 8 /CS /G ID " + noise)


def _tables() -> Iterator[tuple[str, bytes]]:
    sound = one_page()
    start = sound.rindex(b"startxref")
    table = sound.index(b"xref\n0")
    yield "PDF whose table is its own previous one", sound.replace(b"/Root 1 0 R", b"/Root 1 0 R /Prev %d" % table)
    yield "PDF whose table is outside", sound[:start] + b"startxref\n99999999999\n%%EOF"
    yield "PDF without a table", sound[:table]
    yield "PDF whose table declares 2**31 objects", sound.replace(b"xref\n0 6", b"xref\n0 2147483647")
    yield (
        "PDF that is encrypted without a key",
        pdf(
            {1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"<< /Type /Pages /Kids [] /Count 0 >>"},
            trailer="/Encrypt << /Filter /Standard /V 4 /R 4 /O <00> /U <00> /P -1 >>",
        ),
    )
    objects = "/Type /ObjStm /N 100000 /First 9"
    yield "PDF with objects in a stream that lacks them", one_page(others={6: stream(b"7 0 8 9 << >>", objects)})
    yield (
        "PDF with a stream of objects that extends itself",
        one_page(others={6: stream(b"7 0 8 9 << >>", "/Type /ObjStm /N 2 /First 8 /Extends 6 0 R")}),
    )
