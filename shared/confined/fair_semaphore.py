"""A semaphore that shares the slots of a sandbox fairly between tenants."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    tenant: str | None
    comes: asyncio.Future[None]


class FairSemaphore:
    """Slots for files. A free slot is given to the tenant with the fewest slots, and to its longest-waiting file.

    While one tenant holds every slot, there is an additional one for the files of others, one after the other, so that
    the slow files of a tenant delay none of them.

    Args:
        count: number of slots without the additional one.
    """

    def __init__(self, count: int) -> None:
        self._free = count  # -1 while the additional slot is taken
        self._taken = Counter[str | None]()
        self._waiting: list[_Turn] = []

    @asynccontextmanager
    async def one(self, tenant: str | None) -> AsyncIterator[None]:
        """Wait for a slot, and hold it within the block."""
        await self._take(tenant)
        try:
            yield
        finally:
            self._release(tenant)

    async def _take(self, tenant: str | None) -> None:
        if self._is_free_for(tenant):
            self._give(tenant)
            return
        turn = _Turn(tenant, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        try:
            await turn.comes
        except asyncio.CancelledError:
            if turn in self._waiting:
                self._waiting.remove(turn)
            else:  # it has the slot already
                self._release(tenant)
            raise

    def _is_free_for(self, tenant: str | None) -> bool:
        held_by_one_other = len(self._taken) == 1 and tenant not in self._taken
        return self._free > 0 or (self._free == 0 and held_by_one_other)

    def _give(self, tenant: str | None) -> None:
        self._free -= 1
        self._taken[tenant] += 1

    def _release(self, tenant: str | None) -> None:
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]
        self._free += 1
        # A cancelled file waits until its own task removes it.
        while waiting := [turn for turn in self._waiting if not turn.comes.done()]:
            turn = min(waiting, key=lambda turn: self._taken[turn.tenant])  # the first of equal ones
            if not self._is_free_for(turn.tenant):
                break
            self._waiting.remove(turn)
            self._give(turn.tenant)
            turn.comes.set_result(None)
