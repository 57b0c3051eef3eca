"""Copies of the working tree, in which bugs are planted one at a time."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.support.planted.bugs import ROOT, Bug


def copy_working_tree(folder: Path) -> None:
    """Copy the files that git tracks, and new files that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


class Tree:
    """A copy of the tree that serves many bugs, so that the bytecode of its modules is written once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seconds = count(1)

    @contextmanager
    def planted(self, bug: Bug) -> Iterator[None]:
        """Plant a bug, and remove it at the end."""
        path = self.folder / bug.file
        before, text = path.stat(), path.read_bytes()
        path.write_bytes(bug.planted(text.decode()).encode())
        # Python finds bytecode by the file's size and its time in seconds, so each bug of a file gets another time.
        os.utime(path, (before.st_atime, before.st_mtime + next(self._seconds)))
        try:
            yield
        finally:
            path.write_bytes(text)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
