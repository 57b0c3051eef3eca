"""Temporary folders and files, which another process removes if theirs is killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_RESERVED_BYTES = 128 << 20  # for the files of other work


def has_room(folder: Path, size_bytes: int) -> bool:
    """Return whether a file may be stored that can be read again: other work needs a part of a small file system."""
    usage = shutil.disk_usage(folder)
    return usage.free - size_bytes >= min(_RESERVED_BYTES, usage.total // 4)


class TemporaryFolder:
    """A folder for temporary files of this process.

    It is locked until it is removed. The kernel releases the lock of a killed process, and `remove_leftovers` of
    another process removes the folder.

    Args:
        prefix: start of its name.
    """

    def __init__(self, prefix: str) -> None:
        self.path, self._lock = _locked(prefix)

    def remove(self) -> None:
        """Remove the folder with its files, if it is not removed yet."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class TemporaryFile:
    """A file in a temporary folder of its own.

    Args:
        prefix: start of the folder's name.
        content: its bytes.
    """

    def __init__(self, prefix: str, content: bytes = b"") -> None:
        self._folder = TemporaryFolder(prefix)
        self.path = self._folder.path / "content"
        try:
            self.path.write_bytes(content)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the file, if it is not removed yet."""
        self._folder.remove()


def remove_leftovers(prefix: str) -> None:
    """Remove the folders with this prefix whose processes were killed."""
    folders = list[Path]()
    with suppress(OSError):  # no folder for temporary files: its next use reports it
        folders = list(Path(tempfile.gettempdir()).glob(f"{prefix}*"))
    for folder in folders:
        with suppress(OSError):  # locked, another user's, or removed meanwhile
            _remove_unused(folder)


def _locked(prefix: str) -> tuple[Path, int | None]:
    """Return a new folder and its lock. Another process may remove it until it is locked: then there is a next one."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # on a file system without locks, no process removes it either
                fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return path, lock
            os.close(lock)


def _remove_unused(folder: Path) -> None:
    """Remove a folder; raise OSError if a process uses it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(descriptor)
