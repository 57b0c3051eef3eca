"""Commands that are killed when this process ends for any reason."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

_GUARD = str(Path(__file__).with_name("guard.py"))


def guarded(
    command: Sequence[str], *, death_signal: int = signal.SIGKILL, user: tuple[int, int] | None = None
) -> list[str]:
    """Return a command that becomes the given one, bound to the thread that starts it.

    Outside Linux its standard input must be a pipe, whose end reports this process's death.

    Args:
        command: program (an absolute path) and arguments.
        death_signal: signal that it receives when the thread or this process ends.
        user: (uid, gid) to run as; by default the ones of this process.
    """
    numbers = (os.getpid(), int(death_signal), *(user or (-1, -1)))
    return [sys.executable, "-I", "-S", _GUARD, *map(str, numbers), *command]
