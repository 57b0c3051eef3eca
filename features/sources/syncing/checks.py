"""The work on checks: the first entries of a source are listed as a sync lists them, and nothing is read or stored."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta

from features.sources.domain import CheckedSource, SourceDefinition
from features.sources.errors import unavailable
from features.sources.ledger.checks import SourceChecks
from features.sources.opening import KINDS
from features.sources.source import Source
from features.sources.syncing.merge import refusal, shown
from features.sources.syncing.watched_source import close, room
from features.sources.syncing.work import OpenSource
from shared.domain.jobs import JobClaim
from shared.maintenance.jobs.retries import retried
from shared.maintenance.jobs.runner import JobWork

_PAGES = "pages"  # the option that limits the pages of a run


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Limits of a check.

    Args:
        entries: number of entries that are listed.
        pages: number of pages that are visited, if entries are pages: they are listed when all were visited.
        keys: number of keys that are stored.
        timeout: time of the listing.
    """

    entries: int = 1_000
    pages: int = 5
    keys: int = 10
    timeout: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Checking(JobWork):
    """Checks the sources of claimed jobs.

    Args:
        checks: checks of all tenants.
        open_source: opens a source as for a sync.
    """

    checks: SourceChecks
    open_source: OpenSource
    limits: CheckLimits = CheckLimits()

    async def work(self, claim: JobClaim) -> None:
        """List the first entries of a source. It is not tried again: a person waits for the result.

        Raises:
            LeaseLost: the check was deleted, or another worker has claimed it.
            Unavailable: the source cannot be reached, or lists no entry in time.
            Misconfigured: its address, its options or its secret are wrong.
        """
        definition = await retried(self.checks.definition_of)(claim)
        with room():
            source = self.open_source(self._limited(definition))
            try:
                found = await self._listed(source)
            finally:
                await close(source)
        await retried(self.checks.finish)(claim, found)

    def _limited(self, definition: SourceDefinition) -> SourceDefinition:
        options = definition.options
        if _PAGES not in KINDS[definition.kind].options.model_fields:
            return definition
        most = min(int(options.get(_PAGES, self.limits.pages)), self.limits.pages)
        return replace(definition, options={**options, _PAGES: most})

    async def _listed(self, source: Source) -> CheckedSource:
        found = _Found(self.limits.keys)
        timeout = asyncio.timeout(self.limits.timeout.total_seconds())
        try:
            async with timeout, aclosing(source.entries()) as entries:
                async for entry in entries:
                    if found.seen == self.limits.entries:
                        return found.result(complete=False)
                    found.add(shown(entry.key), refusal(entry))
        except TimeoutError:
            if not timeout.expired():
                raise
            if not found.seen:
                seconds = f"{self.limits.timeout.total_seconds():g}"
                raise unavailable(
                    f"The source lists no entry within {seconds} seconds. A sync waits longer: add it to try that."
                ) from None
            return found.result(complete=False)
        return found.result(complete=True)


@dataclass(slots=True)
class _Found:
    """The entries of a listing so far."""

    most_keys: int
    seen: int = 0
    refused: int = 0
    reason: str | None = None
    keys: tuple[str, ...] = ()

    def add(self, key: str, reason: str | None) -> None:
        self.seen += 1
        if reason is not None:
            self.refused += 1
            self.reason = self.reason or f"{key}: {reason}"
        elif len(self.keys) < self.most_keys:
            self.keys += (key,)

    def result(self, *, complete: bool) -> CheckedSource:
        return CheckedSource(self.seen, self.refused, complete, self.keys, self.reason)
