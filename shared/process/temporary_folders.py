"""Temporary folders, which another process removes if theirs is killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_NEW_SECONDS = 60.0  # a folder is locked soon after it was made


class TemporaryFolder:
    """A folder for temporary files of this process.

    It is locked until it is removed. The kernel releases the lock of a killed process, and `remove_leftovers` of
    another process removes the folder.

    Args:
        prefix: start of its name.
    """

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock: int | None = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # on a file system without locks, no process removes it either
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder with its files, if it is not removed yet."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_leftovers(prefix: str) -> None:
    """Remove the folders with this prefix whose processes were killed."""
    folders = list[Path]()
    with suppress(OSError):  # no folder for temporary files: its next use reports it
        folders = list(Path(tempfile.gettempdir()).glob(f"{prefix}*"))
    for folder in folders:
        with suppress(OSError):  # locked, another user's, or removed meanwhile
            _remove_unused(folder)


def _remove_unused(folder: Path) -> None:
    """Remove a folder; raise OSError if a process uses it."""
    if time.time() - folder.stat().st_mtime < _NEW_SECONDS:
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(descriptor)
