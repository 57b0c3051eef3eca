"""Documents with pictures: PDF and Word files without a library that writes them."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence

from PIL import Image, ImageDraw

CHART, MAP, LOGO = 1, 2, 3
"""Pictures that differ from each other."""

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES = """<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="png" ContentType="image/png"/>
<Override PartName="/word/document.xml"
 ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>"""

Page = tuple[str, int | None]
"""The text of a page or paragraph, and the picture under it."""


def drawing(picture: int, size: tuple[int, int] = (400, 300)) -> Image.Image:
    """Return a picture of grey bars."""
    image = Image.new("L", size, 255)
    for bar in range(8):
        height = (bar * picture * 37) % size[1]
        left = bar * size[0] // 8
        ImageDraw.Draw(image).rectangle((left, size[1] - height, left + size[0] // 10, size[1]), fill=20 * picture)
    return image


def pdf(pages: Sequence[Page], size: tuple[int, int] = (400, 300)) -> bytes:
    """Return a PDF file with these pages, which share equal pictures."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    pictures: dict[int, int] = {}
    kids = []
    for text, picture in pages:
        if picture is not None and picture not in pictures:
            pictures[picture] = _add(objects, _image(drawing(picture, size)))
        shown = b"" if picture is None else b" q 300 0 0 200 72 300 cm /I Do Q"
        used = b"" if picture is None else b"/XObject<</I %d 0 R>>" % pictures[picture]
        content = _add(objects, _stream(b"", b"BT /F 12 Tf 72 700 Td (%s) Tj ET" % text.encode() + shown))
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>%s>>/Contents %d 0 R>>"
        kids.append(_add(objects, page % (used, content)))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    return _file(objects)


def docx(paragraphs: Sequence[Page]) -> bytes:
    """Return a Word file with these paragraphs."""
    body, relations = "", ""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number, (text, picture) in enumerate(paragraphs):
            body += f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"
            if picture is not None:
                body += _inline(number)
                relations += f'<Relationship Id="r{number}" Type="{_OFFICE}/image" Target="media/{number}.png"/>'
                content = io.BytesIO()
                drawing(picture).save(content, "PNG")
                archive.writestr(f"word/media/{number}.png", content.getvalue())
        archive.writestr("[Content_Types].xml", _TYPES)
        main = f'<Relationship Id="r" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/>'
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{_RELATIONS}">{main}</Relationships>')
        archive.writestr(
            "word/_rels/document.xml.rels", f'<Relationships xmlns="{_RELATIONS}">{relations}</Relationships>'
        )
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>')
    return file.getvalue()


def _inline(number: int) -> str:
    blip = f'<a:blip xmlns:r="{_OFFICE}" r:embed="r{number}"/>'
    picture = f'<pic:pic xmlns:pic="{_DRAWING}/picture"><pic:blipFill>{blip}</pic:blipFill></pic:pic>'
    data = f'<a:graphicData uri="{_DRAWING}/picture">{picture}</a:graphicData>'
    graphic = f'<a:graphic xmlns:a="{_DRAWING}/main">{data}</a:graphic>'
    properties = f'<wp:extent cx="900000" cy="900000"/><wp:docPr id="{number + 1}" name="picture {number}"/>'
    inline = f'<wp:inline xmlns:wp="{_DRAWING}/wordprocessingDrawing">{properties}{graphic}</wp:inline>'
    return f"<w:p><w:r><w:drawing>{inline}</w:drawing></w:r></w:p>"


def _add(objects: list[bytes], content: bytes) -> int:
    objects.append(content)
    return len(objects)


def _image(image: Image.Image) -> bytes:
    entries = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8" % image.size
    return _stream(entries + b"/Filter/FlateDecode", zlib.compress(image.tobytes()))


def _stream(entries: bytes, content: bytes) -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(content), content)


def _file(objects: Sequence[bytes]) -> bytes:
    content, offsets = b"%PDF-1.4\n", list[int]()
    for number, one in enumerate(objects, 1):
        offsets.append(len(content))
        content += b"%d 0 obj%sendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    end = b"trailer<</Size %d/Root 1 0 R>>startxref\n%d\n%%%%EOF" % (len(objects) + 1, len(content))
    return content + head + table + end
