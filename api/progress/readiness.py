"""Readiness of the required components, probed once for all callers, because health requires no key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

import structlog

from shared.domain.errors import Permanent, Transient
from shared.services.api import ApiServices

log = structlog.get_logger()

_SECONDS = 2.0  # timeout of a probe
_CACHE_SECONDS = 1.0  # less than the interval between two probes of a load balancer


@dataclass(slots=True)
class Shutdown:
    """The progress of the shutdown, which the server sets and long requests read.

    Args:
        draining: health reports that the process is not ready; requests are still accepted.
        stopping: no connection is accepted; streams of events end.
    """

    draining: bool = False
    stopping: bool = False

    @property
    def is_started(self) -> bool:
        return self.draining or self.stopping


class Readiness:
    """Probes each component at most once per second, for any number of callers."""

    def __init__(self, services: ApiServices) -> None:
        self._services = services
        self._probe: asyncio.Task[Mapping[str, bool]] | None = None
        self._polled_at = 0.0
        self.damaged = 0  # collections whose index is being repaired, as of the last probe

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
            up = dict(zip(checks, await asyncio.gather(*map(_answers, checks.values())), strict=True))
        finally:
            self._polled_at = time.monotonic()
        if down := [name for name, answers in up.items() if not answers]:
            log.warning("readiness.failed", down=down)
        return up

    async def _read_ledger(self) -> None:
        self.damaged = await self._services.ledger.repairs.count()


async def _answers(check: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout(_SECONDS):
            await check
    except (Transient, Permanent, TimeoutError):
        return False
    return True
