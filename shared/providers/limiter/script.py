"""The messages between a process and the shared script: requested and finished calls, grants and waits."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum, StrEnum
from importlib.resources import files
from typing import Any

import orjson
from redis.asyncio import Redis

from shared.domain.spending.rates import Bucket

_PREFIX = "foreask:limits"
_NOT_NOW, _OPEN, _TENANT = -1, -2, -10
_UNREPORTED = -1
_REASON_CHARS = 600  # of our sentence with the provider's words


class Breaker(IntEnum):
    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


class CallOutcome(StrEnum):
    """The end of a call, with the facts that affect the limits."""

    OK = "ok"  # the provider answered, be it with a refusal of this request
    LIMITED = "limited"  # 429
    UNSUPPORTED = "unsupported"  # calls with some options are refused, and others may succeed
    REFUSED = "refused"  # the key is not accepted
    FAILED = "failed"  # 5xx or unreachable
    TIMEOUT = "timeout"
    NO_CAPACITY = "no capacity"  # the provider is healthy, but refuses calls in the tier flex
    ABANDONED = "abandoned"  # its caller was cancelled


class CallKind(IntEnum):
    """A kind of calls; no kind waits for another one's turn, except that queries precede the others."""

    INGEST = 0
    QUERY = 1
    FLEX = 2  # ingest in the tier flex, which has a limit of its own for calls in flight


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """A call that waits to start.

    Args:
        id: id of the call.
        tenant: tenant of the call.
        prompt_tokens: estimated tokens of the prompt.
        completion_tokens: maximum tokens of the reply; None without a limit.
        kind: kind of the call.
    """

    id: str
    tenant: str
    prompt_tokens: int
    completion_tokens: int | None
    kind: CallKind = CallKind.INGEST


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to make one call, which occupies a slot; with `probe` the call must be a neutral one.

    `is_reused` means that the process had kept the slot of an earlier call, so the script has not counted this one yet.
    """

    id: str
    tenant: str
    at: int  # Redis' own time in milliseconds
    reserved_tokens: int
    probe: bool = False
    kind: CallKind = CallKind.INGEST
    is_reused: bool = False


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A finished call; tokens that the provider did not report are missing.

    `reason` is the sentence of its error, which all tenants may read; empty if it is only about this call. With
    `keeps_slot` the process keeps the slot for its next call.
    """

    grant: Grant
    outcome: CallOutcome
    tokens: int | None = None
    completion_tokens: int | None = None
    retry_after_seconds: float | None = None
    reason: str = ""
    keeps_slot: bool = False

    def reported(self, tenant: int) -> list[Any]:
        after = _UNREPORTED if self.retry_after_seconds is None else int(self.retry_after_seconds * 1000)
        return [
            self.grant.id,
            self.grant.at,
            tenant,
            self.grant.reserved_tokens,
            _UNREPORTED if self.tokens is None else self.tokens,
            _UNREPORTED if self.completion_tokens is None else self.completion_tokens,
            self.outcome.value,
            after,
            int(self.grant.probe),
            int(self.grant.kind is CallKind.FLEX),
            self.reason[:_REASON_CHARS],
            int(self.grant.is_reused),
            int(self.keeps_slot),
        ]


@dataclass(frozen=True, slots=True)
class Wait:
    """The call must wait. With `tenant`, the tenant's own limit defers it for this many seconds."""

    tenant: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Blocked:
    """The breaker is open."""


ScriptAnswer = Grant | Wait | Blocked


@dataclass(frozen=True, slots=True)
class LimiterReply:
    """The script's reply.

    Args:
        breaker: state after this pass.
        pause_seconds: time for which the breaker stays open.
        cooldown_seconds: remaining pause requested by the provider.
        wait_seconds: time after which to repeat requests that were not granted; 0 if the provider's limits deferred
            none.
        flex_wait_seconds: time for which the limit of calls in the tier flex defers them; 0 if it does not.
        flex_dry_seconds: time since when the provider has refused all of these; 0 if it serves some.
        in_flight: calls in flight of all processes.
        in_flight_limit: their limit; 0 if a rate is declared instead.
        answers: one per request, in order.
        reason: sentence of the last failure, until a call that started after it succeeds; then it is empty.
        failing_seconds: time since the first of these failures.
        at: the script's time in milliseconds.
    """

    breaker: Breaker
    pause_seconds: float
    cooldown_seconds: float
    wait_seconds: float
    flex_wait_seconds: float
    flex_dry_seconds: float
    in_flight: int
    in_flight_limit: int
    answers: Sequence[ScriptAnswer]
    reason: str = ""
    failing_seconds: float = 0.0
    at: int = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """Waits of the limiter, unless the provider names one.

    Args:
        lease: time for which a call counts as in flight without renewal.
        open: initial time for which the breaker stays open; each failed probe doubles it.
        cooldown: pause after a first 429 without a time; each further one doubles it.
    """

    lease: timedelta = timedelta(seconds=15)
    open: timedelta = timedelta(seconds=2)
    cooldown: timedelta = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits of a provider's calls.

    Args:
        provider: key that distinguishes providers; visible in keys, so it contains no secret.
        buckets: requests and tokens of the provider.
        in_flight: initial number of calls in flight, if no rate of requests is declared.
        probe_seconds: timeout of a probe.
        timing: waits of the limiter.
        query_share: share of the limits that ingest leaves to queries.
    """

    provider: str
    buckets: tuple[Bucket, Bucket]
    in_flight: int
    probe_seconds: float
    timing: Timing = field(default_factory=Timing)
    query_share: float = 0.0


class LimiterScript:
    """The script, with its keys."""

    def __init__(self, redis: Redis, terms: Terms) -> None:
        self._redis = redis
        self._terms = terms
        self._script = redis.register_script((files("shared.providers.limiter") / "limiter.lua").read_text())

    async def __call__(
        self,
        requests: Sequence[SlotRequest],
        ended: Sequence[FinishedCall],
        renew: Sequence[str],
        tenants: dict[str, tuple[Bucket, Bucket]],
        returned: Sequence[str] = (),
    ) -> LimiterReply:
        """Record finished calls, and grant waiting ones.

        Args:
            requests: calls to start, most urgent first.
            ended: finished calls.
            renew: running calls.
            tenants: buckets of tenants with their own limits.
            returned: ids of slots that the process has kept, and keeps no longer.

        Raises:
            RedisError: the broker is unavailable; the script may have run, and may safely run again.
        """
        names = {tenant: number for number, tenant in enumerate(tenants, 1)}
        request = {
            "buckets": self._terms.buckets,
            "in_flight": self._terms.in_flight,
            "probe": int(self._terms.probe_seconds * 1000),
            "lease": _milliseconds(self._terms.timing.lease),
            "open": _milliseconds(self._terms.timing.open),
            "cooldown": _milliseconds(self._terms.timing.cooldown),
            "query_share": self._terms.query_share,
            "tenants": list(tenants.values()),
            "wanted": [
                [
                    w.id,
                    names.get(w.tenant, 0),
                    w.prompt_tokens,
                    _UNREPORTED if w.completion_tokens is None else w.completion_tokens,
                    int(w.kind),
                ]
                for w in requests
            ],
            "ended": [e.reported(names.get(e.grant.tenant, 0)) for e in ended],
            "renew": renew,
            "returned": returned,
        }
        keys = [
            self.key("state"),
            self.key("flight"),
            self.key("flex"),
            self.key("reason"),
            *(self.key(f"tenant:{tenant}") for tenant in tenants),
        ]
        return _reply(await self._script(keys=keys, args=[orjson.dumps(request)]), requests)

    def key(self, name: str) -> str:
        """Return a key of the provider; all its keys are in one slot of a cluster."""
        return f"{_PREFIX}:{{{self._terms.provider}}}:{name}"


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def provider_id(*parts: str) -> str:
    """Return a short name for a provider that reveals none of its parts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _reply(values: Sequence[Any], requests: Sequence[SlotRequest]) -> LimiterReply:
    now, breaker, pause, cooldown, wait, flex_wait, flex_dry, in_flight, limit, probe, reason, failing, *answers = (
        values
    )
    return LimiterReply(
        breaker=Breaker(breaker),
        pause_seconds=pause / 1000,
        cooldown_seconds=cooldown / 1000,
        wait_seconds=wait / 1000,
        flex_wait_seconds=flex_wait / 1000,
        flex_dry_seconds=flex_dry / 1000,
        in_flight=in_flight,
        in_flight_limit=limit,
        answers=[
            _answer(call, number, now, probe=number_in_batch == probe)
            for number_in_batch, (call, number) in enumerate(zip(requests, answers, strict=True), 1)
        ],
        reason=reason.decode(errors="replace"),
        failing_seconds=failing / 1000,
        at=now,
    )


def _answer(call: SlotRequest, number: int, now: int, *, probe: bool) -> ScriptAnswer:
    if number >= 0:
        return Grant(call.id, call.tenant, now, number, probe, call.kind)
    if number == _OPEN:
        return Blocked()
    if number == _NOT_NOW:
        return Wait()
    return Wait(tenant=True, seconds=(_TENANT - number) / 1000)
