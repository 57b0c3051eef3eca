"""GNU's OpenMP library, which the language model's engine needs and minimal systems lack.

The wheel of pykdtree contains it for every Linux that the engine's own wheel supports, under a name with a hash.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

LIBRARY = "libgomp.so.1"
_CARRIER = "pykdtree"


def variables(folder: Path) -> dict[str, str]:
    """Return environment variables under which a new process finds the library, by a link in `folder`.

    Empty if no package contains the library: then the system's library is used.
    """
    carried = _carried()
    if carried is None:
        return {}
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    link = folder / LIBRARY
    link.unlink(missing_ok=True)
    link.symlink_to(carried)
    folders = (str(folder.resolve()), os.environ.get("LD_LIBRARY_PATH"))
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders))}


def _carried() -> Path | None:
    try:
        files = distribution(_CARRIER).files or []
    except PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.name.startswith("libgomp-")), None)
