"""JPEG, WebP, BMP and GIF files with wrong sizes, headers and profiles, and unusual modes of all kinds."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

from PIL import Image

from tests.support.hostile.png import EXIF_LOOP
from tests.support.hostile.samples import saved, small, valid

_SIZES = ((65_535, 65_535), (1, 65_535), (65_535, 1), (0, 0), (12_000, 12_000), (7, 7))
_MODES = {
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
    "JPEG": ("L", "RGB", "CMYK", "YCbCr"),
    "TIFF": ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "I", "F", "I;16"),
    "WEBP": ("RGB", "RGBA"),
    "BMP": ("1", "L", "P", "RGB"),
    "GIF": ("1", "L", "P"),
}


def files() -> Iterator[tuple[str, bytes]]:
    yield from _jpegs()
    yield from _webps()
    yield from _bitmaps()
    yield from _gifs()
    yield from _modes()


def _jpegs() -> Iterator[tuple[str, bytes]]:
    sound = valid()["JPEG"]
    at = sound.index(b"\xff\xc0")
    for width, height in _SIZES:
        size = struct.pack(">HH", height, width)
        yield f"JPEG of {width} x {height}", sound[: at + 5] + size + sound[at + 9 :]
    for components in (0, 2, 4, 255):
        yield f"JPEG of {components} components", sound[: at + 9] + bytes([components]) + sound[at + 10 :]
    for marker in (0xC2, 0xC3, 0xC9, 0xCF):
        yield f"JPEG of process {marker:x}", sound[: at + 1] + bytes([marker]) + sound[at + 2 :]
    segments = {
        "2,000 parts of a profile": b"".join(
            _segment(0xE2, b"ICC_PROFILE\0\1\xff" + bytes(3_000)) for _ in range(2_000)
        ),
        "EXIF that refers to itself": _segment(0xE1, b"Exif\0\0" + EXIF_LOOP),
        "EXIF of noise": _segment(0xE1, b"Exif\0\0" + b"\xff" * 900),
        "a segment of no length": b"\xff\xe1\0\0",
        "many pictures that are missing": _segment(0xE2, b"MPF\0" + EXIF_LOOP),
        "an orientation of 8": _segment(0xE1, b"Exif\0\0" + _orientation(8)),
        "an orientation of 65,535": _segment(0xE1, b"Exif\0\0" + _orientation(65_535)),
        "60,000 fill bytes": b"\xff" * 60_000,
    }
    for name, segment in segments.items():
        yield f"JPEG with {name}", sound[:2] + segment + sound[2:]
    yield "JPEG without pixels", sound[: sound.index(b"\xff\xda")] + b"\xff\xd9"
    yield "JPEG of 3,000 scans", _many_scans()


def _segment(marker: int, data: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def _orientation(value: int) -> bytes:
    return b"II*\0\x08\0\0\0" + struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, value, 0, 0)


def _many_scans() -> bytes:
    """Return a progressive JPEG of 8,000 x 8,000 declared pixels, one of whose scans is repeated."""
    sound = saved(small(), "JPEG", progressive=True)
    at, scan = sound.index(b"\xff\xc2"), sound.rindex(b"\xff\xda")
    large = sound[: at + 5] + struct.pack(">HH", 8_000, 8_000) + sound[at + 9 : scan]
    return large + sound[scan:-2] * 3_000 + b"\xff\xd9"


def _webps() -> Iterator[tuple[str, bytes]]:
    lossy, lossless = valid()["WEBP"], saved(small().convert("RGB"), "WEBP", lossless=True)
    for length in (0, 5, len(lossy) * 2, 2**32 - 1):
        yield f"WebP that declares {length} bytes", lossy[:4] + struct.pack("<I", length) + lossy[8:]
    frame = lossy.index(b"\x9d\x01\x2a")
    for width, height in ((16_383, 16_383), (0, 0), (1, 16_383)):
        yield f"WebP of {width} x {height}", lossy[: frame + 3] + struct.pack("<HH", width, height) + lossy[frame + 7 :]
    start = lossless.index(b"VP8L") + 9
    yield "lossless WebP of 16,384 x 16,384", lossless[:start] + b"\xff\xff\xff\x0f" + lossless[start + 4 :]
    for flags in (0, 2, 16, 255):
        canvas = struct.pack("<B3x", flags) + b"\xff\xff\xff" * 2
        body = b"VP8X" + struct.pack("<I", 10) + canvas + lossy[12:]
        yield f"WebP with a canvas of 2**24 pixels, flags {flags}", _riff(body)
    yield "WebP without a frame", _riff(b"")
    yield "WebP animation", _animation("WEBP")
    yield "WebP of 16,383 x 2,000", saved(Image.new("L", (16_383, 2_000)), "WEBP", method=0)


def _riff(body: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def _bitmaps() -> Iterator[tuple[str, bytes]]:
    sound = valid()["BMP"]
    for width, height in ((480, -120), (-480, 120), (65_535, 65_535), (2**31 - 1, -(2**31)), (0, 0), (1, -65_535)):
        yield f"BMP of {width} x {height}", sound[:18] + struct.pack("<ii", width, height) + sound[26:]
    for bits in (0, 1, 2, 3, 16, 24, 32, 64, 65_535):
        yield f"BMP of {bits} bits", sound[:28] + struct.pack("<H", bits) + sound[30:]
    for compression in (1, 2, 3, 4, 5, 6, 99):
        yield f"BMP, compression {compression}", sound[:30] + struct.pack("<I", compression) + sound[34:]
    for colours in (1, 257, 2**31, 2**32 - 1):
        yield f"BMP of {colours} colours", sound[:46] + struct.pack("<I", colours) + sound[50:]
    for offset in (0, 20, 2**31, 2**32 - 1):
        yield f"BMP with pixels at {offset}", sound[:10] + struct.pack("<I", offset) + sound[14:]
    for length in (0, 11, 12, 64, 124, 2**32 - 1):
        yield f"BMP with a header of {length} bytes", sound[:14] + struct.pack("<I", length) + sound[18:]
    jumps = b"\0\2\xff\xff" * 20_000  # moves of the position in run-length compression, which leave the picture
    fields = struct.pack("<IiiHHIIiiII", 40, 12_000, 12_000, 1, 8, 1, len(jumps), 0, 0, 256, 0)
    head = b"BM" + struct.pack("<IHHI", 54 + 1_024 + len(jumps), 0, 0, 54 + 1_024)
    yield "BMP of jumps outside", head + fields + bytes(1_024) + jumps


def _gifs() -> Iterator[tuple[str, bytes]]:
    sound = valid()["GIF"]
    for width, height in _SIZES:
        size = struct.pack("<HH", width, height)
        yield f"GIF of {width} x {height}", sound[:6] + size + sound[10:]
        at = sound.index(b"\x2c", 13 + 3 * 2 ** ((sound[10] & 7) + 1))
        yield f"GIF with a frame of {width} x {height}", sound[: at + 5] + size + sound[at + 9 :]
    yield "GIF animation", _animation("GIF")
    yield "GIF without frames", sound[:13] + b"\x3b"
    yield "GIF of comments", sound[:13] + b"\x21\xfe" + (b"\xff" + b"a" * 255) * 20_000 + b"\0;"


def _animation(kind: str) -> bytes:
    content = io.BytesIO()
    small().save(content, kind, save_all=True, append_images=[small().transpose(Image.Transpose.ROTATE_180)])
    return content.getvalue()


def _modes() -> Iterator[tuple[str, bytes]]:
    for kind, modes in _MODES.items():
        for mode in modes:
            yield f"{kind}, mode {mode}", saved(_in_mode(mode), kind)


def _in_mode(mode: str) -> Image.Image:
    if mode == "I;16":
        return small().point(lambda value: value * 256, "I").convert("I;16")
    if mode == "LAB":
        return Image.merge("LAB", [small()] * 3)
    return small().convert(mode)
