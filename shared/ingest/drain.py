"""A drain claims, processes and settles work until nothing is due. Every stage of the ingest runs in drains.

Three loops run concurrently, so that neither the ledger nor the provider waits for the other. Claim: when slots are
free, or are about to be. Work: one task per item. Commit: everything that finished during the previous commit, or
shortly after, in one transaction; outcomes that take seconds are committed separately, and delay no others. A slot is
free again only when its outcome is committed, so a kill never costs more than the slots: items claimed during a commit
start after it.

A claim of 64 items costs twice as much as a claim of 8. So while more is due than there are slots, a stage may claim
items ahead, as many as start within half a second: a worker that becomes idle, and an upload that is more urgent, wait
no longer than that. A stop releases them at once.

A drain runs for a limited time, because the thread that waits for it has other tasks. The items that are then running
continue, and the next run claims for the other slots: if each run waited for its slowest items, calls of 1 to 8 s
would use the slots for three quarters of the time only.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar, cast

import structlog

from shared.domain.errors import LeaseLost, Permanent, Transient
from shared.domain.retry import Dead
from shared.domain.stages.attempts import FailedAttempt, Outcome
from shared.domain.stages.work import Lease, LeaseExtension
from shared.ledger.postgres.database import TransactionConflict
from shared.process.clock import elapsed_seconds
from shared.process.telemetry import metrics, traces
from shared.process.telemetry.spans import Attributes

ItemT = TypeVar("ItemT")
OutcomeT = TypeVar("OutcomeT")

_LEDGER_PAUSE_SECONDS = 0.5
_EXTEND_SECONDS = 5.0  # minimum timeout of an extension: a faster answer is slow, and not lost
_GROUP_FAILURES = 2  # failures of a group before its outcomes are settled one by one
_MOST_RAISES = (
    10  # settlements that raise one after another: the fault is not in one item, and work would be paid in vain
)
_COLLISION_PAUSE_SECONDS = 0.1
_IDLE_SECONDS = 0.2  # a free slot waits no longer for others
_GATHER_SECONDS = 0.01  # chunks that were claimed together finish within this time of each other
_AHEAD_SECONDS = 0.5  # until the last item that is claimed ahead starts
_POLL_SECONDS = 1.0  # between two polls for suspects; the lost lease of a suspect lasted longer
log = structlog.get_logger()


class Stage(ABC, Generic[ItemT, OutcomeT]):
    """The steps of a drain; a subclass in each module named `stage` defines them.

    Attributes:
        name: name in logs.
        slots: maximum number of concurrent items.
        linger: pause after a claim that returned fewer items than requested, so that more work becomes due.
        claims_ahead: whether items are claimed shortly before slots are free for them.
    """

    name: str
    slots: int
    linger: timedelta
    claims_ahead: bool = False

    @abstractmethod
    async def claim(self, limit: int, held: Mapping[str, int]) -> Sequence[ItemT] | None:
        """Claim up to a number of items; `held` is the number of items of each tenant that the drain holds.

        Returns:
            None if it only advanced rows that need no work, so that more may be due.
        """

    @abstractmethod
    async def claim_suspect(self) -> Sequence[ItemT] | None:
        """Claim at most one suspect, which is processed separately."""

    @abstractmethod
    async def process(self, item: ItemT, require_lease: Callable[[], None]) -> OutcomeT:
        """Process one item; a failure is an outcome, an exception is a bug.

        `require_lease` raises `LeaseLost` if the item's lease may have expired: it is called before each payment.
        """

    @abstractmethod
    async def settle(self, outcomes: Sequence[OutcomeT]) -> None:
        """Commit outcomes."""

    @abstractmethod
    def leases_of(self, item: ItemT) -> Sequence[Lease]:
        """Return the leases of an item."""

    @abstractmethod
    def describe(self, item: ItemT) -> Attributes:
        """Return document, chunk, collection and tenant of an item for logs."""

    @abstractmethod
    def traced(self, item: ItemT) -> Mapping[str, Attributes]:
        """Return the traces of an item by `traceparent`, each with the description of its part."""

    @abstractmethod
    async def extend(self, leases: Sequence[Lease]) -> LeaseExtension:
        """Extend leases."""

    @abstractmethod
    async def release(self, leases: Sequence[Lease], called: Sequence[Lease] = ()) -> None:
        """Release leases without an attempt; the provider may charge for a call of those in `called`."""

    @abstractmethod
    async def expire(self, leases: Sequence[Lease]) -> None:
        """End leases at once, as if their worker had died: they count as lost."""

    @abstractmethod
    def full(self) -> None:
        """More work is due than there are slots: another worker may help."""

    def is_large(self, outcome: OutcomeT) -> bool:
        """Return whether an outcome takes seconds to commit."""
        del outcome
        return False


@dataclass(frozen=True, kw_only=True)
class DrainLimits:
    """Time limits of a drain.

    Args:
        lease: duration of a claim; the drain extends it three times within that time, and retries a failed extension
            every half second.
        budget: time for which a run of the drain claims items.
        grace: time for running items after the process is asked to stop.
    """

    lease: timedelta
    budget: timedelta
    grace: timedelta


class HeldLeases:
    """The leases of one item, and the earliest time at which they expire, by a clock that counts sleep."""

    def __init__(self, leases: Sequence[Lease], until: float, now: Callable[[], float]) -> None:
        self.leases = leases
        self.called = False  # whether a call was about to be paid under them
        self.started_at: float | None = None  # when the item got a slot
        self._until = until
        self._now = now

    def extended(self, until: float, extension: LeaseExtension) -> None:
        """Record an extension. While a row is locked, the leases expire when they did before."""
        tokens = {lease.token for lease in self.leases}
        if not tokens.isdisjoint(extension.locked):
            return
        self._until = self._now() if tokens.isdisjoint(extension.extended) else until

    def require(self) -> None:
        """Record that a call is about to be paid; raise `LeaseLost` if the leases may have expired."""
        if self._now() >= self._until:
            raise LeaseLost
        self.called = True


class SuspectPolls:
    """Schedules a worker's polls for suspects: once a second while it finds none, for all its drains together.

    Args:
        now: clock in monotonic seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._next = -math.inf

    def is_due(self) -> bool:
        return self._now() >= self._next

    def found(self, *, some: bool) -> None:
        if not some:
            self._next = self._now() + _POLL_SECONDS


