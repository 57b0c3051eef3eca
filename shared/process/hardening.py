"""Protection of the secrets in a process's memory, environment and files from other processes and users."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PRIVATE_UMASK = 0o077
_PR_SET_DUMPABLE = 4


def close_memory() -> None:
    """Prevent other processes of this user from reading this one's memory or environment, and core dumps.

    Linux only. Programs that this process starts are not covered. Root can still read the memory, because debuggers
    need that.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


@contextmanager
def private_files() -> Iterator[None]:
    """Make the files that this process and its children create within the block readable by this user only."""
    before = os.umask(_PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(before)
