"""A drain: claim, work, settle, until nothing is due. Every stage of the ingest is run by this one mechanism.

Three loops run at once, so that neither the ledger nor the provider waits for the other. Claim: when slots are free.
Work: one task per item. Commit: all that finished during the previous commit, in one transaction. A slot is free again
only when its outcome is committed, so a kill never costs more than the slots.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

import structlog

from shared.domain.errors import Permanent, Transient
from shared.domain.records import Lease

ItemT = TypeVar("ItemT")
OutcomeT = TypeVar("OutcomeT")

_LEDGER_PAUSE_SECONDS = 0.5
log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[ItemT, OutcomeT]):
    """The steps of a drain; the modules named `stage` define them.

    Args:
        name: for logs.
        slots: how many items may be in work at the same time.
        linger: the pause after a claim that found fewer items than it asked for; work gathers meanwhile.
        claim: takes up to so many items.
        claim_suspect: takes at most one suspect; nothing else runs beside it.
        work: does one item; a failure is an outcome, an exception is a bug.
        settle: commits outcomes.
        leases_of: the leases that an item holds.
        describe: names an item in logs by document, chunk and tenant.
        extend: holds leases for another term; returns the tokens of those that still held.
        give_back: ends leases whose work was not done.
        full: called when more is due than there are slots: another worker may help.
    """

    name: str
    slots: int
    linger: timedelta
    claim: Callable[[int], Awaitable[Sequence[ItemT]]]
    claim_suspect: Callable[[], Awaitable[Sequence[ItemT]]]
    work: Callable[[ItemT], Awaitable[OutcomeT]]
    settle: Callable[[Sequence[OutcomeT]], Awaitable[None]]
    leases_of: Callable[[ItemT], Sequence[Lease]]
    describe: Callable[[ItemT], Mapping[str, object]]
    extend: Callable[[Sequence[Lease]], Awaitable[set[int]]]
    give_back: Callable[[Sequence[Lease]], Awaitable[None]]
    full: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class DrainLimits:
    """How long a drain may take.

    Args:
        lease: how long a claim holds; the drain extends it three times within that time.
        budget: how long the drain goes on claiming.
        grace: how long items in work may take once the process is asked to end.
    """

    lease: timedelta
    budget: timedelta
    grace: timedelta


class Drain(Generic[ItemT, OutcomeT]):
    """One run of a stage. `stopping` is set when the process is asked to end: the drain claims nothing from then on."""

    def __init__(self, stage: Stage[ItemT, OutcomeT], limits: DrainLimits, stopping: asyncio.Event) -> None:
        self._stage = stage
        self._limits = limits
        self._stopping = stopping
        self._free = stage.slots
        self._freed = asyncio.Event()
        self._in_work: dict[asyncio.Task[None], ItemT] = {}
        self._leases: dict[int, Sequence[Lease]] = {}  # by the identity of the item, until it is committed
        self._finished: asyncio.Queue[tuple[ItemT, OutcomeT]] = asyncio.Queue()
        self.settled = 0

    async def run(self) -> bool:
        """Work until nothing is due or the budget is used up; return whether there may be more.

        Raises:
            Transient: the ledger was not available for a claim. Items in work have been settled all the same.
        """
        settling, extending = asyncio.create_task(self._settle_all()), asyncio.create_task(self._extend_all())
        try:
            return await self._claim_all(settling)
        finally:
            await self._wind_down(settling)
            for task in (settling, extending):
                task.cancel()
            await asyncio.gather(settling, extending, return_exceptions=True)

    async def _claim_all(self, settling: asyncio.Task[None]) -> bool:
        deadline = time.monotonic() + self._limits.budget.total_seconds()
        enough = max(1, self._stage.slots // 8)  # a claim costs a round trip, so it waits for a few slots
        reported_full = False
        await self._work_alone(settling)
        while not self._stopping.is_set() and time.monotonic() < deadline:
            _raise_settling_error(settling)
            if self._free < min(enough, self._stage.slots):
                await self._wait_for_slots()
                continue
            limit = self._free
            items = await self._claimed(partial(self._stage.claim, limit))
            for item in items:
                self._begin(item)
            if len(items) < limit:
                if not items and self._free == self._stage.slots:
                    if not await self._work_alone(settling):
                        return False
                    continue
                await asyncio.sleep(self._stage.linger.total_seconds())
            elif not reported_full:
                reported_full = True
                self._stage.full()
        return True

    async def _work_alone(self, settling: asyncio.Task[None]) -> bool:
        """Work on one suspect with nothing beside it, so that it takes no others along; return whether there was one.

        Each drain begins with one suspect, so that none waits for the end of all other work. The drain takes the other
        suspects when nothing else is due.
        """
        items = await self._claimed(self._stage.claim_suspect)
        for item in items:
            self._begin(item)
        while self._free < self._stage.slots and not self._stopping.is_set():
            _raise_settling_error(settling)
            await self._wait_for_slots()
        return bool(items)

    async def _claimed(self, claim: Callable[[], Awaitable[Sequence[ItemT]]]) -> Sequence[ItemT]:
        """Claim items. If the query took longer than a lease, give them back unworked.

        Other workers may hold them by now: a process that stood still would repeat calls that they are making.
        """
        started = time.monotonic()
        items = await claim()
        if time.monotonic() - started < self._limits.lease.total_seconds():
            return items
        leases = [lease for item in items for lease in self._stage.leases_of(item)]
        log.warning("claim.late", **self._named(items))
        await self._stage.give_back(leases)
        return []

    def _begin(self, item: ItemT) -> None:
        self._free -= 1
        self._leases[id(item)] = self._stage.leases_of(item)
        task = asyncio.create_task(self._work(item))
        self._in_work[task] = item
        task.add_done_callback(self._ended)

    async def _work(self, item: ItemT) -> None:
        self._finished.put_nowait((item, await self._stage.work(item)))

    def _ended(self, task: asyncio.Task[None]) -> None:
        item = self._in_work.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            # A bug, or memory. The lease ends by itself, and an item that raises again becomes poison.
            log.error("work.raised", **self._named([item]), exc_info=error)
            self._release(item)

    def _release(self, item: ItemT) -> None:
        del self._leases[id(item)]
        self._free += 1
        self._freed.set()

    async def _wait_for_slots(self) -> None:
        self._freed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._freed.wait(), timeout=1)

    async def _settle_all(self) -> None:
        while True:
            group = [await self._finished.get()]
            while not self._finished.empty():
                group.append(self._finished.get_nowait())
            await self._commit(group)
            for item, _ in group:
                self._release(item)
                self._finished.task_done()
            self.settled += len(group)

    async def _commit(self, group: Sequence[tuple[ItemT, OutcomeT]]) -> None:
        """Settle, again and again while the ledger is away: these outcomes have been paid for."""
        while True:
            try:
                await self._stage.settle([outcome for _, outcome in group])
            except Transient as error:
                log.warning("settlement.delayed", **self._named([item for item, _ in group]), reason=error.message)
                await asyncio.sleep(_LEDGER_PAUSE_SECONDS)
            except Permanent as error:
                await self._commit_apart(group, error)
                return
            else:
                return

    async def _commit_apart(self, group: Sequence[tuple[ItemT, OutcomeT]], error: Permanent) -> None:
        """The ledger can never record one of these outcomes: its lease ends by itself, and it holds up no other."""
        if len(group) == 1:
            log.error("settlement.refused", **self._named([group[0][0]]), reason=error.message)
            return
        for member in group:
            await self._commit([member])

    async def _extend_all(self) -> None:
        while True:
            await asyncio.sleep(self._limits.lease.total_seconds() / 3)
            leases = [lease for leases in self._leases.values() for lease in leases]
            try:
                if leases:
                    await self._stage.extend(leases)
            except Transient as error:
                log.warning("heartbeat.failed", stage=self._stage.name, reason=error.message)

    async def _wind_down(self, settling: asyncio.Task[None]) -> None:
        """Wait for the items in work and commit them; give back those that do not end in time."""
        finishing = asyncio.create_task(self._finish())
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([finishing, stopped, settling], return_when=asyncio.FIRST_COMPLETED)
        if not finishing.done() and not settling.done():
            await asyncio.wait([finishing], timeout=self._limits.grace.total_seconds())
        unfinished = list(self._in_work.values())
        for task in (finishing, stopped, *self._in_work):
            task.cancel()
        await asyncio.gather(finishing, stopped, *self._in_work, return_exceptions=True)
        leases = [lease for leases in self._leases.values() for lease in leases]
        if leases:
            log.warning("claim.returned", **self._named(unfinished))
            with suppress(Transient):
                await self._stage.give_back(leases)

    def _named(self, items: Sequence[ItemT]) -> dict[str, object]:
        """The fields of a log event: whoever is called at night finds the row by them."""
        first = self._stage.describe(items[0]) if items else {}
        return {"stage": self._stage.name, "items": len(items), **first}

    async def _finish(self) -> None:
        while self._in_work:
            await asyncio.wait(list(self._in_work))
        await self._finished.join()


def _raise_settling_error(settling: asyncio.Task[None]) -> None:
    """Raise the error that ended the settlements: claiming is of no use without them."""
    if settling.done():
        settling.result()
