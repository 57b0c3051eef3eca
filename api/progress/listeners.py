"""Open event streams of a process, counted by tenant and key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from shared.domain.access.keys import Owner
from shared.http.problems import TooManyRequests
from shared.settings import Settings

_RETRY_AFTER = timedelta(seconds=10)


class Listeners:
    """Counts open streams. One key has at most half of its tenant's streams, so that it does not stop other keys."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._of_tenants = Counter[str]()
        self._of_keys = Counter[Owner]()

    def require_room(self, key: Owner) -> None:
        """Check that a key may open one more stream, before the reply starts.

        Raises:
            TooManyRequests: the tenant or the key has too many open streams.
        """
        most = self._settings.limits_of(key.tenant).listeners
        if most is None:
            return
        if self._of_tenants[key.tenant] >= most:
            raise _full(f"{most:,} clients of this tenant")
        if self._of_keys[key] >= (of_key := (most + 1) // 2):
            raise _full(f"{of_key:,} clients with this key")

    @contextmanager
    def counted(self, key: Owner) -> Iterator[None]:
        """Count a stream of a key within the block.

        Raises:
            TooManyRequests: other streams have taken the room since `require_room`.
        """
        self.require_room(key)
        self._of_tenants[key.tenant] += 1
        self._of_keys[key] += 1
        try:
            yield
        finally:
            self._of_tenants -= Counter({key.tenant: 1})  # without entries of 0
            self._of_keys -= Counter({key: 1})


def _full(clients: str) -> TooManyRequests:
    return TooManyRequests(
        f"{clients} already listen to /v1/events and to events of jobs at this process: close some.",
        retry_after=_RETRY_AFTER,
    )
