"""Events that happen with every call, of which the log needs one in a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

_SECONDS = 60.0
_MOST = 100  # kinds, because another server's answer may be a part of a kind


class Repetitions:
    """Recognizes events that repeat: log these with a lower level.

    Args:
        now: clock in monotonic seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._first: dict[tuple[Hashable, ...], float] = {}

    def repeats(self, *kind: Hashable) -> bool:
        """Return whether an event of this kind was new within the last minute; otherwise it is new now."""
        now = self._now()
        if now - self._first.get(kind, -_SECONDS) < _SECONDS:
            return True
        if len(self._first) >= _MOST:
            self._first.clear()
        self._first[kind] = now
        return False
