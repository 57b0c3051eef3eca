"""The first step of a process: its imports, which are most of its start."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_IMPORTED = 200_000  # allocations between two collections; the imports of the API make 800,000


@contextmanager
def imports() -> Iterator[None]:
    """Import the modules of a long-running process in the block; before it, only modules of Python may be imported.

    Garbage collections are rare until `shared.process.gc.freeze`: imported modules are not garbage, and visiting them
    again and again takes a tenth of the start. Rich is hidden, because structlog would load it for tracebacks, which no
    log line has, and httpx for its command line.
    """
    gc.set_threshold(_IMPORTED)
    with without("rich"):
        yield


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Import libraries in the block as if some optional modules were not installed; imported ones stay available."""
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # an import of None fails, as documented
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
