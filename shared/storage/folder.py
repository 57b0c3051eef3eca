"""Uploads as files in a folder; each file is flushed to disk before the ledger names it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar
from uuid import uuid4

import structlog

from shared.domain.errors import Unavailable, Unreadable
from shared.storage.blocks import BlockCache
from shared.storage.uploads import (
    MARKER,
    PAGE,
    RETRY_AFTER,
    StoreOwner,
    Upload,
    Uploads,
    missing,
    too_large,
    unavailable,
)

T = TypeVar("T")
_FLUSH_BYTES = 1 << 20

log = structlog.get_logger()


class UploadFolder(Uploads):
    """A folder of uploads. Several machines may share it as a network file system.

    Args:
        folder: the folder.
        owner: deployment whose ledger names the files.
    """

    label = "uploads folder"
    setting = "FOREASK_DATA_DIR"
    seek = "is it mounted"

    def __init__(self, folder: Path, owner: StoreOwner) -> None:
        super().__init__(owner)
        self.folder = folder
        self._blocks = BlockCache(self._read_range)

    def path(self, name: str) -> Path:
        return self.folder / name[:2] / name

    async def store(self, pieces: AsyncIterator[bytes], *, max_bytes: int) -> Upload:
        name = uuid4().hex
        path = self.path(name)
        digest, size, buffer = hashlib.sha256(), 0, bytearray()
        file: BinaryIO | None = None
        with _removed_on_failure(path):
            try:
                async for piece in pieces:
                    size += len(piece)
                    if size > max_bytes:
                        raise too_large(max_bytes)
                    buffer += piece
                    if len(buffer) >= _FLUSH_BYTES:
                        if file is None:
                            file = await self._in_own(partial(_create, path))
                        await asyncio.to_thread(_append, file, bytes(buffer), digest)
                        buffer.clear()
                finish = partial(_finish, file, bytes(buffer), path, digest)
                await (self._in_own(finish) if file is None else asyncio.to_thread(finish))
            finally:
                if file is not None:
                    file.close()
        return Upload(name, size, digest.digest())

    async def free_share(self) -> float | None:
        try:
            disk = await asyncio.to_thread(shutil.disk_usage, self.folder)
        except OSError:  # a missing folder is reported by its next use
            return None
        return disk.free / disk.total if disk.total else None

    async def remove(self, names: Sequence[str]) -> set[str]:
        self._blocks.forget(names)
        return await asyncio.to_thread(self._remove, names) if names else set()

    async def pages(self) -> AsyncIterator[list[str]]:
        for folder in await asyncio.to_thread(lambda: sorted(self.folder.glob("??/"))):
            names = await asyncio.to_thread(os.listdir, folder)
            for start in range(0, len(names), PAGE):
                yield names[start : start + PAGE]

    async def read_note(self, name: str) -> bytes | None:
        return await asyncio.to_thread(_read_note, self.folder / name)

    async def write_note(self, name: str, content: bytes) -> None:
        await asyncio.to_thread(_write_note, self.folder / name, content)

    async def _write(self, name: str, content: bytes) -> None:
        path = self.path(name)
        with _removed_on_failure(path):
            await self._in_own(partial(_finish, None, content, path))

    async def _in_own(self, write: Callable[[], T]) -> T:
        """Write if the folder belongs to this deployment; check and write run in one call of a thread.

        Raises:
            Unavailable: as `require_own`.
            OSError: the disk failed.
        """
        deployment = str(await self._owner.id())
        written = await asyncio.to_thread(_if_marked, self.folder, deployment, write)
        if written:
            return written[0]
        await self.require_own()
        return await asyncio.to_thread(write)

    async def _read(self, name: str, offset: int, length: int) -> bytes:
        return await self._blocks.read(name, offset, length)

    async def _read_range(self, name: str, offset: int, length: int) -> bytes:
        async with self._found():
            return await asyncio.to_thread(_read_part, self.path(name), offset, length)

    @asynccontextmanager
    async def _whole(self, name: str) -> AsyncIterator[Path]:
        path = await self._locate(name)
        try:
            yield path
        except Unreadable:
            await self._locate(name)  # the folder may be missing now: the file is not at fault
            raise

    async def _locate(self, name: str) -> Path:
        path = self.path(name)
        async with self._found():
            await asyncio.to_thread(_open_and_close, path)
        return path

    @asynccontextmanager
    async def _found(self) -> AsyncIterator[None]:
        """Convert errors of reading a file."""
        try:
            yield
        except FileNotFoundError as error:
            await self._check()
            raise missing() from error
        except OSError as error:
            self._unavailable = True
            raise unavailable(self.label, error.strerror) from error

    async def _stored(self, names: Sequence[str]) -> set[str]:
        return await asyncio.to_thread(lambda: {name for name in names if self.path(name).exists()})

    async def _is_empty(self) -> bool:
        return await asyncio.to_thread(lambda: next(self.folder.glob("??/*"), None) is None)

    def _remove(self, names: Sequence[str]) -> set[str]:
        kept = set()
        for name in names:
            try:
                self.path(name).unlink(missing_ok=True)
            except OSError as error:
                kept.add(name)
                log.warning("upload.not_removed", upload=name, reason=error.strerror or type(error).__name__)
        return kept


@contextmanager
def _removed_on_failure(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        sentence = f"The document could not be stored: {error.strerror or type(error).__name__}."
        raise Unavailable(sentence, component="uploads", retry_after=RETRY_AFTER) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _open_and_close(path: Path) -> None:
    path.open("rb").close()


def _read_part(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _if_marked(folder: Path, deployment: str, write: Callable[[], T]) -> list[T]:
    """Call `write` if the folder belongs to this deployment, and return its result."""
    marker = _read_note(folder / MARKER) or b""
    return [write()] if marker.decode(errors="replace").strip() == deployment else []


def _read_note(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write_note(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}-{uuid4().hex}")
    try:
        _finish(None, content, made)
        made.replace(path)  # atomically: no reader sees half of it
    finally:
        made.unlink(missing_ok=True)


def _create(path: Path) -> BinaryIO:
    try:
        return path.open("xb")
    except FileNotFoundError:  # there are few folders: all but the first uploads find theirs
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")


def _append(file: BinaryIO, content: bytes, digest: hashlib._Hash) -> None:
    """Write and hash; in the event loop, the hash of large files would delay the requests of others."""
    digest.update(content)
    file.write(content)


def _finish(file: BinaryIO | None, rest: bytes, path: Path, digest: hashlib._Hash | None = None) -> None:
    """Write the rest and make the file durable; a small upload is written completely here, in one call of a thread."""
    if digest is not None:
        digest.update(rest)
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
