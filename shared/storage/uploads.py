"""Uploaded bytes: one file each under the data directory, durable before the ledger names it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from shared.domain.errors import TooLarge, Unavailable, Unreadable

_FLUSH_BYTES = 1 << 20
_RETRY_AFTER = timedelta(seconds=30)
_AWAY_PAUSE = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Upload:
    """`name` finds the bytes again; `sha256` is over the bytes alone."""

    name: str
    size_bytes: int
    sha256: bytes


class Uploads:
    """A folder of uploads. Several machines share it as a network file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._away = False

    def path(self, name: str) -> Path:
        return self._folder / name[:2] / name

    async def locate(self, name: str) -> Path:
        """Return the path of an upload, which this process can open.

        Raises:
            Unavailable: the folder is away, or its disk fails; the upload may still be there.
            Unreadable: the upload alone is gone.
        """
        return await asyncio.to_thread(self._locate, name)

    def _locate(self, name: str) -> Path:
        path = self.path(name)
        try:
            path.open("rb").close()
        except FileNotFoundError as error:
            self.check()
            raise Unreadable("The stored file is gone: upload the document again.") from error
        except OSError as error:
            self._away = True
            raise _away(error.strerror) from error
        return path

    def check(self) -> None:
        """Return where the folder can be read and holds an upload: a folder that is not mounted is empty.

        Raises:
            Unavailable: it is away.
        """
        self._away = True
        try:
            held = any(any(place.iterdir()) for place in self._folder.iterdir())
        except OSError as error:
            raise _away(error.strerror) from error
        if not held:
            raise _away("it holds no upload")
        self._away = False

    async def require(self) -> None:
        """Raise `Unavailable` if the folder was away the last time and still is.

        A worker calls it before it claims documents: without the folder it would claim them in vain.
        """
        if self._away:
            await asyncio.to_thread(self.check)

    async def store(self, pieces: AsyncIterator[bytes], *, max_bytes: int) -> Upload:
        """Write a stream to disk while its bytes are counted; it is durable when this returns.

        Raises:
            TooLarge: more than `max_bytes` came; no file is left.
            Unavailable: the disk refused, because it is full for example; no file is left.
        """
        name = uuid4().hex
        path = self.path(name)
        digest, size, buffer = hashlib.sha256(), 0, bytearray()
        file: BinaryIO | None = None
        with _removed_on_failure(path):
            try:
                async for piece in pieces:
                    size += len(piece)
                    if size > max_bytes:
                        raise _too_large(max_bytes)
                    digest.update(piece)
                    buffer += piece
                    if len(buffer) >= _FLUSH_BYTES:
                        if file is None:
                            file = await asyncio.to_thread(_create, path)
                        await asyncio.to_thread(file.write, bytes(buffer))
                        buffer.clear()
                await asyncio.to_thread(_finish, file, bytes(buffer), path)
            finally:
                if file is not None:
                    file.close()
        return Upload(name, size, digest.digest())

    async def store_bytes(self, content: bytes, *, max_bytes: int) -> Upload:
        """Write bytes that are in memory already; raises as `store` does."""
        if len(content) > max_bytes:
            raise _too_large(max_bytes)
        name = uuid4().hex
        path = self.path(name)
        with _removed_on_failure(path):
            await asyncio.to_thread(_finish, None, content, path)
        return Upload(name, len(content), hashlib.sha256(content).digest())

    def remove(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    def older_than(self, seconds: float, now: Callable[[], float] = time.time) -> Iterator[str]:
        """Names of uploads of at least that age; a crash left those that no document needs."""
        for path in self._folder.glob("??/*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < now() - seconds:
                    yield path.name


@contextmanager
def _removed_on_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path.unlink(missing_ok=True)
        sentence = f"The document could not be stored: {error.strerror or type(error).__name__}."
        raise Unavailable(sentence, component="uploads", retry_after=_RETRY_AFTER) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _away(reason: str | None) -> Unavailable:
    message = f"the folder of uploads cannot be read here: {reason or 'its disk fails'}"
    return Unavailable(message, component="uploads", retry_after=_AWAY_PAUSE)


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"The document is larger than {max_bytes:,} bytes (FOREASK_MAX_UPLOAD_BYTES).")


def _create(path: Path) -> BinaryIO:
    try:
        return path.open("xb")
    except FileNotFoundError:  # there are few folders: all but the first uploads find theirs
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")


def _finish(file: BinaryIO | None, rest: bytes, path: Path) -> None:
    """Write the rest and make the file durable; a small upload is written here whole, in one turn of a thread."""
    with file or _create(path) as opened:
        opened.write(rest)
        opened.flush()
        os.fsync(opened.fileno())
    # The name must be as durable as the bytes: a ledger row is about to point to it.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
