"""The number of workers that each stage can use, for autoscalers.

The length of a queue is not sufficient: a provider's limits may be so low that one worker can do all the work. The
numbers of generate workers follow from the calls that the limits allow at the same time, which by Little's law are
their rate times the duration of a call. The numbers of parse, read and index workers follow from the work to be done
within a minute.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from math import ceil, inf

from shared.domain.errors import Unavailable
from shared.domain.queues import WORK_QUEUES, WorkQueue
from shared.domain.spending.limit_use import LimitUse
from shared.domain.spending.rates import Rates
from shared.ledger.work.demand import Demand, OpenRows

_WITHIN_SECONDS = 60.0  # time in which the wanted workers parse, read or index the rows that are due now
_FIRST_MEAN_SECONDS = {"parse": 1.0, "read": 2.0, "index": 1.0}  # until a row has been finished
_NEWEST_SHARE = 0.3  # weight of the newest measurement in a mean
_TOKENS_A_CALL = 1_000.0  # until a call has been counted
_MOST_COUNTED = 200_000  # rows of a lane: about 0.1 s


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Recent calls of the language model.

    Args:
        latency_seconds: duration of a call; None before the first one.
        tokens: mean tokens of a call; None before the first one.
        in_flight: calls in flight beyond which the provider has refused calls; None if it never did.
    """

    latency_seconds: float | None = None
    tokens: float | None = None
    in_flight: int | None = None


def calls_in_flight(rates: Rates, times: CallTimes) -> float:
    """Return the number of calls that declared limits allow at the same time; infinite without limits.

    It is 0 until a call was measured: one worker makes the first calls.
    """
    if not rates.declared:
        return inf
    if times.latency_seconds is None:
        return 0.0
    calls = [] if rates.requests is None else [float(rates.requests)]
    if rates.tokens is not None:
        calls.append(rates.tokens / (times.tokens or _TOKENS_A_CALL))
    return min(calls) / rates.window.seconds * times.latency_seconds


def generate_workers(
    rows: Mapping[str, int], rates: Rates, rates_of: Callable[[str], Rates], times: CallTimes, *, slots: int
) -> int:
    """Return the number of generate workers that the rows and the limits allow.

    Args:
        rows: rows by tenant that are due or in progress.
        rates: limits of the provider.
        rates_of: returns a tenant's own limits.
        times: recent calls.
        slots: calls in flight of one worker.
    """
    allowed = min(calls_in_flight(rates, times), inf if times.in_flight is None else times.in_flight)
    usable = sum(min(count, calls_in_flight(rates_of(tenant), times)) for tenant, count in rows.items())
    return ceil(min(usable, allowed) / slots)


def workers_within_a_minute(rows: int, mean_seconds: float, *, slots: int) -> int:
    """Return the number of workers that finish the rows within a minute."""
    return ceil(rows * mean_seconds / _WITHIN_SECONDS / slots)


class MeanSeconds:
    """The mean time of a row in a worker's slot, by Little's law: rows in progress divided by their rate."""

    def __init__(self, first: float) -> None:
        self.seconds = first
        self._is_measured = False

    def measure(self, leased: int, finished_per_second: float) -> None:
        """Add a measurement; it is ignored if no work is in progress or none has finished."""
        if not leased or not finished_per_second:
            return
        newest = leased / finished_per_second
        self.seconds += (newest - self.seconds) * (_NEWEST_SHARE if self._is_measured else 1)
        self._is_measured = True


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """The workers of a deployment, as the settings describe them.

    Args:
        slots: rows in progress of one worker, by stage.
        most: maximum number of workers of a stage.
        embeddings: embeddings that index workers serve; None: unknown.
        rates: limits of the language model's provider.
        rates_of: returns a tenant's own limits of the language model.
        uses_flex: whether calls are made in the service tier flex.
        flex_wait: time without capacity in this tier after which they are made in the standard tier; None: never.
    """

    slots: Mapping[WorkQueue, int]
    most: int
    embeddings: Sequence[str] | None
    rates: Rates
    rates_of: Callable[[str], Rates]
    uses_flex: bool = False
    flex_wait: timedelta | None = None


class WantedWorkers:
    """Computes the wanted numbers of workers repeatedly.

    Args:
        demand: rows in the ledger.
        pool: the workers.
        usage: reads the use of the language model's limits.
    """

    def __init__(
        self,
        demand: Demand,
        pool: WorkerPool,
        usage: Callable[[], Awaitable[Sequence[LimitUse]]],
    ) -> None:
        self._demand = demand
        self._pool = pool
        self._usage = usage
        self._times = CallTimes()
        self._means = {stage: MeanSeconds(first) for stage, first in _FIRST_MEAN_SECONDS.items()}

    async def update(self) -> Mapping[WorkQueue, int]:
        """Compute the wanted number of workers of each stage, and store them in the ledger.

        It is at least 1, except for read workers: a deployment without OCR has none, and the stage is missing while no
        page waits.

        While the broker is unavailable, the last measured calls count, because the rows are in the ledger.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        finished = await self._demand.finished_per_second()
        wanted: dict[WorkQueue, int] = {
            "parse": await self._within_a_minute("parse", finished["parse"]),
            "read": await self._within_a_minute("read", finished["read"]),
            "generate": await self._generate(),
            "index": await self._within_a_minute("index", finished["index"]),
        }
        needed = [stage for stage in WORK_QUEUES if wanted[stage] or stage != "read"]
        bounded = {stage: max(1, min(wanted[stage], self._pool.most)) for stage in needed}
        await self._demand.record(bounded)
        return bounded

    async def _generate(self) -> int:
        pool, slots = self._pool, self._pool.slots["generate"]
        rows = await self._demand.rows("generate", pool.most * slots)
        with suppress(Unavailable):
            self._times = call_times(await self._usage(), pool)
        return generate_workers(_sums(rows), pool.rates, pool.rates_of, self._times, slots=slots)

    async def _within_a_minute(self, stage: WorkQueue, finished_per_second: float) -> int:
        pool, mean, slots = self._pool, self._means[stage], self._pool.slots[stage]
        enough = ceil(pool.most * slots * _WITHIN_SECONDS / mean.seconds)
        rows = await self._demand.rows(stage, min(enough, _MOST_COUNTED), embeddings=pool.embeddings)
        mean.measure(sum(each.leased for each in rows.values()), finished_per_second)
        return workers_within_a_minute(sum(_sums(rows).values()), mean.seconds, slots=slots)


def _sums(rows: Mapping[str, OpenRows]) -> dict[str, int]:
    return {tenant: each.due + each.leased for tenant, each in rows.items()}


def flex_limit(use: LimitUse, pool: WorkerPool) -> int | None:
    """Return the calls in flight for which the tier flex has capacity; None if it does not limit the calls."""
    is_dry = use.flex_pause > timedelta(0)
    if not pool.uses_flex or (is_dry and not use.defers_flex(pool.flex_wait)):
        return None
    return use.flex_limit


def call_times(uses: Sequence[LimitUse], pool: WorkerPool) -> CallTimes:
    """Return the recent calls from the use of the limits; unknown without shared limits."""
    used = {use.unit: use.used for use in reversed(uses)}
    if not uses:
        return CallTimes()
    first = uses[0]
    limits = (first.in_flight_limit if first.in_flight_lowered else None, flex_limit(first, pool))
    return CallTimes(
        latency_seconds=None if first.latency is None else first.latency / timedelta(seconds=1),
        tokens=used["tokens"] / used["requests"] if used.get("requests") else None,
        in_flight=min((limit for limit in limits if limit is not None), default=None),
    )
