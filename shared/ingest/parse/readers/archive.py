"""The parts of a ZIP file, with limits on their unpacked size."""

from __future__ import annotations

import zipfile
import zlib
from io import BytesIO

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.xml_tree import well_formed

MAX_PART_BYTES = 256 * 1024 * 1024
"""A part that unpacks to more is refused: no text of a document is so long."""

_XML = (".xml", ".rels", ".vml")
_DAMAGED = "is damaged: a part of its archive cannot be unpacked; create or download it again"
_PROTECTED = "is protected with a password; remove the password and add it again"


class Archive:
    """A ZIP file. If no exact name exists, names are compared without regard to case and kind of slash.

    Args:
        content: content of the file.
        kind: name of its format for people.
    """

    def __init__(self, content: bytes, kind: str) -> None:
        self._kind = kind
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

        Raises:
            KeyError: there is no such part.
            Unreadable: it is damaged, protected with a password, or unpacks to too much.
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
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, OSError) as error:
            raise Unreadable(f"the {self._kind} file {_DAMAGED}", detail=f"{exact}: {error}") from error
        if len(data) > MAX_PART_BYTES:
            raise Unreadable(f"the {self._kind} file is too large when unpacked; divide it", detail=exact)
        return well_formed(data) if exact.lower().endswith(_XML) else data


def _comparable(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").lower()
