"""A provider's limits, shared by all its callers: requests, tokens, calls in flight, cooldown and breaker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from shared.domain.errors import (
    ForeaskError,
    InterruptedReply,
    Misconfigured,
    NoCapacity,
    RateLimited,
    Refused,
    Stopping,
    TenantLimited,
    TimedOut,
    Transient,
    Unavailable,
    UnsupportedTier,
    UnusableReply,
)
from shared.domain.spending.rates import Bucket, Rates
from shared.process.identity import connection_name
from shared.process.network.brokers import read_broker_url
from shared.process.network.problems import problem_of
from shared.process.telemetry.metrics import LIMITER_SECONDS
from shared.providers.limiter.client import LimiterClient, is_down, no_capacity, paused
from shared.providers.limiter.endings import Endings
from shared.providers.limiter.judge import Judge, Neutral, NeutralCall, as_configuration, is_doubtful
from shared.providers.limiter.pictures import Pictures
from shared.providers.limiter.script import (
    Breaker,
    CallKind,
    CallOutcome,
    FinishedCall,
    Grant,
    LimiterScript,
    Terms,
    Timing,
)

_CACHE_SECONDS = 1.0  # validity of the cached state
_REFRESH_SECONDS = 0.5
_PAUSING_COOLDOWN_SECONDS = 1.0  # a shorter one is waited for on the spot
_FAILURES_KEPT = timedelta(hours=1)
_PLAIN_TOKENS = 20  # of the prompt and of the reply of the plain neutral call
_CAPACITY_SECONDS = 5.0  # time at the declared rate for which work is claimed in advance

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class MaxWait:
    """The maximum wait of a caller for a permit.

    Args:
        at_most: limit after which it fails with `RateLimited`; None waits as long as needed.
        broker: wait for an unavailable broker before it calls without a permit; None never does.
        kind: kind of its calls.
    """

    at_most: timedelta | None = None
    broker: timedelta | None = None
    kind: CallKind = CallKind.INGEST


INGEST = MaxWait()  # fails closed: work can wait, a limit is a promise
# Fails open: it is interactive and a single call.
QUERY = MaxWait(timedelta(seconds=5), timedelta(seconds=0.5), CallKind.QUERY)
# Waits in the ledger after a minute, because a call in flight may take 15, and another tier may be free.
FLEX = MaxWait(timedelta(minutes=1), kind=CallKind.FLEX)


@dataclass(slots=True)
class Call:
    """A granted call; report its usage when the provider has returned it."""

    tokens: int | None = None
    completion_tokens: int | None = None

    def took(self, prompt_tokens: int, completion_tokens: int) -> None:
        if prompt_tokens + completion_tokens > 0:
            self.tokens, self.completion_tokens = prompt_tokens + completion_tokens, completion_tokens


@dataclass(frozen=True, slots=True)
class ProviderLimits:
    """The limits of a provider.

    Args:
        component: `llm` or `embedding`, for messages.
        provider: key that distinguishes providers in the shared state; contains no secret.
        rates: limits of the provider.
        tenant_rates: default limits of each tenant.
        tenants: limits of tenants that differ from the default.
        in_flight: initial number of calls in flight, if no rate of requests is declared.
        probe_timeout: timeout of the first call to a provider that was unavailable.
        timing: waits of the limiter.
        query_share: share of the limits that is reserved for queries.
    """

    component: str
    provider: str
    rates: Rates = field(default_factory=Rates)
    tenant_rates: Rates = field(default_factory=Rates)
    tenants: Mapping[str, Rates] = field(default_factory=dict)
    in_flight: int = 64
    probe_timeout: timedelta = timedelta(seconds=30)
    timing: Timing = field(default_factory=Timing)
    query_share: float = 0.0

    def for_tenant(self, tenant: str) -> Rates:
        return self.tenants.get(tenant, self.tenant_rates)


def connect(redis_url: str) -> Redis:
    """Create the connection for a limiter's shared state; close it after the limiter.

    It never retries a command: the limiter's client does that itself, and a waiting caller must be notified soon that
    the broker is unavailable.
    """
    url, tls = read_broker_url(redis_url)
    return Redis.from_url(
        url,
        **tls,
        socket_timeout=2,
        socket_connect_timeout=2,
        retry=Retry(NoBackoff(), 0),
        client_name=connection_name("limits"),
    )


class Limiter:
    """Enforces one provider's limits together with all other processes.

    Args:
        redis: connection to the shared state; not closed here.
        limits: the limits.
        probe: makes a tiny neutral call, to check whether a failed provider has recovered.
        now: clock in monotonic seconds.
    """

    def __init__(
        self,
        redis: Redis,
        limits: ProviderLimits,
        probe: Callable[[], Awaitable[object]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.redis = redis
        self._now = now
        self.limits = limits
        self._waited = LIMITER_SECONDS.labels(limits.component)
        self._probe = probe
        self._requests_a_millisecond = limits.rates.buckets()[0][0]
        self._tenant_buckets: dict[str, tuple[Bucket, Bucket] | None] = {}
        terms = Terms(
            limits.provider,
            limits.rates.buckets(),
            limits.in_flight,
            limits.probe_timeout.total_seconds() + 5,
            limits.timing,
            limits.query_share,
        )
        self.script = LimiterScript(redis, terms)
        self.endings = Endings(redis, self.script.key)
        self._client = LimiterClient(
            self.script,
            self._buckets_of,
            limits.component,
            limits.timing.lease.total_seconds(),
            provider=limits.provider,
            keeps_slots=not limits.rates.declared,
            now=now,
        )
        self._judge = Judge(limits.component, self._ask, now)
        self.pictures = Pictures(now)

    @asynccontextmanager
    async def call(
        self,
        tenant: str,
        prompt_tokens: int,
        completion_tokens: int | None,
        max_wait: MaxWait = INGEST,
        neutral: Neutral | None = None,
    ) -> AsyncIterator[Call]:
        """Make one call to the provider inside this context, once every limit allows it.

        With `neutral`, a refusal or a failure is raised as an error of the text or of the configuration.

        Args:
            tenant: tenant charged for the call.
            prompt_tokens: estimated tokens of the prompt.
            completion_tokens: maximum tokens of the reply; None if the request sets no limit.
            max_wait: maximum wait for the grant.
            neutral: the same call without its text.

        Raises:
            Refused: with `neutral`: the provider rejects the text. `FailsOnText` if it fails on it.
            Misconfigured: with `neutral`: it refuses calls of this form with any text.
            RateLimited: the grant would arrive too late; the attempt does not count. `TenantLimited` if the tenant's
                own limits are the reason.
            NoCapacity: the same in the tier flex, because the provider has no capacity left in it.
            Unavailable: the breaker is open, or the broker is unavailable; the attempt does not count.
            Stopping: the process is stopping.
        """
        started = time.perf_counter()
        try:
            if neutral is not None:
                await self._judge.require(neutral)
            grant = await self._granted(tenant, prompt_tokens, completion_tokens, max_wait)
        finally:
            self._waited.observe(time.perf_counter() - started)
        call, sent_at = Call(), self._now()
        try:
            yield call
        except ForeaskError as error:
            if neutral is not None and is_doubtful(error, of_batch=neutral.is_of_batch):
                await self._judged(grant, call, error, neutral, sent_at)
            else:
                await self._failed(grant, call, error)
            raise
        except BaseException:
            self._end(grant, CallOutcome.ABANDONED, call)
            raise
        else:
            self._end(grant, CallOutcome.OK, call)
            if neutral is not None:
                self._judge.passed(neutral, sent_at)

    async def paused(self, kind: CallKind = CallKind.INGEST) -> bool:
        """Return whether work claimed now could not start.

        The provider is paused, it refuses calls of this kind with any text, or the broker does not answer.
        """
        if self._judge.is_stalled(kind):
            return True
        if self._now() - self._client.replied_at > _CACHE_SECONDS and not await self._client.refresh(_REFRESH_SECONDS):
            return True
        reply = self._client.reply
        assert reply is not None
        left = max(reply.pause_seconds, reply.cooldown_seconds - _PAUSING_COOLDOWN_SECONDS)
        if kind is CallKind.FLEX:
            left = max(left, reply.flex_wait_seconds - _PAUSING_COOLDOWN_SECONDS)
        return self._client.replied_at + left > self._now()

    def has_no_flex(self, least: timedelta) -> bool:
        """Return whether the provider has refused all calls in the tier flex for this time, and none may start now."""
        reply = self._client.reply
        if reply is None or reply.flex_dry_seconds < least.total_seconds():
            return False
        return self._client.replied_at + reply.flex_wait_seconds > self._now()

    def capacity(self, calls: int) -> int:
        """Return the number of further calls to claim now: calls that the declared rate allows within seconds."""
        if self._requests_a_millisecond == 0:
            return calls
        ahead = ceil(self._requests_a_millisecond * 1000 * _CAPACITY_SECONDS)
        return max(0, min(calls, ahead - self._client.waiting))

    async def count_failure(self, text: str) -> int:
        """Count a failure on a text, named by a digest, and return their number within the last hour.

        Only the first one is known without the broker.
        """
        key = self.script.key(f"failed:{text}")
        try:
            async with self.redis.pipeline() as pipeline:
                pipeline.incr(key)
                pipeline.expire(key, _FAILURES_KEPT)
                count, _ = await pipeline.execute()
        except (RedisError, OSError) as error:
            log.warning("failure.uncounted", component=self.limits.component, reason=problem_of(error))
            return 1
        return int(count)

    def stop(self) -> None:
        """Start no more calls: every waiting or later call fails with `Stopping`."""
        self._client.fail(Stopping)

    async def aclose(self) -> None:
        self.stop()
        await self._judge.aclose()
        await self._client.aclose()

    async def _granted(
        self, tenant: str, prompt_tokens: int, completion_tokens: int | None, max_wait: MaxWait
    ) -> Grant | None:
        """Wait for a grant that is not a probe; None if the call is made without a grant."""
        kept = self._client.reuse(tenant, prompt_tokens + (completion_tokens or 0), max_wait.kind)
        if kept is not None:
            return kept
        while True:
            grant = await self._acquired(tenant, prompt_tokens, completion_tokens, max_wait)
            if grant is None or not grant.probe:
                return grant
            await self._try(grant)

    async def _acquired(
        self, tenant: str, prompt_tokens: int, completion_tokens: int | None, max_wait: MaxWait
    ) -> Grant | None:
        acquiring = self._client.acquire(tenant, prompt_tokens, completion_tokens, max_wait.kind)
        if max_wait.at_most is None:
            return await acquiring
        started = self._now()
        waiting = asyncio.ensure_future(acquiring)
        try:
            if max_wait.broker is not None:
                reached = await self._client.refresh(max_wait.broker.total_seconds())
                if not reached and not waiting.done():
                    log.warning("limiter.bypassed", component=self.limits.component, tenant=tenant)
                    return None
            await asyncio.wait([waiting], timeout=max_wait.at_most.total_seconds() - (self._now() - started))
            if not waiting.done():
                raise self._too_late(tenant, max_wait.kind)
            return await waiting
        finally:
            waiting.cancel()

    def _too_late(self, tenant: str, kind: CallKind) -> RateLimited | NoCapacity:
        own = self._client.own_wait_seconds(tenant, kind)
        if own > 0:
            return TenantLimited(
                f"this tenant's own limits of the {self.limits.component} provider are used up now",
                retry_after=timedelta(seconds=max(1.0, own)),
            )
        reply = self._client.reply
        if kind is CallKind.FLEX and reply is not None and reply.flex_wait_seconds > 0:
            return no_capacity(self.limits.component, reply)
        wait = timedelta(seconds=max(1.0, reply.wait_seconds if reply is not None else 0.0))
        if reply is not None and reply.cooldown_seconds > 0:
            return RateLimited(paused(self.limits.component, reply), retry_after=wait)
        return RateLimited(f"the {self.limits.component} provider's limits are used up now", retry_after=wait)

    async def _try(self, grant: Grant) -> None:
        """Check by the plain neutral call whether the provider has recovered."""
        error = await self._error_of(grant, self._probe)
        if isinstance(error, Transient):
            await self._failed(grant, Call(), error)
        else:  # if it refuses this request, it answers
            self._end(grant, CallOutcome.OK, Call())

    async def _error_of(self, grant: Grant | None, neutral: Callable[[], Awaitable[object]]) -> ForeaskError | None:
        """Make a neutral call under a grant, and return its error; report its end only if it is cancelled."""
        component = self.limits.component
        try:
            async with asyncio.timeout(self.limits.probe_timeout.total_seconds()):
                await neutral()
        except TimeoutError:
            return TimedOut(f"the {component} provider did not answer in time", component=component, answered=True)
        except ForeaskError as error:
            return error
        except BaseException:
            self._end(grant, CallOutcome.ABANDONED, Call())
            raise
        return None

    async def _judged(
        self, grant: Grant | None, call: Call, error: ForeaskError, neutral: Neutral, sent_at: float
    ) -> None:
        """Raise the cause of a doubtful error, unless it is the error itself.

        The call's slot is released first, because the neutral call needs one.
        """
        self._end(grant, CallOutcome.ABANDONED, call)
        cause = await self._judge.cause(error, neutral, sent_at)
        is_failure = cause is error and isinstance(error, Unavailable)
        if is_failure or isinstance(error, TimedOut):  # a timeout lowers the number of calls in flight
            await self._failed(grant, call, error)
        if cause is not error:
            raise cause from error

    async def _ask(self, neutral: Neutral) -> NeutralCall:
        """Make a neutral call after a refusal, under a grant of its own."""
        max_wait = QUERY if neutral.kind is CallKind.QUERY else INGEST
        try:
            grant = await self._acquired("", neutral.prompt_tokens, neutral.completion_tokens, max_wait)
        except Transient as too_late:
            return NeutralCall(self._now(), too_late)
        sent_at = self._now()
        error = await self._error_of(grant, neutral.call)
        if isinstance(error, Refused) and error.usage is None:
            error = as_configuration(error, self.limits.component)
            if not neutral.is_plain:
                self._end(grant, CallOutcome.OK, Call())
                await self._pause_if_all_are_refused(max_wait)
                if grant is not None:
                    self._client.end(FinishedCall(grant, CallOutcome.UNSUPPORTED, tokens=0, reason=error.message))
                return NeutralCall(sent_at, error)
        if not isinstance(error, Transient):
            self._end(grant, CallOutcome.OK, Call())
            return NeutralCall(sent_at, None)  # the model answers, be it with its own refusal
        is_failure = isinstance(error, Unavailable) and not isinstance(error, Misconfigured)
        if is_failure and not (grant and grant.probe):
            self._end(grant, CallOutcome.ABANDONED, Call())  # the failure of the other call is counted
            return NeutralCall(sent_at, error)
        with suppress(Transient):
            await self._failed(grant, Call(), error)
        return NeutralCall(sent_at, error)

    async def _pause_if_all_are_refused(self, max_wait: MaxWait) -> None:
        """Pause all calls if the plain neutral call is refused, too; otherwise other forms of calls continue."""
        try:
            grant = await self._acquired("", _PLAIN_TOKENS, _PLAIN_TOKENS, max_wait)
            error = await self._error_of(grant, self._probe)
            if isinstance(error, Refused) and error.usage is None:
                error = as_configuration(error, self.limits.component)
            if isinstance(error, Transient):
                await self._failed(grant, Call(), error)
            else:
                self._end(grant, CallOutcome.OK, Call())
        except Transient as too_late:
            log.info("configuration.unchecked", component=self.limits.component, reason=too_late.message)

    async def _failed(self, grant: Grant | None, call: Call, error: ForeaskError) -> None:
        """Report an error. If the provider fails and the breaker is open, the work is not the cause.

        Raises:
            Unavailable: the breaker is open.
            NoCapacity: the error was of this class, and the tier flex pauses for longer than its provider asked for.
        """
        if grant is None:
            return
        outcome = outcome_of(error)
        after = error.retry_after.total_seconds() if isinstance(error, Transient) and error.retry_after else None
        if outcome in {CallOutcome.OK, CallOutcome.ABANDONED}:
            self._end(grant, outcome, call)
            return
        tokens = 0 if outcome in {CallOutcome.LIMITED, CallOutcome.NO_CAPACITY} else call.tokens
        reply = await self._client.end_failed(
            FinishedCall(grant, outcome, tokens, None, after, error.message), _REFRESH_SECONDS
        )
        if (
            outcome in {CallOutcome.FAILED, CallOutcome.TIMEOUT}
            and reply is not None
            and reply.breaker is not Breaker.CLOSED
        ):
            raise is_down(self.limits.component, reply) from error
        if isinstance(error, NoCapacity) and reply is not None and reply.flex_wait_seconds > 0:
            raise no_capacity(self.limits.component, reply, error.retry_after) from error

    def _end(self, grant: Grant | None, outcome: CallOutcome, call: Call) -> None:
        if grant is not None:
            self._client.end(FinishedCall(grant, outcome, call.tokens, call.completion_tokens))

    def _buckets_of(self, tenant: str) -> tuple[Bucket, Bucket] | None:
        if tenant not in self._tenant_buckets:
            rates = self.limits.for_tenant(tenant)
            self._tenant_buckets[tenant] = rates.buckets() if rates.declared else None
        return self._tenant_buckets[tenant]


def outcome_of(error: ForeaskError) -> CallOutcome:
    """Return the outcome of a call for the limits, by the class of its error."""
    match error:
        case RateLimited():
            return CallOutcome.LIMITED
        case NoCapacity() | UnsupportedTier():
            return CallOutcome.NO_CAPACITY
        case Misconfigured():
            return CallOutcome.REFUSED
        case TimedOut():
            return CallOutcome.TIMEOUT
        case Unavailable():
            # A model that writes nothing usable is not unavailable: the texts of one tenant may be the cause.
            is_useless = isinstance(error, UnusableReply) and not isinstance(error, InterruptedReply)
            return CallOutcome.ABANDONED if is_useless and error.component == "llm" else CallOutcome.FAILED
        case _:
            return CallOutcome.ABANDONED if isinstance(error, Transient) else CallOutcome.OK
