"""References: uploads whose bytes remain in their source, from which they are read again."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self
from urllib.parse import quote, unquote
from uuid import UUID

from shared.domain.errors import Unreadable

_PREFIX = "ref:"  # also in `versions.IS_REFERENCE`; names of stored objects have no colon


@dataclass(frozen=True, slots=True)
class Reference:
    """The bytes of one version of an entry of a source.

    Args:
        source_id: id of the source.
        sha256: hash of the bytes. An entry that was only touched still has them.
        version: version of the entry when its bytes were read.
        key: its key.
    """

    source_id: UUID
    sha256: bytes
    version: str
    key: str

    @property
    def name(self) -> str:
        """Its name as an upload. The part before # is short, because it is indexed, and a key may have 1,024 bytes."""
        return f"{self.stored_in(self.source_id)}#{self.sha256.hex()},{quote(self.version, safe='')},{self.key}"

    @staticmethod
    def stored_in(source_id: UUID) -> str:
        """Return the part before # of the names of a source's references."""
        return f"{_PREFIX}{source_id}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Return the reference of a name for which `is_reference` is true."""
        source_id, _, label = name.removeprefix(_PREFIX).partition("#")
        sha256, version, key = label.split(",", 2)
        return cls(UUID(source_id), bytes.fromhex(sha256), unquote(version), key)


class Originals(Protocol):
    """Reads the bytes of references, as `Uploads` reads stored ones."""

    def fetched(self, reference: Reference) -> AbstractAsyncContextManager[Path]:
        """Yield the path of a file with the bytes, which this process can open during the block.

        Raises:
            Unavailable: the source cannot be reached, or refuses the access; the bytes may still exist.
            Transient: the entry has other bytes, or does not exist any more; its next version may arrive soon.
            Unreadable: the source was removed, or the entry cannot be read.
        """

    async def location(self, reference: Reference) -> str:
        """Return where the bytes are, in words for the owner of the document."""


class NoOriginals:
    """The reader of a deployment without sources."""

    def fetched(self, reference: Reference) -> AbstractAsyncContextManager[Path]:
        raise Unreadable(f"The bytes of '{reference.key}' were not copied: upload the document.")

    async def location(self, reference: Reference) -> str:
        return f"'{reference.key}' of a source that was removed"


def is_reference(upload: str) -> bool:
    """Return whether an upload's bytes remain in their source."""
    return upload.startswith(_PREFIX)
