"""PNG files with wrong sizes, chunks and profiles."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

from PIL import Image

from tests.support.hostile.samples import small

SIGNATURE = b"\x89PNG\r\n\x1a\n"
END = (b"IEND", b"")
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
_ADLER = 65_521  # the modulus of the checksum, whose lower half is 1 for zeros
_COLOURS = (GREY, RGB, PALETTE, GREY_ALPHA, RGBA)
_SIZES = (
    (65_535, 65_535),
    (1, 65_535),
    (65_535, 1),
    (2**31 - 1, 2**31 - 1),
    (2**32 - 1, 1),
    (0, 0),
    (0, 900),
    (12_000, 12_000),
    (100_000, 100),
    (9, 2_000_000),
    (1, 1),
)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    return SIGNATURE + b"".join(chunk(kind, data) for kind, data in chunks)


def head(width: int, height: int, depth: int = 8, colour: int = GREY, interlaced: int = 0) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)


def zeros(count: int) -> bytes:
    """Return `count` zeros, compressed to a thousandth: blocks of a MiB that are compressed once."""
    whole, rest = divmod(count, 1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    end = packer.compress(bytes(rest)) + packer.flush()
    return b"\x78\xda" + block * whole + end + struct.pack(">HH", count % _ADLER, 1)


def files() -> Iterator[tuple[str, bytes]]:
    yield from _sizes()
    yield from _depths()
    yield from _bombs()
    yield from _chunks()


def _sizes() -> Iterator[tuple[str, bytes]]:
    pixels = (b"IDAT", zeros(70_000))
    for width, height in _SIZES:
        yield f"PNG of {width} x {height} without its pixels", png(head(width, height), pixels, END)
    for interlaced in (1, 7):
        yield f"PNG, interlaced {interlaced}", png(head(900, 900, interlaced=interlaced), pixels, END)


def _depths() -> Iterator[tuple[str, bytes]]:
    """Yield every pair of a depth and a kind of colour; most are invalid."""
    for colour in (*_COLOURS, 1, 255):
        for depth in (0, 1, 3, 8, 16, 64):
            content = png(head(300, 300, depth, colour), (b"IDAT", zeros(800_000)), END)
            yield f"PNG of {depth} bits, colour {colour}", content


def _bombs() -> Iterator[tuple[str, bytes]]:
    side = 12_000
    for colour, size in ((GREY, 1), (RGB, 3), (RGBA, 4)):
        content = png(head(side, side, 8, colour), (b"IDAT", zeros(side * (side * size + 1))), END)
        yield f"PNG bomb of {side} x {side}, colour {colour}", content
    deep = png(head(12_600, 12_600, 16, RGBA), (b"IDAT", zeros(12_600 * (12_600 * 8 + 1))), END)
    yield "PNG bomb of 64 bits for a pixel", deep
    yield "PNG with 100 MB behind its pixels", png(head(300, 300), (b"IDAT", zeros(100 << 20)), END)


def _chunks() -> Iterator[tuple[str, bytes]]:
    start, pixels = head(400, 200), (b"IDAT", zeros(401 * 200))
    bomb = zeros(200 << 20)
    inserted = {
        "a profile bomb": (b"iCCP", b"p\0\0" + bomb),
        "a text bomb": (b"zTXt", b"t\0\0" + bomb),
        "an international text bomb": (b"iTXt", b"t\0\1\0\0\0" + bomb),
        "an invalid profile": (b"iCCP", b"p\0\0" + zlib.compress(b"\xff" * 4_000)),
        "EXIF that refers to itself": (b"eXIf", EXIF_LOOP),
        "no resolution": (b"pHYs", struct.pack(">IIB", 0, 0, 1)),
        "the largest resolution": (b"pHYs", struct.pack(">IIB", 2**32 - 1, 2**32 - 1, 1)),
        "a resolution only across": (b"pHYs", struct.pack(">IIB", 7_874, 1, 1)),
        "a short resolution": (b"pHYs", b"\1"),
        "a second head": head(65_535, 65_535),
        "a transparency of no colour": (b"tRNS", b"\0"),
        "a palette of odd length": (b"PLTE", b"\1\2\3\4"),
        "gamma of zero": (b"gAMA", bytes(4)),
        "an animation of no frame": (b"acTL", struct.pack(">II", 0, 0)),
        "an animation of 2**31 frames": (b"acTL", struct.pack(">II", 2**31 - 1, 0)),
        "a frame outside": (b"fcTL", struct.pack(">IIIIIHHBB", 0, 9_000, 9_000, 9_000, 9_000, 0, 0, 9, 9)),
    }
    for name, extra in inserted.items():
        yield f"PNG with {name}", png(start, extra, pixels, END)
        yield f"PNG with {name} after its pixels", png(start, pixels, extra, END)
    yield "PNG of 10,000 parts", png(start, *[(b"IDAT", pixels[1][at : at + 1]) for at in range(10_000)], END)
    yield "PNG without pixels", png(start, END)
    yield "PNG without an end", png(start, pixels)
    yield "PNG that is only a signature", SIGNATURE
    yield "PNG with a palette that is missing", png(head(400, 200, 8, PALETTE), pixels, END)
    yield "PNG whose length is wrong", SIGNATURE + struct.pack(">I", 2**31) + chunk(*start)[4:] + chunk(*pixels)
    yield "PNG animation", _animation()


def _animation() -> bytes:
    content = io.BytesIO()
    small().save(content, "PNG", save_all=True, append_images=[Image.new("L", small().size)])
    return content.getvalue()


EXIF_LOOP = b"II*\0\x08\0\0\0" + struct.pack("<HHHIII", 1, 0x8769, 4, 1, 8, 8)
"""EXIF data whose inner directory is the outer one."""
