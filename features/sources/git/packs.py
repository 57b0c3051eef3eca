"""Packs and loose objects of Git, read in a confined process. The files come from a server or from other users.

dulwich unpacks an object into memory at once, and a pack of a few megabytes can contain an object of gigabytes: as
compressed zeros, or as a delta that repeats a piece. Numbers of any length take quadratic time. So sizes are checked
before an object is unpacked.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.pack import PackIndexer, UnpackedObject, apply_delta, unpack_object_at

ID_BYTES = 20
MOST_OBJECTS = 5_000_000
MOST_UNPACKED_BYTES = 32 << 30
_HEADER = struct.Struct(">4sLL")
_OFFSET_DELTA, _REFERENCE_DELTA = 6, 7
_TYPES = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}
_MOST_LENGTH_BYTES = 10
_MOST_CHAIN = 10_000
_DELTA_HEAD_BYTES = 2 * _MOST_LENGTH_BYTES
_CACHED_BYTES, _CACHED_OBJECT_BYTES = 32 << 20, 1 << 20
_OFFSET = struct.Struct(">Q")
ENTRY_BYTES = ID_BYTES + _OFFSET.size
_LOOSE_HEAD_BYTES = 64

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value

Contents = Any
"""A file as an array of bytes: a slice of it is `bytes`."""


class TooLargePack(ValueError):
    """A pack or one of its objects has more bytes than allowed, or a pack has too many objects."""


@contextmanager
def mapped(descriptor: int) -> Iterator[Contents]:
    """Yield a file that is mapped into memory.

    Python's `mmap` duplicates the descriptor and shares the memory, and a confined process may do neither.
    """
    size = os.lseek(descriptor, 0, os.SEEK_END)  # `fstat` of recent libraries is another system call
    if not size:
        yield b""
        return
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, descriptor, 0)
    if address in (None, _FAILED):
        raise MemoryError
    try:
        yield (ctypes.c_char * size).from_address(address)
    finally:
        _libc.munmap(address, size)


def indexed(pack: Contents, *, max_bytes: int) -> Iterator[list[tuple[bytes, int]]]:
    """Yield the ids and offsets of all objects of a pack, and empty lists meanwhile.

    Raises:
        TooLargePack: an object has more than `max_bytes`, or there are too many.
        ValueError, AssertionError, zlib.error: the file is not a pack.
    """
    magic, _, count = _HEADER.unpack_from(pack)
    if magic != b"PACK":
        raise ValueError("not a pack")
    if count > MOST_OBJECTS:
        raise TooLargePack
    indexer = PackIndexer(None, DEFAULT_OBJECT_FORMAT.hash_func)
    indexer.set_pack_data(_Buffered(pack))  # type: ignore[arg-type] # it needs the buffer only
    offset, unpacked_bytes = _HEADER.size, 0
    for _ in range(count):
        unpacked, offset, size = _unpacked(pack, offset, max_bytes)
        unpacked_bytes += size
        if unpacked_bytes > MOST_UNPACKED_BYTES:
            raise TooLargePack
        indexer.record(unpacked)
        yield []
    for entry in indexer:
        yield [(entry[0], entry[1])]


class _Buffered:
    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def _buffer(self) -> Contents:
        return self._contents


def _unpacked(pack: Contents, offset: int, max_bytes: int) -> tuple[UnpackedObject, int, int]:
    """Unpack the object at an offset, without its base; return it, the offset after it, and its complete size."""
    kind, size = _head(pack, offset)
    if size > max_bytes:
        raise TooLargePack
    if kind == _OFFSET_DELTA:
        _length(pack, _length(pack, offset)[1])
    unpacked, end = unpack_object_at(pack, offset, DEFAULT_OBJECT_FORMAT.hash_func)
    if kind in (_OFFSET_DELTA, _REFERENCE_DELTA):
        head = b"".join(unpacked.decomp_chunks)[:_DELTA_HEAD_BYTES]
        size = _length(head, _length(head, 0)[1])[0]  # its base has the first length, the result the second
    if size > max_bytes:
        raise TooLargePack
    return unpacked, end, size


def _head(pack: Contents, offset: int) -> tuple[int, int]:
    """Return the kind of the object at an offset, and the size of it or its delta."""
    first = pack[offset : offset + 1]
    if not first:
        raise ValueError("the pack ends too early")
    rest = _length(pack, offset + 1)[0] if first[0] & 0x80 else 0
    return first[0] >> 4 & 7, first[0] & 15 | rest << 4


def _length(data: Contents, offset: int) -> tuple[int, int]:
    """Return a number of seven bits per byte, the lowest first, and the offset after it."""
    value = 0
    for place, byte in enumerate(data[offset : offset + _MOST_LENGTH_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return value, offset + place + 1
    raise ValueError("a number does not end")


class ObjectStore(Protocol):
    """Objects by their ids."""

    def read(self, object_id: bytes) -> tuple[int, bytes] | None:
        """Return type and content of an object; None if it is not stored here."""

    def size(self, object_id: bytes) -> int | None:
        """Return the size of an object; None if it is not stored here."""

    def __contains__(self, object_id: bytes) -> bool: ...


class Pack:
    """The objects of a pack.

    Args:
        contents: the pack.
        index: ids and offsets of its objects, sorted: see `index_of`.
        max_bytes: size of an object.
    """

    def __init__(self, contents: Contents, index: Contents, max_bytes: int) -> None:
        self._contents = contents
        self._index = index
        self._max_bytes = max_bytes
        self._cache: dict[int, tuple[int, bytes]] = {}
        self._cached_bytes = 0

    def read(self, object_id: bytes) -> tuple[int, bytes] | None:
        offset = found(self._index, object_id)
        return None if offset is None else self._at(offset)

    def size(self, object_id: bytes) -> int | None:
        offset = found(self._index, object_id)
        if offset is None:
            return None
        kind, size = _head(self._contents, offset)
        is_delta = kind in (_OFFSET_DELTA, _REFERENCE_DELTA)
        return _unpacked(self._contents, offset, self._max_bytes)[2] if is_delta else size

    def __contains__(self, object_id: bytes) -> bool:
        return found(self._index, object_id) is not None

    def _at(self, offset: int) -> tuple[int, bytes]:
        deltas = list[tuple[int, bytes]]()
        while offset not in self._cache:
            if len(deltas) > _MOST_CHAIN:
                raise ValueError("a chain of deltas does not end")
            unpacked, _, _ = _unpacked(self._contents, offset, self._max_bytes)
            content = b"".join(unpacked.decomp_chunks)
            kind = unpacked.pack_type_num
            if kind not in (_OFFSET_DELTA, _REFERENCE_DELTA):
                self._remember(offset, (kind, content))
                break
            deltas.append((offset, content))
            offset = self._base(offset, unpacked)
        else:
            kind, content = self._cache[offset]
        for place, delta in reversed(deltas):
            content = b"".join(apply_delta(content, delta))
            self._remember(place, (kind, content))
        return kind, content

    def _base(self, offset: int, unpacked: UnpackedObject) -> int:
        if isinstance(unpacked.delta_base, int):
            base: int | None = offset - unpacked.delta_base
        else:
            base = found(self._index, unpacked.delta_base or b"")
        if base is None or not 0 < base < len(self._contents):
            raise ValueError("a delta has no base")
        return base

    def _remember(self, offset: int, value: tuple[int, bytes]) -> None:
        if len(value[1]) > _CACHED_OBJECT_BYTES:
            return
        if self._cached_bytes > _CACHED_BYTES:
            self._cache.clear()
            self._cached_bytes = 0
        self._cache[offset] = value
        self._cached_bytes += len(value[1])


class LooseObjects:
    """Loose objects, whose files are joined.

    Args:
        contents: the files, each after its length in eight bytes.
        index: ids and offsets of the files, sorted: see `index_of`.
        max_bytes: size of an object.
    """

    def __init__(self, contents: Contents, index: Contents, max_bytes: int) -> None:
        self._contents = contents
        self._index = index
        self._max_bytes = max_bytes

    def read(self, object_id: bytes) -> tuple[int, bytes] | None:
        offset = found(self._index, object_id)
        if offset is None:
            return None
        inflater = zlib.decompressobj()
        kind, size, begun = self._begun(offset, inflater)
        if size > self._max_bytes:
            raise TooLargePack
        content = begun + inflater.decompress(inflater.unconsumed_tail, size + 1)
        if len(content) != size:
            raise ValueError("an object does not have its length")
        return kind, content

    def size(self, object_id: bytes) -> int | None:
        offset = found(self._index, object_id)
        return None if offset is None else self._begun(offset, zlib.decompressobj())[1]

    def _begun(self, offset: int, inflater: Any) -> tuple[int, int, bytes]:
        """Return the type, the size and the first bytes of an object."""
        start = offset + _OFFSET.size
        (length,) = _OFFSET.unpack(self._contents[offset:start])
        head = inflater.decompress(self._contents[start : start + length], _LOOSE_HEAD_BYTES)
        words, _, begun = head.partition(b"\0")
        kind, _, digits = words.partition(b" ")
        return _TYPES[kind], int(digits), begun

    def __contains__(self, object_id: bytes) -> bool:
        return found(self._index, object_id) is not None


def index_of(entries: Iterator[tuple[bytes, int]] | list[tuple[bytes, int]]) -> bytes:
    """Return the index of objects, given as (id, offset)."""
    return b"".join(object_id + _OFFSET.pack(offset) for object_id, offset in sorted(entries))


def found(index: Contents, object_id: bytes) -> int | None:
    """Return the offset of an object in an index; None if it does not have it."""
    count = len(index) // ENTRY_BYTES

    def id_at(place: int) -> bytes:
        read: bytes = index[place * ENTRY_BYTES : place * ENTRY_BYTES + ID_BYTES]
        return read

    place = bisect_left(range(count), object_id, key=id_at)
    if place == count or id_at(place) != object_id:
        return None
    offset: int = _OFFSET.unpack(index[place * ENTRY_BYTES + ID_BYTES : (place + 1) * ENTRY_BYTES])[0]
    return offset


_IDX_MAGIC, _IDX_HEAD, _FANOUT_BYTES, _LARGE = b"\xfftOc\0\0\0\2", 8, 1024, 1 << 31


def entries_of_idx(idx: Contents) -> Iterator[tuple[bytes, int]]:
    """Yield ids and offsets of an index that Git has written, in order.

    Raises:
        ValueError, struct.error: it is not an index of version 2.
    """
    if idx[:_IDX_HEAD] != _IDX_MAGIC:
        raise ValueError("not an index")
    count = int.from_bytes(idx[_IDX_HEAD + _FANOUT_BYTES - 4 : _IDX_HEAD + _FANOUT_BYTES], "big")
    ids = _IDX_HEAD + _FANOUT_BYTES
    offsets = ids + count * (ID_BYTES + 4)
    large = offsets + count * 4
    if count > MOST_OBJECTS or large > len(idx):
        raise ValueError("an index does not have its length")
    for number in range(count):
        offset = int.from_bytes(idx[offsets + number * 4 : offsets + number * 4 + 4], "big")
        if offset & _LARGE:
            at = large + (offset - _LARGE) * 8
            offset = _OFFSET.unpack(idx[at : at + 8])[0]
        yield idx[ids + number * ID_BYTES : ids + (number + 1) * ID_BYTES], offset
