"""Files and bytes as request bodies: read in pieces, counted, and read from the start at each attempt."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import httpx

Progress = Callable[[int, int], None]  # number of bytes read for sending, and size in bytes

_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or bytes, with a filename.

    Attributes:
        progress: called with the number of bytes sent and the size in bytes; a new attempt starts at 0.
    """

    source: Path | bytes
    filename: str
    progress: Progress | None = None

    @property
    def size_bytes(self) -> int:
        return self.source.stat().st_size if isinstance(self.source, Path) else len(self.source)

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        file: IO[bytes] = self.source.open("rb") if isinstance(self.source, Path) else io.BytesIO(self.source)
        with file:
            counted = CountedFile(file, self.size_bytes, self.progress) if self.progress else file
            yield cast("IO[bytes]", counted)


class CountedFile:
    """The methods of a file that httpx uses; reports the position after each read."""

    def __init__(self, file: IO[bytes], size_bytes: int, progress: Progress) -> None:
        self._file = file
        self._size_bytes = size_bytes
        self._progress = progress

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        if piece:
            self._progress(self._file.tell(), self._size_bytes)
        return piece

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


class FileBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A file as the complete body of a request, for both clients."""

    def __init__(self, file: IO[Any]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._file.read(_PIECE_BYTES):
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece
