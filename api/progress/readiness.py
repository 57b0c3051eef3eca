"""Readiness of the required components, probed once for all callers, because health requires no key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence

import structlog

from shared.domain.errors import ForeaskError, Transient
from shared.http.access.identities import Identities
from shared.ledger.jobs.repairs import Repairs
from shared.services.api import ApiServices
from shared.vectors.transport.notices import READS, WRITES

log = structlog.get_logger()

NAMES = {"ledger": "PostgreSQL", "broker": "the broker", "qdrant": "Qdrant", "uploads": "the store of uploads"}
_SECONDS = 2.0  # timeout of a probe
_CACHE_SECONDS = 1.0  # less than the interval between two probes of a load balancer


class Readiness:
    """Probes each component at most once per second, for any number of callers."""

    def __init__(self, services: ApiServices, identities: Identities | None = None) -> None:
        self._services = services
        self._identities = identities
        self._probe: asyncio.Task[Mapping[str, bool]] | None = None
        self._polled_at = 0.0
        # As of the last probe: collections whose index is being repaired, why components do not answer, and sentences
        # about providers that fail or pause.
        self.damaged = 0
        self.reasons: Mapping[str, str] = {}
        self.troubles: Sequence[str] = ()
        self.refused_writes: str | None = None  # why Qdrant takes no points, although it answers

    async def of_parts(self) -> Mapping[str, bool]:
        """Return whether each component answers, by name."""
        probe = self._probe
        if probe is None or (probe.done() and time.monotonic() - self._polled_at > _CACHE_SECONDS):
            probe = self._probe = asyncio.create_task(self._poll())
        return await asyncio.shield(probe)  # other callers wait for it, too

    async def _poll(self) -> Mapping[str, bool]:
        services = self._services
        checks = {
            "ledger": self._read_ledger(),
            "broker": services.wakeups.ready(),
            "qdrant": services.index.ready(),
            "uploads": services.uploads.ready(),
        }
        try:
            problems = await asyncio.gather(*(_problem(name, check) for name, check in checks.items()))
            found = dict(zip(checks, problems, strict=True))
        finally:
            self._polled_at = time.monotonic()
        reasons = {name: problem for name, problem in found.items() if problem is not None}
        refusals = {} if "broker" in reasons else await self._read_refusals()
        self.refused_writes = refusals.get(WRITES)
        if refusals:
            reasons.setdefault("qdrant", "; ".join(refusals.values()))
        if reasons != self.reasons:
            # One line for a change, because load balancers probe each second.
            log.warning("readiness.failed", reasons=reasons) if reasons else log.info("readiness.restored")
        self.reasons = reasons
        troubles = () if "broker" in reasons else await self._read_troubles()
        self.troubles = [*troubles, *await self._read_problem_of_identities()]
        return {name: problem is None for name, problem in found.items()}

    async def _read_troubles(self) -> Sequence[str]:
        try:
            async with asyncio.timeout(_SECONDS):
                uses = await self._services.limiters.usage("")
        except (Transient, TimeoutError):
            return ()
        found = dict.fromkeys(trouble for use in uses if (trouble := use.trouble))
        return [f"{trouble[:1].upper()}{trouble[1:]}" for trouble in found]

    async def _read_problem_of_identities(self) -> Sequence[str]:
        """Return why persons cannot sign in; their provider's keys are fetched if they are not known or not fresh."""
        if self._identities is None:
            return ()
        provider = self._identities.provider
        try:
            async with asyncio.timeout(_SECONDS):
                await provider.current()
        except (Transient, TimeoutError):
            effect = "no token is accepted"
        else:
            effect = "tokens that are signed with known keys are accepted for an hour after the last contact"
        return () if provider.problem is None else [f"{provider.problem.rstrip('.')}; {effect}."]

    async def _read_refusals(self) -> Mapping[str, str]:
        """Return sentences about the requests that Qdrant refuses to any process."""
        try:
            async with asyncio.timeout(_SECONDS):
                notices = await self._services.notices.read((WRITES, READS))
        except (Transient, TimeoutError):
            return {}
        effects = {WRITES: "no chunk can be indexed", READS: "queries wait or fail"}
        return {name: f"{effects[name]}: {notice.rstrip('.')}" for name, notice in notices.items()}

    async def _read_ledger(self) -> None:
        self.damaged = await self._services.ledger[Repairs].count()


async def _problem(name: str, check: Awaitable[None]) -> str | None:
    """Return why a component does not answer, as a sentence that starts in lower case; None if it does."""
    try:
        async with asyncio.timeout(_SECONDS):
            await check
    except TimeoutError:
        return f"{NAMES[name]} gives no answer within {_SECONDS:.0f} s"
    except ForeaskError as error:
        return error.message.rstrip(".")
    return None
