"""Fetched packs on this machine, in a folder that the processes of a user share.

A sync fetches contents in packs, and the parse workers of the machine read most of them soon afterwards. Without the
folder, each process would fetch them again.
"""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import os
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import IO
from uuid import UUID, uuid4

from features.sources.git.objects import Stored
from features.sources.git.options import FOLDER_PREFIX
from features.sources.git.packs import found

MOST_BYTES = 256 << 20  # of all packs of a machine, whose folder for temporary files may have 1 GB
_AGE_SECONDS = 600.0  # since the last use
_EXPIRY_SECONDS = 60.0
_LOCK_SECONDS, _POLL_SECONDS = 300.0, 0.1


class SharedPacks:
    """The packs of all sources, for the processes of this user on this machine.

    A pack that was not read for ten minutes is deleted, and all of them with the last process that shares them.
    """

    def __init__(self, age_seconds: float = _AGE_SECONDS) -> None:
        self._age_seconds = age_seconds
        self._folder: Path | None = None
        self._lock: int | None = None
        self._expiring: asyncio.Task[None] | None = None

    def of(self, source_id: UUID) -> Packs | None:
        """Return the packs of a source; None if another user owns the folder's name."""
        if self._folder is None:
            opened = _shared_folder()
            if opened is None:
                return None
            self._folder, self._lock = opened
            self._expiring = asyncio.create_task(self._expire())
        return Packs(self._folder, source_id.hex)

    async def aclose(self) -> None:
        """Stop sharing, and delete the packs if no other process shares them."""
        if self._expiring is not None:
            self._expiring.cancel()
        if self._folder is not None and self._lock is not None:
            with suppress(OSError):  # another process uses the folder
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)
            self._folder = self._lock = None

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(min(_EXPIRY_SECONDS, self._age_seconds))
            if self._folder is not None:
                _remove_older(self._folder, time.time() - self._age_seconds)


class Packs:
    """The fetched packs of one repository.

    Args:
        folder: folder of the packs, which may have packs of other repositories.
        name: name of the repository there.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name

    def add(self, pack: Path, index: Path) -> None:
        """Move a pack and its index here, and delete the packs that were not read for the longest time.

        Without effect if the pack is too large, or if the folder was deleted.
        """
        size = pack.stat().st_size + index.stat().st_size
        if size > MOST_BYTES:
            return
        _shrink(self._folder, MOST_BYTES - size)
        target = self._folder / f"{self._name}-{uuid4().hex}"
        with suppress(FileNotFoundError):
            pack.rename(target.with_suffix(".pack"))
            index.rename(target.with_suffix(".index"))  # its pack exists when another process finds it

    def find(self, object_id: str) -> Stored | None:
        """Return the opened pack that has an object; None if no pack has it."""
        raw = bytes.fromhex(object_id)
        for path, index in self._opened_indexes():
            with mapped_index(index) as entries:
                has_object = found(entries, raw) is not None
            if has_object:
                with suppress(FileNotFoundError):  # another process has deleted it
                    pack = path.with_suffix(".pack").open("rb")
                    os.utime(path)
                    return Stored("pack", pack, index)
            index.close()
        return None

    def lacking(self, object_ids: Iterable[str]) -> list[str]:
        """Return the ids of objects that no pack has."""
        left = list(object_ids)
        for _, index in self._opened_indexes():
            with closing(index):
                left = absent(index, left)
        return left

    def make_room(self) -> None:
        """Delete all packs, because the disk is nearly full; opened ones are still readable."""
        _shrink(self._folder, 0)

    @asynccontextmanager
    async def fetching(self) -> AsyncIterator[None]:
        """Wait until no other process fetches from this repository; it may fetch the same objects.

        A process that hangs delays others for some minutes only: they fetch, too.
        """
        until = time.monotonic() + _LOCK_SECONDS
        lock: int | None = None
        with suppress(FileNotFoundError):  # the folder was deleted
            lock = os.open(self._folder / f"{self._name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while lock is not None and time.monotonic() < until and not _locks(lock):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(_POLL_SECONDS)
            yield
        finally:
            if lock is not None:
                os.close(lock)

    def _opened_indexes(self) -> Iterator[tuple[Path, IO[bytes]]]:
        for path in self._folder.glob(f"{self._name}-*.index"):
            with suppress(FileNotFoundError):
                yield path, path.open("rb")


def absent(index: IO[bytes], object_ids: Iterable[str]) -> list[str]:
    """Return the ids that an index does not have."""
    with mapped_index(index) as entries:
        return [each for each in object_ids if found(entries, bytes.fromhex(each)) is None]


@contextmanager
def mapped_index(index: IO[bytes]) -> Iterator[mmap.mmap | bytes]:
    """Yield the entries of an index."""
    if not os.fstat(index.fileno()).st_size:
        yield b""
        return
    with mmap.mmap(index.fileno(), 0, access=mmap.ACCESS_READ) as entries:
        yield entries


def _locks(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _shared_folder() -> tuple[Path, int] | None:
    """Return the folder of this user and its lock, which several processes hold; None if another user has its name."""
    path = Path(tempfile.gettempdir()) / f"{FOLDER_PREFIX}packs-{os.geteuid()}"
    while True:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        with suppress(FileNotFoundError):  # the last process that used it has deleted it
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return None
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with suppress(OSError):  # on a file system without locks, no process deletes it either
                fcntl.flock(lock, fcntl.LOCK_SH)
            if path.exists():
                return path, lock
            os.close(lock)


def _remove_older(folder: Path, oldest: float) -> None:
    """Delete the packs that were last read before a time."""
    for used_at, _, index in _used(folder):
        if used_at < oldest:
            _remove(index)


def _shrink(folder: Path, most_bytes: int) -> None:
    """Delete the packs that were not read for the longest time, until the others have at most some bytes."""
    packs = sorted(_used(folder))
    total = sum(size for _, size, _ in packs)
    for _, size, index in packs:
        if total <= most_bytes:
            return
        _remove(index)
        total -= size


def _used(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield the time of the last use of each pack, its size with its index, and the path of the index."""
    for index in folder.glob("*.index"):
        with suppress(FileNotFoundError):
            status = index.stat()
            yield status.st_mtime, status.st_size + index.with_suffix(".pack").stat().st_size, index


def _remove(index: Path) -> None:
    index.unlink(missing_ok=True)
    index.with_suffix(".pack").unlink(missing_ok=True)
