"""Downloaded pages in a folder, until they are fetched or the source is closed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.process.temporary_folders import TemporaryFolder, has_room

FOLDER_PREFIX = "foreask-pages-"
MOST_BYTES = 1024 * 1024 * 1024


class Texts:
    """Files of a run, named by the hashes of their texts. It may forget files: they are then downloaded again.

    Args:
        most_bytes: size of all files together; later ones are not stored, nor are any if the disk is nearly full.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._temporary = TemporaryFolder(FOLDER_PREFIX)
        self.folder = self._temporary.path
        self._left = most_bytes

    def store(self, text_hash: str, content: bytes) -> None:
        """Store the content of a document, if there is space."""
        path = self._path(text_hash)
        if len(content) <= self._left and not path.exists() and has_room(self.folder, len(content)):
            path.write_bytes(content)
            self._left -= len(content)

    def read(self, text_hash: str) -> bytes | None:
        """Return the content of a document; None if it is not stored."""
        try:
            return self._path(text_hash).read_bytes()
        except FileNotFoundError:
            return None

    @contextmanager
    def scratch(self, content: bytes) -> Iterator[Path]:
        """Yield the path of a file with this content, which is removed afterwards."""
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix="scratch-") as file:
            file.write(content)
            file.flush()
            yield Path(file.name)

    def remove(self) -> None:
        """Remove all files."""
        self._temporary.remove()

    def _path(self, text_hash: str) -> Path:
        return self.folder / text_hash
