"""A drain: claim, work, settle, until nothing is due. One mechanism for every stage of the ingest.

Its parts run side by side, so that neither the ledger nor the provider waits for the other: claims are made as slots
come free, each item is worked on by itself, and what is finished is settled in groups, each as large as what came in
while the one before was committed. A slot is free again only when its outcome is committed, so a kill never costs more
than the slots.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
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
    """What a drain does; see the modules named `stage`.

    Args:
        name: for logs.
        slots: items in work at the same time.
        linger: after a claim that found less than it asked for, how long work may gather before the next one.
        claim: take up to so many items.
        claim_suspect: take an item that may end its worker, to be worked on alone, if there is one.
        work: do one; what goes wrong is an outcome, and what it raises is a bug.
        settle: commit outcomes.
        leases_of: the claims that an item holds.
        extend: hold claims for another lease.
        give_back: end claims whose work was not done.
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
    extend: Callable[[Sequence[Lease]], Awaitable[None]]
    give_back: Callable[[Sequence[Lease]], Awaitable[None]]
    full: Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class DrainLimits:
    """How long a drain may take.

    Args:
        lease: how long a claim holds; it is extended three times within.
        budget: how long to go on claiming.
        grace: how long to wait for what is in work once the process is asked to end.
    """

    lease: timedelta
    budget: timedelta
    grace: timedelta


class Drain(Generic[ItemT, OutcomeT]):
    """One run of a stage. `stopping` is set when the process is asked to end: nothing is claimed from then on."""

    def __init__(self, stage: Stage[ItemT, OutcomeT], limits: DrainLimits, stopping: asyncio.Event) -> None:
        self._stage = stage
        self._limits = limits
        self._stopping = stopping
        self._free = stage.slots
        self._freed = asyncio.Event()
        self._in_work: dict[asyncio.Task[None], ItemT] = {}
        self._held: dict[int, Sequence[Lease]] = {}  # by the identity of the item, until it is committed
        self._finished: asyncio.Queue[tuple[ItemT, OutcomeT]] = asyncio.Queue()
        self.settled = 0

    async def run(self) -> bool:
        """Work until nothing is due or the budget is used up; return whether there may be more.

        Raises:
            Transient: the ledger was not available for a claim. What was in work has been settled all the same.
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
        called_for_help = False
        await self._work_alone(settling)
        while not self._stopping.is_set() and time.monotonic() < deadline:
            _raise_what_ended(settling)
            if self._free < min(enough, self._stage.slots):
                await self._wait_for_slots()
                continue
            asked_for = self._free
            items = await self._claimed(partial(self._stage.claim, asked_for))
            for item in items:
                self._begin(item)
            if len(items) < asked_for:
                if not items and self._free == self._stage.slots:
                    if not await self._work_alone(settling):
                        return False
                    continue
                await asyncio.sleep(self._stage.linger.total_seconds())
            elif not called_for_help:
                called_for_help = True
                self._stage.full()
        return True

    async def _work_alone(self, settling: asyncio.Task[None]) -> bool:
        """Work on a suspect with nothing beside it, so that it cannot take others along; return whether there was one.

        One at each beginning, so that no suspect waits for the end of all other work, and the rest when nothing else is
        due.
        """
        items = await self._claimed(self._stage.claim_suspect)
        for item in items:
            self._begin(item)
        while self._free < self._stage.slots and not self._stopping.is_set():
            _raise_what_ended(settling)
            await self._wait_for_slots()
        return bool(items)

    async def _claimed(self, claim: Callable[[], Awaitable[Sequence[ItemT]]]) -> Sequence[ItemT]:
        """Claim, and begin nothing where the answer took so long that others may have taken over what it names.

        A process that stood still at that moment would otherwise make calls that somebody else is making.
        """
        asked = time.monotonic()
        items = await claim()
        if time.monotonic() - asked < self._limits.lease.total_seconds():
            return items
        log.warning("claim_came_late", stage=self._stage.name, items=len(items))
        await self._stage.give_back([lease for item in items for lease in self._stage.leases_of(item)])
        return []

    def _begin(self, item: ItemT) -> None:
        self._free -= 1
        self._held[id(item)] = self._stage.leases_of(item)
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
            # A bug, or memory: the claim is left to end by itself, and an item that does this again is set aside.
            log.error("work_raised", stage=self._stage.name, exc_info=error)
            self._release(item)

    def _release(self, item: ItemT) -> None:
        del self._held[id(item)]
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
            await self._commit([outcome for _, outcome in group])
            for item, _ in group:
                self._release(item)
                self._finished.task_done()
            self.settled += len(group)

    async def _commit(self, outcomes: Sequence[OutcomeT]) -> None:
        """Settle, again and again while the ledger is away: what these outcomes cost has been paid."""
        while True:
            try:
                await self._stage.settle(outcomes)
            except Transient as error:
                log.warning("settlement_waits", stage=self._stage.name, outcomes=len(outcomes), reason=error.message)
                await asyncio.sleep(_LEDGER_PAUSE_SECONDS)
            except Permanent as error:
                await self._commit_apart(outcomes, error)
                return
            else:
                return

    async def _commit_apart(self, outcomes: Sequence[OutcomeT], error: Permanent) -> None:
        """One of these cannot be recorded, ever: its claim is left to end by itself, and the others are not held up."""
        if len(outcomes) == 1:
            log.error("settlement_refused", stage=self._stage.name, reason=error.message)
            return
        for outcome in outcomes:
            await self._commit([outcome])

    async def _extend_all(self) -> None:
        while True:
            await asyncio.sleep(self._limits.lease.total_seconds() / 3)
            leases = [lease for held in self._held.values() for lease in held]
            try:
                if leases:
                    await self._stage.extend(leases)
            except Transient as error:
                log.warning("heartbeat_failed", stage=self._stage.name, reason=error.message)

    async def _wind_down(self, settling: asyncio.Task[None]) -> None:
        """Wait for what is in work and commit it; what does not end in time is given back."""
        finishing = asyncio.create_task(self._finish())
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([finishing, stopped, settling], return_when=asyncio.FIRST_COMPLETED)
        if not finishing.done() and not settling.done():
            await asyncio.wait([finishing], timeout=self._limits.grace.total_seconds())
        for task in (finishing, stopped, *self._in_work):
            task.cancel()
        await asyncio.gather(finishing, stopped, *self._in_work, return_exceptions=True)
        leases = [lease for held in self._held.values() for lease in held]
        if leases:
            log.warning("given_back", stage=self._stage.name, claims=len(leases))
            with suppress(Transient):
                await self._stage.give_back(leases)

    async def _finish(self) -> None:
        while self._in_work:
            await asyncio.wait(list(self._in_work))
        await self._finished.join()


def _raise_what_ended(settling: asyncio.Task[None]) -> None:
    """Without settlements there is no use in claiming."""
    if settling.done():
        settling.result()