class Exclusion:
    """Keeps a suspect alone in its process, in which several stages may run: a crash then affects no other item."""

    def __init__(self) -> None:
        self._drains = set[Drain[Any, Any]]()
        self._owner: object | None = None
        self._changed = asyncio.Event()

    @property
    def held(self) -> int:
        """The number of items that all drains hold."""
        return sum(drain.held for drain in self._drains)

    def add(self, drain: Drain[Any, Any]) -> None:
        """Include a drain that starts."""
        self._drains.add(drain)

    def remove(self, drain: Drain[Any, Any]) -> None:
        """Exclude a drain that has ended."""
        self._drains.discard(drain)
        self._changed.set()

    def released(self) -> None:
        """Note that a drain has released an item."""
        self._changed.set()

    def excludes(self, drain: object) -> bool:
        """Return whether another drain claims or processes a suspect."""
        return self._owner not in {None, drain}

    @contextmanager
    def alone(self, drain: object) -> Iterator[None]:
        """Keep all other drains from claims within the block."""
        self._owner = drain
        try:
            yield
        finally:
            self._owner = None
            self._changed.set()

    async def wait(self, most_seconds: float = 1) -> None:
        """Wait until an item was released or a suspect has ended."""
        self._changed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout=most_seconds)


class Drain(Generic[ItemT, OutcomeT]):
    """A running stage: runs, one after the other, until nothing is due.

    Args:
        stage: the stage.
        limits: time limits.
        stopping: set when the process is asked to stop; the drain claims nothing from then on.
        polls: shared timing of suspect claims of the stage's drains; None if this drain is the only one.
        now: clock in monotonic seconds. uvloop's own time lags while a callback blocks it, and stops while the machine
            sleeps, but leases expire meanwhile.
        exclusion: shared by the drains of all stages of the process; None if this drain is the only one.
    """

    def __init__(
        self,
        stage: Stage[ItemT, OutcomeT],
        limits: DrainLimits,
        stopping: asyncio.Event,
        polls: SuspectPolls | None = None,
        now: Callable[[], float] = elapsed_seconds,
        *,
        exclusion: Exclusion | None = None,
    ) -> None:
        self._stage = stage
        self._limits = limits
        self._stopping = stopping
        self._polls = polls or SuspectPolls(now)
        self._exclusion = exclusion or Exclusion()
        self._now = now
        # Slots for claims; outcomes that are being committed count as free. Negative while items are claimed ahead.
        self._free = stage.slots
        self._mean_seconds: float | None = None  # for which an item had its slot
        self._has_backlog = False  # whether the last claim returned as many items as it requested
        self._ahead = 0  # items to claim before slots are free
        self._free_since = -math.inf  # since when there has been one
        self._slots = asyncio.Semaphore(stage.slots)
        self._freed = asyncio.Event()
        self._in_progress: dict[asyncio.Task[OutcomeT], ItemT] = {}
        self._held: dict[int, HeldLeases] = {}  # by the identity of the item, until it is committed
        self._tenants = Counter[str]()  # of the items that are held
        self._deadline = -math.inf
        self._settling: asyncio.Task[None] | None = None
        self._extending: asyncio.Task[None] | None = None
        self.has_ended = False
        self._finished: asyncio.Queue[tuple[ItemT, OutcomeT]] = asyncio.Queue()
        self._large: asyncio.Queue[tuple[ItemT, OutcomeT]] = asyncio.Queue()  # finished, too
        self._raises = 0  # settlements that raised since the last success
        self.settled = 0

    @property
    def in_progress(self) -> int:
        """The number of running items."""
        return len(self._in_progress) - len(self._waiting())

    @property
    def held(self) -> int:
        """The number of claimed items that are not committed."""
        return len(self._held)

    async def run(self) -> bool:
        """Work until nothing is due or the budget is used up; return whether more may be due.

        If more may be due, items are still running: call `run` again, or `close`. Otherwise the drain has ended.

        Raises:
            Transient: the ledger was unavailable for a claim. Running items were settled anyway.
        """
        if self._settling is None:
            self._exclusion.add(self)
            self._settling = asyncio.create_task(self._settle_all())
            self._extending = asyncio.create_task(self._extend_all(self._settling))
        self._deadline = self._now() + self._limits.budget.total_seconds()
        continues = False
        try:
            more = await self._claim_all(self._settling)
            continues = more and not self._stopping.is_set()
            return more
        finally:
            if not continues:
                await self.close()

    async def close(self) -> None:
        """Wait for running items and commit them; after a stop, release unfinished items when the grace ends."""
        if self._settling is None or self._extending is None or self.has_ended:
            return
        self.has_ended = True
        try:
            await self._wind_down(self._settling)
        finally:
            self._exclusion.remove(self)
        for task in (self._settling, self._extending):
            task.cancel()
        await asyncio.gather(self._settling, self._extending, return_exceptions=True)

    async def _claim_all(self, settling: asyncio.Task[None]) -> bool:
        reported_full = False
        _raise_settling_error(settling)
        await self._work_alone(settling)
        while self._may_claim():
            _raise_settling_error(settling)
            if self._exclusion.excludes(self):
                await self._exclusion.wait()
                continue
            limit, is_idle = self._free + self._ahead, not self._held
            if self._has_few_slots(limit):
                await self._wait_for_slots(_IDLE_SECONDS if self._free > 0 else 1)
                continue
            self._ahead = 0
            items = await self._claim(partial(self._stage.claim, limit, self._tenants))
            self._has_backlog = len(items) == limit
            if not self._has_backlog:
                if not items and is_idle:  # otherwise a tenant may have held all that it may hold
                    if not await self._work_alone(settling) and self._may_claim():
                        return False
                    continue
                await asyncio.sleep(self._stage.linger.total_seconds())
            elif not reported_full:
                reported_full = True
                self._stage.full()
        return True

    def _has_few_slots(self, limit: int) -> bool:
        """Return whether a claim waits a little for more slots, because it costs a round trip."""
        is_idle = self._free > 0 and self._now() - self._free_since >= _IDLE_SECONDS
        return limit < max(1, self._stage.slots // 8, self._ahead // 2) and not is_idle

    async def _work_alone(self, settling: asyncio.Task[None]) -> bool:
        """Process one suspect without other items, so that a crash affects no other item; return whether there was one.

        Each run starts with one suspect, so that suspects do not wait for the end of all other work: it starts when the
        running items have ended. The drain claims more suspects when nothing else is due.
        """
        if not self._polls.is_due() or self._exclusion.excludes(self):
            return False
        with self._exclusion.alone(self):
            items = await self._claim(self._stage.claim_suspect, alone=True)
            self._polls.found(some=bool(items))
            while items and self._held and not self._stopping.is_set():
                _raise_settling_error(settling)
                await self._wait_for_slots()
        return bool(items)

    def _may_claim(self) -> bool:
        return not self._stopping.is_set() and self._now() < self._deadline

    async def _claim(
        self, claim: Callable[[], Awaitable[Sequence[ItemT] | None]], *, alone: bool = False
    ) -> Sequence[ItemT]:
        """Claim items and start them; repeat the claim if it collided or found only rows that need no work.

        In both cases more work may be due, so only a stop or the budget ends the repetition.
        """
        while self._may_claim():
            requested_at = self._now()
            try:
                items = await claim()
            except TransactionConflict:
                await asyncio.sleep(random.uniform(0, _COLLISION_PAUSE_SECONDS))  # noqa: S311 - no secret
                continue
            if items is not None:
                return await self._start_all(items, requested_at + self._limits.lease.total_seconds(), alone=alone)
        return []

    async def _start_all(self, items: Sequence[ItemT], until: float, *, alone: bool) -> Sequence[ItemT]:
        """Start items. If the claim took longer than a lease, release them instead.

        Other workers may have claimed them since, so a stalled process would repeat their calls.
        """
        if self._now() < until:
            for item in items:
                self._start(item, until, alone=alone)
            return items
        leases = [lease for item in items for lease in self._stage.leases_of(item)]
        log.warning("claim.late", **self._named(items))
        await self._stage.release(leases)
        return []

    def _start(self, item: ItemT, until: float, *, alone: bool) -> None:
        self._free -= 1
        self._tenants[self._tenant_of(item)] += 1
        held = self._held[id(item)] = HeldLeases(self._stage.leases_of(item), until, self._now)
        task = asyncio.create_task(self._work(item, held, alone=alone))
        self._in_progress[task] = item
        task.add_done_callback(self._ended)

    def _tenant_of(self, item: ItemT) -> str:
        return str(self._stage.describe(item).get("tenant"))

    async def _work(self, item: ItemT, held: HeldLeases, *, alone: bool) -> OutcomeT:
        structlog.contextvars.bind_contextvars(
            stage=self._stage.name, **self._stage.describe(item)
        )  # only in this task
        while alone and self._exclusion.held > 1:
            await self._exclusion.wait()
        await self._slots.acquire()
        held.started_at = self._now()
        with traces.work(self._stage.name, self._stage.traced(item)) as span:
            outcome = await self._stage.process(item, held.require)
            if failure := _failure(outcome):
                span.fail(failure)
        return outcome

    def _ended(self, task: asyncio.Task[OutcomeT]) -> None:
        item = self._in_progress.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            # A bug, or lack of memory. The lease expires, and an item that raises again becomes poison.
            log.error("work.raised", **self._named([item]), exc_info=error)
            self._claim_again(1)
            self._release(item)
        else:
            outcome = task.result()
            (self._large if self._stage.is_large(outcome) else self._finished).put_nowait((item, outcome))

    def _claim_again(self, slots: int) -> None:
        if self._free <= 0 < self._free + slots:
            self._free_since = self._now()
        self._free += slots
        self._freed.set()

    def _release(self, item: ItemT) -> None:
        held = self._forget(item)
        self._slots.release()
        if held.started_at is not None:
            self._plan_ahead(self._now() - held.started_at)
        self._freed.set()

    def _forget(self, item: ItemT) -> HeldLeases:
        self._tenants -= Counter([self._tenant_of(item)])  # a tenant without items is removed
        self._exclusion.released()
        return self._held.pop(id(item))

    def _plan_ahead(self, seconds: float) -> None:
        """Set the number of items to claim ahead, after an item had its slot for some seconds.

        Nothing is claimed ahead before an item ends, so that idle workers claim first.
        """
        slots = self._stage.slots
        mean = seconds if self._mean_seconds is None else self._mean_seconds
        self._mean_seconds = mean + (seconds - mean) / slots
        if self._stage.claims_ahead and self._has_backlog:
            self._ahead = int(slots * _AHEAD_SECONDS / max(_AHEAD_SECONDS, self._mean_seconds))

    async def _wait_for_slots(self, most_seconds: float = 1) -> None:
        self._freed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._freed.wait(), timeout=most_seconds)

    async def _settle_all(self) -> None:
        loops = [asyncio.create_task(self._settle_groups()), asyncio.create_task(self._settle_large())]
        try:
            await asyncio.gather(*loops)
        finally:
            for loop in loops:
                loop.cancel()

    async def _settle_groups(self) -> None:
        while True:
            group = [await self._finished.get()]
            if self._in_progress:  # outcomes that follow shortly share the transaction
                await asyncio.sleep(_GATHER_SECONDS)
            while not self._finished.empty():
                group.append(self._finished.get_nowait())
            self._claim_again(len(group))
            await self._settle(self._finished, group)

    async def _settle_large(self) -> None:
        """Settle large outcomes one by one; items that were claimed meanwhile would wait for seconds."""
        while True:
            member = await self._large.get()
            await self._settle(self._large, [member])
            self._claim_again(1)

    async def _settle(
        self, finished: asyncio.Queue[tuple[ItemT, OutcomeT]], group: Sequence[tuple[ItemT, OutcomeT]]
    ) -> None:
        await self._commit(group)
        for member, _ in group:
            self._release(member)
            finished.task_done()
        self.settled += len(group)

    async def _commit(self, group: Sequence[tuple[ItemT, OutcomeT]]) -> None:
        """Settle, and retry while the ledger is unavailable, because these outcomes are paid.

        The outcomes of a group that fails twice are settled one by one, because together they may exceed the time limit
        of a transaction. If a group raises, one outcome may be the reason, so they are settled one by one, too.

        Raises:
            Exception: it was raised for many consecutive single outcomes.
        """
        failures = 0
        while len(group) == 1 or failures < _GROUP_FAILURES:
            try:
                await self._stage.settle([outcome for _, outcome in group])
            except Transient as error:
                failures += 1
                log.warning("settlement.delayed", **self._named([item for item, _ in group]), reason=error.message)
                await asyncio.sleep(_LEDGER_PAUSE_SECONDS)
            except Permanent as error:
                if len(group) > 1:
                    break
                await self._refuse(*group[0], error)
                return
            except Exception as error:  # noqa: BLE001 - the boundary of an item: one item must not stop all others
                if len(group) > 1:
                    break
                self._raised(group[0][0], error)
                return
            else:
                self._raises = 0
                self._count([outcome for _, outcome in group])
                return
        for member in group:
            await self._commit([member])

    def _count(self, group: Sequence[OutcomeT]) -> None:
        stage = self._stage.name
        metrics.BATCH_SIZE.labels(stage).observe(len(group))
        outcomes = Counter[str]()
        for outcome in group:
            for one in _parts(outcome):
                outcomes[_kind(one)] += 1
                if isinstance(one, FailedAttempt) and isinstance(one.decision, Dead):
                    metrics.DEAD.labels(stage, one.decision.kind).inc()
        for kind, number in outcomes.items():
            metrics.SETTLED.labels(stage, kind).inc(number)

    async def _refuse(self, item: ItemT, outcome: OutcomeT, error: Permanent) -> None:
        """Record the failure of an outcome that the ledger can never record: each further attempt would be paid again.

        If the ledger cannot record the failure either, the lease expires. The outcome blocks no other.
        """
        log.error("settlement.refused", **self._named([item]), reason=error.message)
        parts = _parts(outcome)
        if len(parts) > 1:
            for part in parts:
                await self._commit([(item, cast("OutcomeT", [part]))])
            return
        (part,) = parts
        failure = part.refused(error.message) if isinstance(part, Outcome) else None
        if failure is not None:
            replacement = failure if part is outcome else [failure]
            await self._commit([(item, cast("OutcomeT", replacement))])

    def _raised(self, item: ItemT, error: Exception) -> None:
        """Log a bug in a settlement: the lease expires, and an item whose settlement raises again becomes poison.

        Raises:
            Exception: the error, if every settlement raises.
        """
        log.error("settlement.raised", **self._named([item]), exc_info=error)
        self._raises += 1
        if self._raises >= _MOST_RAISES:
            raise error

    async def _extend_all(self, settling: asyncio.Task[None]) -> None:
        """Extend the leases until settlements fail; then they expire, and other workers settle the items."""
        term = self._limits.lease.total_seconds()
        pause = term / 3
        while not settling.done():
            await asyncio.sleep(pause)
            confirmed = await self._extend(term)
            pause = term / 3 if confirmed else min(_LEDGER_PAUSE_SECONDS, term / 3)

    async def _extend(self, term: float) -> bool:
        """Extend all leases from the time of the request; return whether the ledger confirmed it for all of them.

        A connection may be silent, and a statement waits longer for its reply than a lease lasts. The next attempt uses
        another connection, and precedes the end of the leases.
        """
        requested_at, held = self._now(), list(self._held.values())
        leases = [lease for one in held for lease in one.leases]
        try:
            async with asyncio.timeout(max(_EXTEND_SECONDS, term / 3)):
                extension = await self._stage.extend(leases) if leases else LeaseExtension(())
        except (Transient, TimeoutError) as error:
            log.warning("heartbeat.failed", stage=self._stage.name, reason=str(error) or "no answer in time")
            return False
        except Exception:  # without this task, the drain would work without leases
            log.exception("heartbeat.raised", stage=self._stage.name)
            return False
        for one in held:
            one.extended(requested_at + term, extension)
        return not extension.locked

    async def _wind_down(self, settling: asyncio.Task[None]) -> None:
        """Wait for running items and commit them; release waiting items at once, and unfinished ones at the deadline.

        If settlements failed, the leases of unfinished items count as lost, so that an item that caused the failure
        becomes poison.
        """
        finishing = asyncio.create_task(self._finish())
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([finishing, stopped, settling], return_when=asyncio.FIRST_COMPLETED)
        last = [finishing]
        if not finishing.done():
            last = [asyncio.create_task(self._release_waiting()), *([] if settling.done() else [finishing])]
            await asyncio.wait(last, timeout=self._limits.grace.total_seconds())
        unfinished = list(self._in_progress.values())
        for task in (finishing, stopped, *last, *self._in_progress):
            task.cancel()
        await asyncio.gather(finishing, stopped, *last, *self._in_progress, return_exceptions=True)
        leases = [lease for held in self._held.values() for lease in held.leases]
        if leases:
            failed = settling.done()
            log.warning("claim.returned", **self._named(unfinished), failed=failed)
            with suppress(Transient):
                if failed:
                    await self._stage.expire(leases)
                else:
                    called = [lease for held in self._held.values() if held.called for lease in held.leases]
                    await self._stage.release(leases, called)

    async def _release_waiting(self) -> None:
        """Release items without a slot: they have caused nothing, and another worker may have slots for them."""
        waiting = self._waiting()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        leases = [lease for item in waiting.values() for lease in self._stage.leases_of(item)]
        if leases:
            log.info("claim.unused", **self._named(list(waiting.values())))
            with suppress(Transient):
                await self._stage.release(leases)
                for item in waiting.values():
                    self._forget(item)

    def _waiting(self) -> dict[asyncio.Task[OutcomeT], ItemT]:
        items = self._in_progress.items()
        return {task: item for task, item in items if self._held[id(item)].started_at is None}

    def _named(self, items: Sequence[ItemT]) -> dict[str, object]:
        """Return the fields of a log event that identify the rows for an operator."""
        first = self._stage.describe(items[0]) if items else {}
        return {"stage": self._stage.name, "items": len(items), **first}

    async def _finish(self) -> None:
        while self._in_progress:
            await asyncio.wait(list(self._in_progress))
        await asyncio.gather(self._finished.join(), self._large.join())


def _parts(outcome: object) -> Sequence[Any]:
    return outcome if isinstance(outcome, Sequence) else [outcome]  # an index worker's are batches


def _failure(outcome: object) -> str | None:
    """Return the kind of the first failure, or None."""
    failed = (one.decision for one in _parts(outcome) if isinstance(one, FailedAttempt))
    return next((one.kind if isinstance(one, Dead) else "retry" for one in failed), None)


def _kind(outcome: object) -> str:
    if not isinstance(outcome, FailedAttempt):
        return "done"
    return "dead" if isinstance(outcome.decision, Dead) else "retry"


def _raise_settling_error(settling: asyncio.Task[None]) -> None:
    """Raise the error that ended the settlements, without which claims are useless."""
    if settling.done():
        settling.result()
