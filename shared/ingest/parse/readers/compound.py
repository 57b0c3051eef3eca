"""Microsoft's compound file: a file system with folders and streams, as old Word files and Outlook messages are.

olefile is the rejected alternative: it walks the directory by recursion, and a third of its code is for writing.
"""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.charsets import codec_of_page

_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_LAST_SECTOR = 0xFFFFFFFA  # larger numbers are marks
_ENTRY_BYTES = 128
_NONE = 0xFFFFFFFF
_STORAGE, _STREAM, _ROOT = 1, 2, 5
_DOCUMENTS = {
    "WordDocument": "Word document",
    "PowerPoint Document": "PowerPoint presentation",
    **dict.fromkeys(("Workbook", "WORKBOOK", "Book", "BOOK"), "Excel workbook"),
    **dict.fromkeys(("Package", "\x01Ole10Native"), "file"),
}
"""Names for people of objects that are documents, by a stream of their folder; equations and pictures have none."""


@dataclass(slots=True)
class Folder:
    """A folder of a compound file.

    Args:
        streams: first sector and length of each stream, by name.
    """

    folders: dict[str, Folder] = field(default_factory=dict)
    streams: dict[str, tuple[int, int]] = field(default_factory=dict)


class CompoundFile:
    """A compound file. Damaged chains of sectors end early; no chain is longer than the file.

    Args:
        content: content of the file.
        kind: name of its format for people.

    Raises:
        Unreadable: its header or directory is damaged.
    """

    def __init__(self, content: bytes, kind: str) -> None:
        self._content = content
        try:
            self._read_header()
            self.root = self._directory()
        except (struct.error, IndexError, ValueError) as error:
            raise Unreadable(
                f"the {kind} file is damaged and cannot be read; create or download it again", detail=str(error)
            ) from error

    def read(self, folder: Folder, name: str) -> bytes:
        """Return a stream of a folder; empty if there is none."""
        start, length = folder.streams.get(name, (_NONE, 0))
        length = min(length, len(self._content))
        if length >= self._cutoff:
            return self._chain(start, length)[:length]
        return self._mini_chain(start, length)[:length]

    def _read_header(self) -> None:
        if not self._content.startswith(_MAGIC):
            raise ValueError("the header is missing")
        shifts = struct.unpack_from("<HH", self._content, 30)
        if not (7 <= shifts[0] <= 16 and 2 <= shifts[1] < shifts[0]):  # noqa: PLR2004 - 128 bytes to 64 KB
            raise ValueError("the size of a sector is wrong")
        self._sector, self._mini_sector = 1 << shifts[0], 1 << shifts[1]
        self._sectors = memoryview(self._content)[self._sector :]
        self._cutoff, mini_start = struct.unpack_from("<II", self._content, 56)
        self._directory_start = struct.unpack_from("<I", self._content, 48)[0]
        self._fat = self._numbers(b"".join(self._sector_at(number) for number in self._fat_sectors()))
        self._mini_fat = self._numbers(self._chain(mini_start))

    def _fat_sectors(self) -> list[int]:
        numbers = list(struct.unpack_from("<109I", self._content, 76))
        (following,) = struct.unpack_from("<I", self._content, 68)
        most = len(self._content) // self._sector
        for _ in range(most):
            if following > _LAST_SECTOR:
                break
            *more, following = self._numbers(self._sector_at(following)) or (_NONE,)
            numbers += more
        return [number for number in numbers if number <= _LAST_SECTOR][: most + 1]

    def _numbers(self, data: bytes) -> array[int]:
        numbers = array("I")
        numbers.frombytes(data[: len(data) // numbers.itemsize * numbers.itemsize])
        return numbers

    def _sector_at(self, number: int) -> bytes:
        return self._content[(number + 1) * self._sector : (number + 2) * self._sector]

    def _chain(self, number: int, length: int | None = None) -> bytes:
        """Return the sectors of a chain, as many as `length` bytes need."""
        return self._linked(self._fat, number, self._sectors, self._sector, length)

    def _mini_chain(self, number: int, length: int) -> bytes:
        return self._linked(self._mini_fat, number, self._mini, self._mini_sector, length)

    def _linked(self, table: array[int], number: int, data: memoryview | bytes, size: int, length: int | None) -> bytes:
        pieces, left = list[bytes | memoryview](), len(table) if length is None else -(-length // size)
        while number < len(table) and left > 0:
            pieces.append(data[number * size : (number + 1) * size])
            number = table[number]
            left -= 1
        return b"".join(pieces)

    def _directory(self) -> Folder:
        data = self._chain(self._directory_start)
        count = len(data) // _ENTRY_BYTES
        if not count:
            raise ValueError("the directory is empty")
        root = Folder()
        start, length = struct.unpack_from("<II", data, 116)
        self._mini = self._chain(start)[:length]
        waiting, seen = [(root, struct.unpack_from("<I", data, 76)[0])], set[int]()
        while waiting:
            folder, number = waiting.pop()
            if number >= count or number in seen:
                continue
            seen.add(number)
            entry = data[number * _ENTRY_BYTES : (number + 1) * _ENTRY_BYTES]
            used, kind = struct.unpack_from("<HB", entry, 64)
            left, right, child = struct.unpack_from("<III", entry, 68)
            name = entry[: max(0, min(used, 64) - 2)].decode("utf-16-le", "replace")
            if kind == _STREAM:
                folder.streams[name] = struct.unpack_from("<II", entry, 116)
            elif kind == _STORAGE:
                folder.folders[name] = inner = Folder()
                waiting.append((inner, child))
            waiting += [(folder, left), (folder, right)]
        return root


def embedded_documents(root: Folder) -> tuple[str, ...]:
    """Return sentences that name the documents in the folders of an old Office file, which are not read."""
    found, waiting = list[str](), [*root.folders.values()]
    while waiting:
        folder = waiting.pop()
        name = next((name for stream, name in _DOCUMENTS.items() if stream in folder.streams), None)
        if name:
            found.append(f"an embedded {name} was not read; save it as a file of its own and add that file")
        else:
            waiting += folder.folders.values()
    return tuple(dict.fromkeys(found))


def summary_title(data: bytes) -> str | None:
    """Return the title in the properties of a file (MS-OLEPS)."""
    try:
        start = struct.unpack_from("<I", data, 44)[0]
        count = min(struct.unpack_from("<I", data, start + 4)[0], 100)
        offsets = dict(struct.unpack_from("<II", data, start + 8 + index * 8) for index in range(count))
        page = struct.unpack_from("<H", data, start + offsets[1] + 4)[0] if 1 in offsets else 1252
        at = start + offsets[2]
        kind, length = struct.unpack_from("<II", data, at)
    except (struct.error, KeyError):
        return None
    if kind == 0x1F:  # noqa: PLR2004 - Unicode
        return data[at + 8 : at + 8 + length * 2].decode("utf-16-le", "replace").split("\0")[0].strip() or None
    codec = codec_of_page(page) or "cp1252"
    return data[at + 8 : at + 8 + length].decode(codec, "replace").split("\0")[0].strip() or None
