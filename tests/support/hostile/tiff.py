"""TIFF files with broken chains of directories, absurd fields, and damaged compressed pixels."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping

WIDTH, HEIGHT, BITS, COMPRESSION, COLOUR, OFFSETS = 256, 257, 258, 259, 262, 273
SAMPLES, ROWS, COUNTS, RESOLUTION, TILE_WIDTH, SUB_DIRECTORIES, JPEG_TABLES = 277, 278, 279, 282, 322, 330, 347
ORIENTATION, EXTRA = 274, 338
_COMPRESSIONS = {
    2: "Huffman",
    3: "group 3",
    4: "group 4",
    5: "LZW",
    6: "old JPEG",
    7: "JPEG",
    8: "deflate",
    32773: "PackBits",
    34712: "JPEG 2000",
    34925: "LZMA",
    50000: "ZSTD",
    50001: "WebP",
    9: "JBIG",
    65000: "unknown",
}
_FIRST = 8
_FIELDS = {WIDTH: 64, HEIGHT: 64, BITS: 8, COMPRESSION: 1, COLOUR: 1, OFFSETS: 8, SAMPLES: 1, ROWS: 64, COUNTS: 4_096}
_LONG, _LIST = 4, 2**20


def directory(fields: Mapping[int, int], following: int = 0, *, count: int = 1, kind: int = _LONG) -> bytes:
    """Return a directory of fields of one value each, and the offset of the next one."""
    entries = [struct.pack("<HHII", tag, kind, count, value & 0xFFFF_FFFF) for tag, value in sorted(fields.items())]
    return struct.pack("<H", len(entries)) + b"".join(entries) + struct.pack("<I", following)


def tiff(
    fields: Mapping[int, int], following: int = 0, pixels: bytes = b"", *, count: int = 1, kind: int = _LONG
) -> bytes:
    """Return a TIFF of one directory, followed by its pixels."""
    all_fields = _FIELDS | dict(fields)
    length = len(directory(all_fields))
    placed = {OFFSETS: _FIRST + length, COUNTS: len(pixels)} if pixels else {}
    made = directory(all_fields | placed | dict(fields), following, count=count, kind=kind)
    return b"II*\0" + struct.pack("<I", _FIRST) + made + (pixels or bytes(4_096))


def files() -> Iterator[tuple[str, bytes]]:
    yield from _chains()
    yield from _fields()
    yield from _compressed()


def _chains() -> Iterator[tuple[str, bytes]]:
    yield "TIFF whose directory is its own next one", tiff({}, _FIRST)
    for offset in (1, 7, 4_000_000_000, 2**32 - 1):
        yield f"TIFF whose next directory is at {offset}", tiff({}, offset)
    for count in (2, 3, 100):
        yield f"TIFF whose {count} directories are a ring", _directories(count, closed=True)
    for count in (50, 2_500, 10_000):
        yield f"TIFF of {count:,} directories", _directories(count, closed=False)
    yield "TIFF whose inner directory is the outer one", tiff({SUB_DIRECTORIES: _FIRST})
    yield "TIFF without a directory", b"II*\0" + struct.pack("<I", 0)
    yield "TIFF whose first directory is outside", b"II*\0" + struct.pack("<I", 2**31)
    yield "TIFF of 65,535 fields that are missing", b"II*\0" + struct.pack("<IH", _FIRST, 65_535)
    yield "TIFF of no field", b"II*\0" + struct.pack("<IHI", _FIRST, 0, 0)
    yield "big-endian TIFF with little-endian fields", b"MM\0*" + tiff({})[4:]
    yield "BigTIFF", b"II+\0\x08\0\0\0" + struct.pack("<Q", 16) + bytes(64)


def _directories(count: int, *, closed: bool) -> bytes:
    """Return a TIFF of many directories that share their pixels; the last one may lead to the first."""
    pixels = bytes(4_096)
    first = _FIRST + len(pixels)
    length = len(directory(_FIELDS))
    ends = first if closed else 0
    made = [directory(_FIELDS, first + (n + 1) * length if n + 1 < count else ends) for n in range(count)]
    return b"II*\0" + struct.pack("<I", first) + pixels + b"".join(made)


def _fields() -> Iterator[tuple[str, bytes]]:
    absurd = {
        "65,535 x 65,535 pixels": {WIDTH: 65_535, HEIGHT: 65_535},
        "1 x 65,535 pixels": {WIDTH: 1, HEIGHT: 65_535},
        "2**31 x 2**31 pixels": {WIDTH: 2**31, HEIGHT: 2**31},
        "no pixel": {WIDTH: 0, HEIGHT: 0},
        "12,000 x 12,000 pixels": {WIDTH: 12_000, HEIGHT: 12_000, ROWS: 12_000, COUNTS: 144_000_000},
        "no bit": {BITS: 0},
        "3 bits": {BITS: 3},
        "64 bits": {BITS: 64},
        "65,535 bits": {BITS: 65_535},
        "no sample": {SAMPLES: 0},
        "65,535 samples": {SAMPLES: 65_535},
        "4 samples of 1 bit": {SAMPLES: 4, BITS: 1},
        "no row in a strip": {ROWS: 0},
        "2**32 - 1 rows in a strip": {ROWS: 2**32 - 1},
        "pixels outside": {OFFSETS: 4_000_000_000},
        "pixels of 4 GB": {COUNTS: 2**32 - 1},
        "pixels in the head": {OFFSETS: 0},
        "a colour of no kind": {COLOUR: 77},
        "CMYK of one sample": {COLOUR: 5},
        "Lab": {COLOUR: 8},
        "a palette that is missing": {COLOUR: 3},
        "YCbCr of one sample": {COLOUR: 6},
        "tiles of no pixel": {TILE_WIDTH: 0, TILE_WIDTH + 1: 0, TILE_WIDTH + 2: 8, TILE_WIDTH + 3: 64},
        "tiles of 65,535 pixels": {TILE_WIDTH: 65_535, TILE_WIDTH + 1: 65_535, TILE_WIDTH + 2: 8, TILE_WIDTH + 3: 64},
        "tiles of 1 pixel": {TILE_WIDTH: 1, TILE_WIDTH + 1: 1, TILE_WIDTH + 2: 8, TILE_WIDTH + 3: 1},
        "a resolution outside": {RESOLUTION: 2**31, RESOLUTION + 1: 2**31},
        "a resolution in the head": {RESOLUTION: 0, RESOLUTION + 1: 0},
        "an orientation of 99": {ORIENTATION: 99},
        "an orientation of 6": {ORIENTATION: 6},
        "an extra sample of no kind": {EXTRA: 9},
        "planes of no kind": {284: 9},
        "floating point of 8 bits": {339: 3},
        "a predictor of floating point": {317: 3, COMPRESSION: 8},
        "a fill order of 2": {266: 2, BITS: 1},
        "EXIF in the directory": {0x8769: _FIRST},
        "GPS in the directory": {0x8825: _FIRST},
        "a profile outside": {34675: 2**31},
    }
    for name, fields in absurd.items():
        yield f"TIFF with {name}", tiff(fields)
    for kind in (0, 1, 2, 5, 7, 12, 13, 16, 99):
        yield f"TIFF with fields of type {kind}", tiff({}, kind=kind)
    for count in (0, 2, 1_000, _LIST, 2**32 - 1):
        yield f"TIFF with fields of {count:,} values", tiff({}, count=count)


def _compressed() -> Iterator[tuple[str, bytes]]:
    """Yield each compression with pixels that are noise, zeros or ones."""
    noise = random.Random(7).randbytes(4_000)
    for number, name in _COMPRESSIONS.items():
        bits = 1 if number in (2, 3, 4) else 8
        for kind, pixels in (("noise", noise), ("zeros", bytes(4_000)), ("ones", b"\xff" * 4_000)):
            fields = {COMPRESSION: number, BITS: bits, WIDTH: 2_000, HEIGHT: 1_000, ROWS: 1_000}
            yield f"TIFF, {name} of {kind}", tiff(fields, 0, pixels)
