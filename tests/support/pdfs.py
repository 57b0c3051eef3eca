"""PDF files with lines of text, and PDF files that try to act by themselves."""

from __future__ import annotations

from collections.abc import Sequence

_CATALOG, _PAGES, _FONT = 1, 2, 3
_LEADING = 18
_HELVETICA = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"


def pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """Return a PDF file whose pages have these lines."""
    return _written(pages, b"", b"")


def acting_pdf(lines: Sequence[str], address: str) -> bytes:
    """Return a PDF file with one page that runs scripts, opens an address, and is covered by a link and a field."""
    script = b"<</S/JavaScript/JS(app.alert\\(1\\); app.launchURL\\('%s'\\);)>>" % address.encode()
    names = b"/Names<</JavaScript<</Names[(a)%s]>>>>" % script
    link = b"<</Type/Annot/Subtype/Link/Rect[0 0 612 792]/A<</S/URI/URI(%s)>>>>" % address.encode()
    field = (
        b"<</Type/Annot/Subtype/Widget/FT/Tx/T(f)/V(v)/Rect[0 0 300 300]/AA<</F %s/K %s/C %s>>>>"
        % ((script,) * 3)
    )  # fmt: skip
    form = b"/AcroForm<</Fields[]/XFA(<xdp:xdp xmlns:xdp='http://ns.adobe.com/xdp/'/>)>>"
    catalog = b"/OpenAction %s/AA<</WC %s>>%s%s" % (script, script, names, form)
    return _written([lines], catalog, b"/AA<</O %s>>/Annots[%s %s]" % (script, link, field))


def japanese_pdf(text: str) -> bytes:
    """Return a PDF file with a text in an encoding whose table is not in the file, and without its font."""
    font = (
        b"<</Type/Font/Subtype/Type0/BaseFont/Gothic/Encoding/UniJIS-UCS2-H/DescendantFonts[<</Type/Font"
        b"/Subtype/CIDFontType0/BaseFont/Gothic/CIDSystemInfo<</Registry(Adobe)/Ordering(Japan1)/Supplement 2>>"
        b"/FontDescriptor<</Type/FontDescriptor/FontName/Gothic/Flags 4/ItalicAngle 0/Ascent 800/Descent -200"
        b"/CapHeight 700/StemV 80/FontBBox[0 -200 1000 900]>>>>]>>"
    )
    content = b"BT /F 12 Tf 72 700 Td <%s> Tj ET" % text.encode("utf-16-be").hex().encode()
    return _file(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 1/Kids[5 0 R]>>",
            font,
            b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>/Contents 4 0 R>>",
        ]
    )


def _written(pages: Sequence[Sequence[str]], catalog: bytes, page: bytes) -> bytes:
    objects = [b"<</Type/Catalog/Pages 2 0 R%s>>" % catalog, b"", _HELVETICA]
    kids = []
    for lines in pages:
        shown = b"".join(b"(%s) Tj 0 -%d Td " % (_escaped(line), _LEADING) for line in lines)
        content = b"BT /F 12 Tf 72 700 Td %sET" % shown
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(content), content))
        objects.append(
            b"<</Type/Page/Parent %d 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F %d 0 R>>>>/Contents %d 0 R%s>>"
            % (_PAGES, _FONT, len(objects), page)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[_PAGES - 1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), b" ".join(kids))
    return _file(objects)


def _file(objects: Sequence[bytes]) -> bytes:
    file, starts = bytearray(b"%PDF-1.7\n"), []
    for number, each in enumerate(objects, 1):
        starts.append(len(file))
        file += b"%d 0 obj%sendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % start for start in starts)
    file += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    return bytes(
        file
        + b"trailer<</Size %d/Root %d 0 R>>\nstartxref\n%d\n%%%%EOF"
        % (len(objects) + 1, _CATALOG, file.index(b"xref\n"))
    )


def _escaped(line: str) -> bytes:
    return line.encode("cp1252").replace(b"\\", rb"\\").replace(b"(", rb"\(").replace(b")", rb"\)")
