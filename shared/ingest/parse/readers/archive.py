"""The parts of a ZIP file, with limits on their unpacked size."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.xml_tree import well_formed

MAX_PART_BYTES = 256 * 1024 * 1024
"""A part that unpacks to more is refused: no text of a document is so long."""

_XML = (".xml", ".rels", ".vml")
_DAMAGED = "is damaged: its archive cannot be opened; create or download it again"
_HEADER_BYTES = 30  # of a part, without its name and its extra fields, whose lengths end the header
_STEP_BYTES = 1024


class Archive:
    """A ZIP file. If no exact name exists, names are compared without regard to case and kind of slash.

    Args:
        content: content of the file.
        kind: name of its format for people.
    """

    def __init__(self, content: bytes, kind: str) -> None:
        self._kind = kind
        self._content = content
        self._damaged: dict[str, None] = {}
        try:
            self._file = zipfile.ZipFile(BytesIO(content))
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
            raise Unreadable(f"the {kind} file {_DAMAGED}", detail=str(error)) from error
        self.names = tuple(self._file.namelist())
        self._by_lower = {_comparable(name): name for name in reversed(self.names)}

    def __contains__(self, name: str) -> bool:
        return _comparable(name) in self._by_lower

    def read(self, name: str) -> bytes:
        """Return the content of a part; XML as `well_formed` returns it.

        A damaged part is read up to its damage, and `unread` names it: the other parts keep their text.

        Raises:
            KeyError: there is no such part.
            Unreadable: it is protected with a password, or unpacks to too much.
        """
        exact = name if name in self._file.NameToInfo else self._by_lower[_comparable(name)]
        info = self._file.getinfo(exact)
        if info.flag_bits & 1:
            raise Unreadable(
                f"the {self._kind} file is protected with a password; remove the password and add it again"
            )
        try:
            with self._file.open(info) as part:
                data = part.read(MAX_PART_BYTES + 1)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, OSError):
            self._damaged[exact] = None
            data = self._readable(info)
        if len(data) > MAX_PART_BYTES:
            raise Unreadable(f"the {self._kind} file is too large when unpacked; divide it", detail=exact)
        return well_formed(data) if exact.lower().endswith(_XML) else data

    def unread(self) -> Iterator[str]:
        """Yield a sentence if parts that were read are damaged."""
        if self._damaged:
            names = sorted(self._damaged)
            more = f" and {len(names) - 1:,} more parts" if len(names) > 1 else ""
            yield f"the file is damaged: {names[0]}{more} could not be read to the end; create or download it again"

    def _readable(self, info: zipfile.ZipInfo) -> bytes:
        """Return the start of a damaged part, up to the damage; all of it if only its checksum is wrong."""
        at = info.header_offset + _HEADER_BYTES
        name_bytes, extra_bytes = struct.unpack("<HH", self._content[at - 4 : at].ljust(4, b"\0"))
        at += name_bytes + extra_bytes
        packed = self._content[at : at + info.compress_size]
        if info.compress_type == zipfile.ZIP_STORED:
            return packed
        data = bytearray()
        if info.compress_type == zipfile.ZIP_DEFLATED:
            unpack = zlib.decompressobj(-zlib.MAX_WBITS).decompress
            with suppress(zlib.error):
                for start in range(0, len(packed), _STEP_BYTES):
                    data += unpack(packed[start : start + _STEP_BYTES])
                    if len(data) > MAX_PART_BYTES:
                        break
        return bytes(data)


def _comparable(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").lower()
