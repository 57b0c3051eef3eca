"""Secrets in a process's memory and environment, closed to the other processes of the same user."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def close_memory() -> None:
    """Prevent other processes of this user from reading this one's memory or environment, and core dumps.

    Linux only. Programs that this process starts are not covered. Root can still read, as a debugger must.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
