"""One process's requests to the shared script: each transfers all waiting calls and all finished calls."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from uuid import uuid4

import structlog
from redis.exceptions import RedisError

from shared.domain.durations import duration
from shared.domain.errors import ForeaskError, NoCapacity, RateLimited, Unavailable
from shared.domain.spending.rates import Bucket
from shared.process.network import problem_of
from shared.process.telemetry.metrics import BREAKER
from shared.providers.limiter.kept_slots import KeptSlots
from shared.providers.limiter.script import (
    Blocked,
    Breaker,
    CallKind,
    CallOutcome,
    FinishedCall,
    Grant,
    LimiterReply,
    LimiterScript,
    ScriptAnswer,
    SlotRequest,
    Wait,
)

_QUIET_SECONDS = 0.005  # between two calls of the script: requests that arrive meanwhile share the next one
_LINGER_SECONDS = 0.02  # a call that ended well is reported within this time
_ASK_AGAIN_SECONDS = (0.05, 1.0)  # the shortest and the longest pause before a request that must wait is repeated
_UNAVAILABLE_PAUSE_SECONDS = 0.25
_UNAVAILABLE_SECONDS = 5.0  # if the broker is unavailable for longer, waiting calls fail
_LONG_COOLDOWN_SECONDS = 5.0  # a call that would wait for longer waits in the ledger instead
_AT_MOST = 64  # requests in one call of the script
_AT_LEAST = 8
_DIGITS = re.compile(r"\d+")
_STATE_SECONDS = 90.0  # an open breaker is polled more often: by waiting work, at least every minute

log = structlog.get_logger()


@dataclass(slots=True)
class _Waiter:
    request: SlotRequest
    granted: asyncio.Future[Grant]
    since: float


@dataclass(slots=True)
class _Line:
    """The waiting calls of one kind and tenant, in order of arrival.

    Args:
        kind: their kind.
        waiters: the calls.
        not_before: time until which the tenant's own limits defer them.
        own_wait: deferral by these limits at the last request, in seconds; 0 if none.
    """

    kind: CallKind
    waiters: deque[_Waiter] = field(default_factory=deque)
    not_before: float = 0.0
    own_wait: float = 0.0


@dataclass(slots=True)
class _Batch:
    waiters: list[_Waiter]
    ended: list[tuple[FinishedCall, asyncio.Future[LimiterReply | None] | None]]
    renew: list[str]
    returned: list[str]
    peeks: list[asyncio.Future[None]]


class LimiterClient:
    """Requests slots for calls, reports finished calls, and renews running ones.

    Args:
        script: the shared script.
        tenant_buckets: function from a tenant to its own limits, or None.
        component: the provider, for messages.
        lease_seconds: time for which the script counts a call as in flight without renewal.
        provider: label that distinguishes providers of a component in metrics.
        keeps_slots: whether the slot of a finished query may serve the next one; only without a declared rate, because
            a kept slot contains no request of a rate.
        now: clock in monotonic seconds.
    """

    def __init__(
        self,
        script: LimiterScript,
        tenant_buckets: Callable[[str], tuple[Bucket, Bucket] | None],
        component: str,
        lease_seconds: float,
        *,
        provider: str = "",
        keeps_slots: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._renew_seconds = lease_seconds / 3
        self._script = script
        self._tenant_buckets = tenant_buckets
        self._component = component
        self._kept = KeptSlots()
        self._keeps_slots = keeps_slots
        self._names = (f"{prefix}:{number}" for prefix in [uuid4().hex[:12]] for number in count())
        self._lines: OrderedDict[tuple[str, CallKind], _Line] = OrderedDict()  # the next caller is first
        self._granted_calls: set[str] = set()
        self._ended: list[tuple[FinishedCall, asyncio.Future[LimiterReply | None] | None]] = []
        self._peeks: list[asyncio.Future[None]] = []
        self._wake = asyncio.Event()
        self._due_at = float("inf")
        self._not_before = 0.0  # the provider's limits hold everything back until then
        self._renew_at = 0.0
        self._granted_lately = _AT_MOST
        self._task: asyncio.Task[None] | None = None
        self._unavailable_since: float | None = None
        self._logged_kind = ""  # reason of the logged pause, without its numbers, which change with each call
        self._ending = False
        self._closed: Callable[[], ForeaskError] | None = None
        self.reply: LimiterReply | None = None
        self.replied_at = 0.0
        BREAKER.labels(component, provider).set_function(self._shown)

    @property
    def waiting(self) -> int:
        return sum(len(line.waiters) for line in self._lines.values())

    def own_wait_seconds(self, tenant: str, kind: CallKind) -> float:
        """Return the seconds for which a tenant's own limits delay its calls; 0 if they do not."""
        line = self._lines.get((tenant, kind))
        return 0.0 if line is None else line.own_wait

    async def acquire(
        self, tenant: str, prompt_tokens: int, completion_tokens: int | None, kind: CallKind = CallKind.INGEST
    ) -> Grant:
        """Wait for a grant of one call.

        Raises:
            RateLimited: the provider asked for a pause that is too long to wait for here.
            NoCapacity: the tier flex pauses for so long, because the provider has no capacity left in it.
            Unavailable: the breaker is open, or the broker has been unavailable for too long.
            ForeaskError: the error of `fail`.
        """
        if self._closed is not None:
            raise self._closed()
        now = self._now()
        request = SlotRequest(next(self._names), tenant, prompt_tokens, completion_tokens, kind)
        waiter = _Waiter(request, asyncio.get_running_loop().create_future(), now)
        self._lines.setdefault((tenant, kind), _Line(kind)).waiters.append(waiter)
        self._wake_by(now if kind is CallKind.QUERY else max(now, self._not_before))
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            if waiter.granted.done() and not waiter.granted.cancelled() and waiter.granted.exception() is None:
                self.end(FinishedCall(waiter.granted.result(), CallOutcome.ABANDONED, tokens=0))
            raise

    def reuse(self, tenant: str, tokens: int, kind: CallKind) -> Grant | None:
        """Return a kept slot for a query with these estimated tokens; None if the script must be asked."""
        if self._closed is not None or not self._may_keep(tenant, kind):
            return None
        return self._kept.take(tenant, tokens, self._now())

    def end(self, ended: FinishedCall) -> None:
        """Report the end of a call; returns at once."""
        if self._may_keep(ended.grant.tenant, ended.grant.kind) and self._kept.keep(ended, self._now()):
            self._ended.append((replace(ended, keeps_slot=True), None))
            self._wake_by(self._kept.valid_until)
            return
        self._ended.append((ended, None))
        self._granted_calls.discard(ended.grant.id)
        freed = self._lines and self.reply is not None and self.reply.in_flight_limit
        self._wake_by(self._now() + (0 if freed else _LINGER_SECONDS))

    async def end_failed(self, ended: FinishedCall, timeout_seconds: float) -> LimiterReply | None:
        """Report a failed call, and return the script's reply; None if it does not arrive in time."""
        reported: asyncio.Future[LimiterReply | None] = asyncio.get_running_loop().create_future()
        self._kept.return_all()  # after a 429 no call may start
        self._ended.append((ended, reported))
        self._granted_calls.discard(ended.grant.id)
        self._wake_by(self._now())
        await asyncio.wait([reported], timeout=timeout_seconds)
        return reported.result() if reported.done() else None

    async def refresh(self, timeout_seconds: float) -> bool:
        """Read the state again; return whether the broker answered in time."""
        peek: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._peeks.append(peek)
        self._wake_by(self._now())
        await asyncio.wait([peek], timeout=timeout_seconds)
        if peek.done():
            return True
        peek.cancel()
        return False

    def fail(self, error: Callable[[], ForeaskError]) -> None:
        """Fail every call that waits, now or later, with an error."""
        self._closed = error
        for waiter in self._all_waiters():
            _raise(waiter, error())
        self._lines.clear()

    async def aclose(self, timeout_seconds: float = 1.0) -> None:
        """Report the finished calls, within a short timeout, and stop."""
        if self._task is None:
            return
        deadline = self._now() + timeout_seconds
        self._kept.return_all()
        while (self._ended or self._kept.returned) and self._unavailable_since is None and self._now() < deadline:
            await self.refresh(timeout_seconds)
        # A client that is cancelled while it connects may treat that as a failure and try again.
        self._ending = True
        self._task.cancel()
        await asyncio.wait([self._task], timeout=timeout_seconds)

    def _wake_by(self, at: float) -> None:
        if self._task is None or self._task.done():
            # It serves all callers, so its log lines must not carry the first caller's ids.
            self._task = asyncio.create_task(self._run(), name=f"limiter-{self._component}", context=Context())
        if at < self._due_at:
            self._due_at = at
            self._wake.set()

    async def _run(self) -> None:
        while not self._ending:
            await self._until_due()
            batch = self._batch()
            try:
                reply = await self._script(
                    [waiter.request for waiter in batch.waiters],
                    [ended for ended, _ in batch.ended],
                    batch.renew,
                    self._buckets(batch),
                    batch.returned,
                )
            except (RedisError, OSError) as error:
                await self._on_broker_lost(batch, error)
                continue
            self._apply(batch, reply)
            await asyncio.sleep(_QUIET_SECONDS)

    async def _until_due(self) -> None:
        while not self._ending and (pause := self._due_at - self._now()) > 0:
            self._wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), timeout=None if pause == float("inf") else pause)
        self._due_at = float("inf")

    def _batch(self) -> _Batch:
        now = self._now()
        renew: list[str] = []
        if now >= self._renew_at:
            renew, self._renew_at = list(self._granted_calls), now + self._renew_seconds
        returned = self._kept.take_returned(now)
        self._granted_calls.difference_update(returned)
        batch = _Batch(list(self._next_in_turn(now)), self._ended, renew, returned, self._peeks)
        self._ended, self._peeks = [], []
        return batch

    def _next_in_turn(self, now: float) -> Iterator[_Waiter]:
        """Yield about as many waiting calls as the script will grant: queries first, tenants in rotation."""
        lines = []
        for key in list(self._lines):
            line = self._lines[key]
            while line.waiters and line.waiters[0].granted.done():
                line.waiters.popleft()
            if not line.waiters:
                del self._lines[key]
            elif now >= line.not_before:
                lines.append(line)
        lines.sort(key=lambda line: line.kind is not CallKind.QUERY)
        left = min(_AT_MOST, max(_AT_LEAST, 2 * self._granted_lately))
        depth = 0
        while left > 0 and (lines := [line for line in lines if len(line.waiters) > depth]):
            for line in lines[:left]:
                if not line.waiters[depth].granted.done():
                    yield line.waiters[depth]
            left -= len(lines)
            depth += 1

    def _buckets(self, batch: _Batch) -> dict[str, tuple[Bucket, Bucket]]:
        tenants = {w.request.tenant for w in batch.waiters} | {e.grant.tenant for e, _ in batch.ended}
        return {tenant: buckets for tenant in tenants if (buckets := self._tenant_buckets(tenant)) is not None}

    def _apply(self, batch: _Batch, reply: LimiterReply) -> None:
        now = self._now()
        if self._unavailable_since is not None:
            log.info("limiter.restored", component=self._component)
            self._unavailable_since = None
        self._log_change(reply)
        self.reply, self.replied_at = reply, now
        self._kept.learn(reply, now)
        for peek in batch.peeks:
            if not peek.done():
                peek.set_result(None)
        for _, reported in batch.ended:
            if reported is not None and not reported.done():
                reported.set_result(reply)
        granted = 0
        for waiter, answer in zip(batch.waiters, reply.answers, strict=True):
            granted += isinstance(answer, Grant)
            self._answer(waiter, answer, reply, now)
        if batch.waiters:
            self._granted_lately = granted
        if reply.cooldown_seconds > _LONG_COOLDOWN_SECONDS:
            self._fail_waiters(reply)
        if reply.flex_wait_seconds > _LONG_COOLDOWN_SECONDS:
            self._fail_flex_waiters(reply)
        self._plan(reply, now)

    def _log_change(self, reply: LimiterReply) -> None:
        before = self.reply.breaker if self.reply is not None else Breaker.CLOSED
        if reply.breaker != before:
            state = reply.breaker.name.lower()
            log.warning("breaker.changed", component=self._component, state=state, reason=reply.reason)
        pauses = reply.breaker is not Breaker.CLOSED or reply.cooldown_seconds > _LONG_COOLDOWN_SECONDS
        kind = _DIGITS.sub("", reply.reason)
        if pauses and kind not in {"", self._logged_kind}:
            self._logged_kind = kind
            seconds = round(max(reply.pause_seconds, reply.cooldown_seconds))
            log.warning("calls.paused", component=self._component, reason=reply.reason, seconds=seconds)
        elif not kind and self._logged_kind:
            log.info("calls.resumed", component=self._component)
            self._logged_kind = ""

    def _shown(self) -> float:
        """Return the breaker state for metrics; closed if this process has no recent state, because nothing waits."""
        reply = self.reply
        if reply is None or self._now() - self.replied_at > _STATE_SECONDS:
            return Breaker.CLOSED
        return reply.breaker

    def _answer(self, waiter: _Waiter, answer: ScriptAnswer, reply: LimiterReply, now: float) -> None:
        key = (waiter.request.tenant, waiter.request.kind)
        line = self._lines.get(key)
        match answer:
            case Grant():
                if waiter.granted.done():  # its caller has been cancelled meanwhile
                    self.end(FinishedCall(answer, CallOutcome.ABANDONED, tokens=0))
                    return
                self._granted_calls.add(answer.id)
                waiter.granted.set_result(answer)
                if line is not None:
                    self._lines.move_to_end(key)
            case Blocked():
                _raise(waiter, is_down(self._component, reply))
            case Wait(tenant=True, seconds=seconds) if line is not None:
                line.not_before, line.own_wait = now + _between(seconds), seconds
            case Wait() if line is not None:
                line.own_wait = 0.0
                if line.kind is CallKind.FLEX and reply.flex_wait_seconds > 0:
                    line.not_before = now + _between(reply.flex_wait_seconds)

    def _fail_waiters(self, reply: LimiterReply) -> None:
        for waiter in self._all_waiters():
            wait = timedelta(seconds=reply.cooldown_seconds + random.uniform(0, 2))  # noqa: S311  jitter
            _raise(waiter, RateLimited(paused(self._component, reply), retry_after=wait))

    def _fail_flex_waiters(self, reply: LimiterReply) -> None:
        for line in self._lines.values():
            for waiter in line.waiters if line.kind is CallKind.FLEX else ():
                _raise(waiter, no_capacity(self._component, reply))

    def _plan(self, reply: LimiterReply, now: float) -> None:
        """Choose when to call the script next without a new request."""
        waiting = [line for line in self._lines.values() if any(not w.granted.done() for w in line.waiters)]
        self._not_before = now + _between(reply.wait_seconds) if reply.wait_seconds > 0 else 0.0
        if waiting:
            self._wake_by(max(self._not_before, min(line.not_before for line in waiting)))
        if self._granted_calls:
            self._wake_by(self._renew_at)
        if self._kept.free:
            self._wake_by(self._kept.valid_until)
        if self._peeks or self._kept.returned or any(not ended.keeps_slot for ended, _ in self._ended):
            self._wake_by(now)

    async def _on_broker_lost(self, batch: _Batch, error: Exception) -> None:
        """Keep the reports of finished calls; no call starts while the broker is unavailable."""
        now = self._now()
        if self._unavailable_since is None:
            reason = problem_of(error)
            log.warning("limiter.lost", component=self._component, kind=type(error).__name__, reason=reason)
            self._unavailable_since = now
        self._ended = batch.ended + self._ended
        self._kept.return_all()
        self._kept.returned += batch.returned
        self._peeks = batch.peeks + self._peeks
        for waiter in self._all_waiters():
            if now - max(waiter.since, self._unavailable_since) >= _UNAVAILABLE_SECONDS:
                _raise(waiter, _without_broker(error))
        await asyncio.sleep(_UNAVAILABLE_PAUSE_SECONDS)
        self._renew_at = 0.0
        self._wake_by(now)

    def _may_keep(self, tenant: str, kind: CallKind) -> bool:
        """Return whether a call may use or keep a slot that the script does not see change hands."""
        if not self._keeps_slots or kind is not CallKind.QUERY or self._tenant_buckets(tenant) is not None:
            return False
        return all(waiter.granted.done() for waiter in self._all_waiters())

    def _all_waiters(self) -> Iterator[_Waiter]:
        for line in self._lines.values():
            yield from line.waiters


