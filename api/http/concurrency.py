"""Slots for concurrent requests of one process, shared fairly between tenants."""

from __future__ import annotations

from collections import Counter

from shared.domain.errors import Unavailable


class Slots:
    """A fixed number of slots.

    A tenant may hold as many slots as are free (Choudhury and Hahne, "Dynamic Queue Length Thresholds", 1998): alone it
    gets half of them, next to an equally busy tenant a third, and there is always a slot for a tenant without one.

    Args:
        most: number of slots.
        what: name of the requests in the error message.
    """

    def __init__(self, most: int, what: str = "requests") -> None:
        self._most = most
        self._what = what
        self._taken = 0
        self._held = Counter[str]()

    def take(self) -> Slot:
        """Return a slot for a request without a tenant yet.

        Raises:
            Unavailable: none is free.
        """
        if self._taken >= self._most:
            raise Unavailable(f"{self._most:,} {self._what} are under way at this process already.", component="api")
        self._taken += 1
        return Slot(self)

    def hold(self, tenant: str) -> bool:
        """Count a slot for a tenant; return whether it may have one more."""
        if self._held[tenant] > self._most - self._taken:
            return False
        self._held[tenant] += 1
        return True

    def give_back(self, tenant: str | None) -> None:
        self._taken -= 1
        if tenant is not None:
            self._held[tenant] -= 1
            if not self._held[tenant]:
                del self._held[tenant]


class Slot:
    """The slot of one request; `release` it once."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._tenant: str | None = None

    def hold_for(self, tenant: str) -> bool:
        """Count it for a tenant; return whether the tenant may have it."""
        if self._tenant is None and self._slots.hold(tenant):
            self._tenant = tenant
        return self._tenant is not None

    def release(self) -> None:
        self._slots.give_back(self._tenant)
