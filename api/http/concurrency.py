"""Room for requests under way at one process, which no tenant takes from the others."""

from __future__ import annotations

from collections import Counter

from shared.domain.errors import Unavailable


class Slots:
    """As many requests as may be under way.

    A tenant may have as many as are free (Choudhury and Hahne, "Dynamic Queue Length Thresholds", 1998): alone it gets
    half of them, beside one that is as busy a third, and there is always room for who has none.

    Args:
        most: how many there are.
        what: they are taken by, for the sentence of a refusal.
    """

    def __init__(self, most: int, what: str = "requests") -> None:
        self._most = most
        self._what = what
        self._taken = 0
        self._held = Counter[str]()

    def take(self) -> Slot:
        """Return a slot, whose request has no tenant yet.

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
    """The place of one request; `release` it once."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._tenant: str | None = None

    def hold_for(self, tenant: str) -> bool:
        """Count it for the tenant whose request it is; return whether the tenant may have one more."""
        if self._tenant is None and self._slots.hold(tenant):
            self._tenant = tenant
        return self._tenant is not None

    def release(self) -> None:
        self._slots.give_back(self._tenant)
