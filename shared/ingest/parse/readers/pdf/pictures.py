"""The pictures of a PDF file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ctypes import addressof, c_char, c_uint, create_string_buffer, string_at
from typing import Any

import pypdfium2
from pypdfium2 import raw

from shared.ingest.parse.readers.pdf.opening import opened

_MAX_DEPTH = 6  # of nested forms
_MAX_OBJECTS = 20_000  # of a page
_MAX_PIXELS = 40_000_000
_MAX_BYTES = 64 * 1024 * 1024


def pictures_in(content: bytes) -> list[tuple[int, bytes]]:
    """Return the pictures of a PDF file in order, each with the number of its page: JPEG as stored, others as BMP.

    Raises:
        Unreadable: the file is damaged or protected with a password.
    """
    found = list[tuple[int, bytes]]()
    with opened(content) as document:
        for number in range(1, len(document) + 1):
            try:
                page = document[number - 1]
            except pypdfium2.PdfiumError:
                continue
            found += [(number, picture) for item in _images(page) if (picture := _picture(document, page, item))]
            page.close()
    return found


def _images(page: Any) -> Iterator[Any]:
    count = raw.FPDFPage_CountObjects(page)
    todo = [(raw.FPDFPage_GetObject(page, index), 0) for index in range(min(count, _MAX_OBJECTS))][::-1]
    seen = len(todo)
    while todo:
        item, depth = todo.pop()
        kind = raw.FPDFPageObj_GetType(item)
        if kind == raw.FPDF_PAGEOBJ_IMAGE:
            yield item
        elif kind == raw.FPDF_PAGEOBJ_FORM and depth < _MAX_DEPTH:
            parts = min(raw.FPDFFormObj_CountObjects(item), _MAX_OBJECTS - seen)
            seen += max(parts, 0)
            todo += [(raw.FPDFFormObj_GetObject(item, index), depth + 1) for index in range(parts)][::-1]


def _picture(document: Any, page: Any, item: Any) -> bytes | None:
    width, height = c_uint(), c_uint()
    if not raw.FPDFImageObj_GetImagePixelSize(item, width, height):
        return None
    if not 0 < width.value * height.value <= _MAX_PIXELS:
        return None
    if raw.FPDFImageObj_GetImageFilterCount(item) == 1 and _filter(item) == b"DCTDecode":
        return _stored(item)
    bitmap = raw.FPDFImageObj_GetBitmap(item) if page and document else None
    if not bitmap:
        return None
    try:
        return _bmp(bitmap)
    finally:
        raw.FPDFBitmap_Destroy(bitmap)


def _filter(item: Any) -> bytes:
    name = create_string_buffer(32)
    raw.FPDFImageObj_GetImageFilter(item, 0, name, 32)
    return name.value


def _stored(item: Any) -> bytes | None:
    length = raw.FPDFImageObj_GetImageDataRaw(item, None, 0)
    if not 0 < length <= _MAX_BYTES:
        return None
    data = (c_char * length)()
    raw.FPDFImageObj_GetImageDataRaw(item, data, length)
    return string_at(addressof(data), length)


_BITS = {raw.FPDFBitmap_Gray: 8, raw.FPDFBitmap_BGR: 24, raw.FPDFBitmap_BGRx: 32, raw.FPDFBitmap_BGRA: 32}
_GREY = b"".join(bytes((level, level, level, 0)) for level in range(256))


def _bmp(bitmap: Any) -> bytes | None:
    """Return a bitmap as a BMP file, whose rows start at the bottom unless its height is negative."""
    bits = _BITS.get(raw.FPDFBitmap_GetFormat(bitmap))
    width, height = raw.FPDFBitmap_GetWidth(bitmap), raw.FPDFBitmap_GetHeight(bitmap)
    stride, start = raw.FPDFBitmap_GetStride(bitmap), raw.FPDFBitmap_GetBuffer(bitmap)
    if bits is None or not start or not 0 < stride * height <= _MAX_BYTES * 4:
        return None
    data = string_at(start, stride * height)
    row = (width * bits // 8 + 3) // 4 * 4
    if stride != row:
        used = width * bits // 8
        data = b"".join(data[at : at + used].ljust(row, b"\0") for at in range(0, stride * height, stride))
    palette = _GREY if bits == 8 else b""  # noqa: PLR2004
    first = 14 + 40 + len(palette)
    header = struct.pack("<2sIHHI", b"BM", first + len(data), 0, 0, first)
    return (
        header
        + struct.pack("<IiiHHIIiiII", 40, width, -height, 1, bits, 0, len(data), 2835, 2835, 0, 0)
        + palette
        + data
    )
