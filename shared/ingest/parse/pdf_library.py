"""Where the extractor unpacks its PDF library: a folder that nobody but this process can write.

The extractor writes the library (8 MB) to a fixed name below TMPDIR when it meets the first PDF, and loads whatever
lies there already if the size is about right. In a shared folder anybody could leave code there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path


@contextmanager
def unpacking_in(folder: Path) -> Iterator[None]:
    """Within, the extractor unpacks into `folder`; afterwards nowhere.

    The process works in the folder and checks it from inside. The extractor then names it `.`: whoever may rename
    entries of the folder above cannot put another one in its place.

    Raises:
        PermissionError: another user can write the folder, or something lies in it.
    """
    with chdir(folder):
        about = Path().stat()
        if about.st_uid != os.geteuid() or about.st_mode & 0o077 or any(Path().iterdir()):
            raise PermissionError(f"{folder} is not an empty folder of this user alone")
        os.environ["TMPDIR"] = "."
        try:
            yield
        finally:
            os.environ["TMPDIR"] = os.devnull
