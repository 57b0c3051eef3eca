"""A check of packs, which servers send, before they are unpacked."""

from __future__ import annotations

import struct
import zlib
from mmap import ACCESS_READ, mmap
from typing import BinaryIO

_HEADER = struct.Struct(">4sLL")
_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7
_PIECE_BYTES = 1 << 16
_DELTA_HEAD_BYTES = 20  # two lengths


class TooLargePack(ValueError):
    """A pack or one of its objects has more bytes than allowed."""


def require_bounded(file: BinaryIO, *, max_bytes: int, hash_bytes: int) -> None:
    """Check the sizes of all objects of a pack, with little memory.

    dulwich unpacks an object into memory at once, and a pack of a few megabytes can contain an object of gigabytes: as
    compressed zeros, or as a delta that repeats a piece.

    Args:
        file: the pack.
        max_bytes: maximum size of an object.
        hash_bytes: bytes of an object's id.

    Raises:
        TooLargePack: an object has more bytes.
        ValueError, IndexError, zlib.error: the file is not a pack.
    """
    with mmap(file.fileno(), 0, access=ACCESS_READ) as pack:
        magic, _, count = _HEADER.unpack_from(pack)
        if magic != b"PACK":
            raise ValueError("not a pack")
        offset = _HEADER.size
        for _ in range(count):
            offset = _end_of_object(pack, offset, max_bytes, hash_bytes)


def _end_of_object(pack: mmap, offset: int, max_bytes: int, hash_bytes: int) -> int:
    """Return the offset after an object, whose size is checked."""
    kind, size = pack[offset] >> 4 & 7, pack[offset] & 15
    rest, offset = _length(pack, offset + 1) if pack[offset] & 0x80 else (0, offset + 1)
    size |= rest << 4
    if kind == _OFFSET_DELTA:
        offset = _length(pack, offset)[1]
    elif kind == _REFERENCE_DELTA:
        offset += hash_bytes
    head, offset = _unpack(pack, offset, size)
    if kind in (_OFFSET_DELTA, _REFERENCE_DELTA):
        size = max(
            size, _length(head, _length(head, 0)[1])[0]
        )  # the length of the result is after the length of its base
    if size > max_bytes:
        raise TooLargePack
    return offset


def _unpack(pack: mmap, offset: int, size: int) -> tuple[bytes, int]:
    """Return the first bytes of compressed data, and the offset after its end."""
    unpacking, head, unpacked = zlib.decompressobj(), b"", 0
    while not unpacking.eof:
        packed = unpacking.unconsumed_tail
        if not packed:
            packed = pack[offset : offset + _PIECE_BYTES]
            offset += len(packed)
        piece = unpacking.decompress(packed, _PIECE_BYTES)
        head, unpacked = head or piece[:_DELTA_HEAD_BYTES], unpacked + len(piece)
        if unpacked > size or not packed:
            raise ValueError("an object does not have its length")
    return head, offset - len(unpacking.unused_data)


def _length(data: mmap | bytes, offset: int) -> tuple[int, int]:
    """Return a number of seven bits per byte, the lowest first, and the offset after it."""
    value = shift = 0
    while True:
        byte = data[offset]
        value, shift, offset = value | (byte & 0x7F) << shift, shift + 7, offset + 1
        if not byte & 0x80:
            return value, offset
