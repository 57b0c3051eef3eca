"""Readiness of the parts that the API needs, probed once for all callers, because health needs no key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass

import structlog

from shared.domain.errors import Permanent, Transient
from shared.services.api import ApiServices

log = structlog.get_logger()

_SECONDS = 2.0  # that a part may take
_CACHE_SECONDS = 1.0  # how old an answer may be: less than between two probes of a load balancer


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
    """Asks each part at most once at a time, and once a second, however many want to know."""

    def __init__(self, services: ApiServices) -> None:
        self._services = services
        self._lookup: asyncio.Task[Mapping[str, bool]] | None = None
        self._polled_at = 0.0

    async def of_parts(self) -> Mapping[str, bool]:
        """Whether each part answers, by its name."""
        looking = self._lookup
        if looking is None or (looking.done() and time.monotonic() - self._polled_at > _CACHE_SECONDS):
            looking = self._lookup = asyncio.create_task(self._poll())
        return await asyncio.shield(looking)  # others wait for it, too

    async def _poll(self) -> Mapping[str, bool]:
        services = self._services
        checks = {
            "ledger": services.database.ping(),
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


async def _answers(check: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout(_SECONDS):
            await check
    except (Transient, Permanent, TimeoutError):
        return False
    return True
