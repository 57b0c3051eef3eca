"""The folder for the extractor's PDF library, which only this process can write.

The extractor writes the library (8 MB) to a fixed name below TMPDIR at the first PDF, and loads an existing file if its
size is about right. In a shared folder any user could plant code there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path


@contextmanager
def unpacking_in(folder: Path) -> Iterator[None]:
    """Allow the extractor to unpack its library into `folder` within the block, and nowhere afterwards.

    The process works in the folder and checks it from inside. The extractor names it `.`, so a user who may rename
    entries of the parent folder cannot replace it.

    Raises:
        PermissionError: another user can write the folder, or it is not empty.
    """
    with chdir(folder):
        about = Path().stat()
        if about.st_uid != os.geteuid() or about.st_mode & 0o077 or any(Path().iterdir()):
            raise PermissionError(f"{folder} is not an empty folder that only this user can open")
        os.environ["TMPDIR"] = "."
        try:
            yield
        finally:
            os.environ["TMPDIR"] = os.devnull
