"""Measurement of a confined process by itself, and its clock."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

_figures: list[int] = []  # descriptor of the kernel's memory figures of this process


def open_figures() -> None:
    """Open the kernel's memory figures of this process, if available; later no file can be opened."""
    with suppress(OSError):
        _figures.append(os.open("/proc/self/statm", os.O_RDONLY))


def resident_bytes() -> int:
    if not _figures:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: bytes, and the most there ever was
    return int(os.pread(_figures[0], 200, 0).split()[1]) * resource.getpagesize()


def cpu_seconds() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def start_clock(seconds: int) -> None:
    """Limit this process to so many seconds of further processor time; the kernel kills it then."""
    until = int(cpu_seconds()) + 1 + seconds
    with suppress(ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (min(until, most), most))


def empty_scratch() -> None:
    """Forget the output of native libraries, before the next file."""
    with suppress(OSError):
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)