def _raise(waiter: _Waiter, error: ForeaskError) -> None:
    if not waiter.granted.done():
        waiter.granted.set_exception(error)


def _between(seconds: float) -> float:
    """Return the seconds until the next request: random, so that processes do not send at the same time."""
    shortest, longest = _ASK_AGAIN_SECONDS
    return min(longest, max(seconds, random.uniform(shortest, 2 * shortest)))  # noqa: S311  jitter


def _without_broker(error: Exception) -> Unavailable:
    reason = problem_of(error)
    message = "the broker, which keeps the limits, cannot be reached" + (f": {reason}" if reason else "")
    return Unavailable(message, component="broker")


def is_down(component: str, reply: LimiterReply) -> Unavailable:
    """Return the error of a call while the breaker is open; the attempt does not count."""
    wait = timedelta(seconds=reply.pause_seconds + random.uniform(0, 2))  # noqa: S311  jitter
    cause = f"; the last failure: {reply.reason}" if reply.reason else ""
    return Unavailable(
        f"the {component} provider has failed repeatedly, so it is not called for a while{cause}",
        component=component,
        retry_after=wait,
    )


def paused(component: str, reply: LimiterReply) -> str:
    """Return the message of calls that wait for the end of a cooldown, with its reason."""
    pause = duration(max(1, reply.cooldown_seconds))
    if reply.reason:
        return f"{reply.reason}; the next call is made in {pause}"
    return f"calls of the {component} provider pause for {pause}"


def no_capacity(component: str, reply: LimiterReply, asked: timedelta | None = None) -> NoCapacity:
    """Return the error of a call in the tier flex while no capacity is left; the attempt does not count.

    Args:
        component: the provider.
        reply: the script's reply, whose pause grows with each refusal.
        asked: pause that the provider asked for.
    """
    wait = timedelta(seconds=reply.flex_wait_seconds * random.uniform(1, 2))  # noqa: S311  jitter
    return NoCapacity(
        f"the {component} provider has no capacity left in the service tier flex: the call is repeated later",
        retry_after=max(wait, asked or timedelta()),
    )
