"""Slots for concurrent requests of one process, shared fairly between tenants."""

from __future__ import annotations

from collections import Counter

from shared.domain.errors import Unavailable


class Slots:
    """A fixed number of slots.

    A tenant may have as many slots as are free (Choudhury and Hahne, "Dynamic Queue Length Thresholds", 1998): a single
    busy tenant gets half of them, two busy tenants get a third each, and a slot always remains for a tenant without
    one.

    Args:
        most: number of slots.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._per_tenant = Counter[str]()

    def acquire(self) -> Slot:
        """Return a slot for a request whose tenant is not known yet.

        Raises:
            Unavailable: all slots are in use.
        """
        if self._used >= self._most:
            raise Unavailable(f"This process is already handling {self._most:,} requests.", component="api")
        self._used += 1
        return Slot(self)

    def assign(self, tenant: str) -> bool:
        """Count an acquired slot for a tenant; return whether the tenant may have another one."""
        if self._per_tenant[tenant] > self._most - self._used:
            return False
        self._per_tenant[tenant] += 1
        return True

    def release(self, tenant: str | None) -> None:
        """Release a slot, and the tenant's share of it if it was assigned."""
        self._used -= 1
        if tenant is not None:
            self._per_tenant[tenant] -= 1
            if not self._per_tenant[tenant]:
                del self._per_tenant[tenant]


class Slot:
    """The slot of one request; call `release` once."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._tenant: str | None = None

    def assign(self, tenant: str) -> bool:
        """Count the slot for a tenant; return whether the tenant may have it."""
        if self._tenant is None and self._slots.assign(tenant):
            self._tenant = tenant
        return self._tenant is not None

    def release(self) -> None:
        self._slots.release(self._tenant)
