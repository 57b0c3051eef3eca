"""Secrets in a process's memory and environment, closed to the other processes of the same user."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def close_memory() -> None:
    """Let no other process of this user read this one's memory or environment, nor the kernel write them to a file.

    Linux alone has it. Programs that this process starts are not covered. Root can read on, as a debugger must.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
