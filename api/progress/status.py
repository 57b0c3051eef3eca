"""A tenant's open work, for the status and the events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from api.features import FEATURE_ROUTES
from api.progress.bottleneck import Bottleneck, bottleneck, pace_view
from api.progress.readiness import Readiness
from api.schemas.status import PaceView, StageView, StatusEvent
from shared.domain.errors import Transient
from shared.domain.spending.budgets import Budget
from shared.domain.spending.limit_use import LimitUse
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.work.backlog import Backlog, Backlogs
from shared.ledger.work.heartbeats import Heartbeats
from shared.services.api import ApiServices


@dataclass(frozen=True, slots=True)
class OpenWork:
    """Open work and its limits.

    Args:
        uses: use of each limit; None while the broker is unavailable.
        found: the bottleneck.
        of_features: fields of features.
    """

    backlog: Backlog
    uses: Sequence[LimitUse] | None
    budgets: Sequence[Budget]
    found: Bottleneck
    pace: PaceView
    of_features: Mapping[str, Any]

    @property
    def eta_seconds(self) -> int | None:
        """The time left for all open work; None if it is unknown, or if something stops some of the work."""
        whole = self.backlog.left.whole
        return None if whole is None or self.found.stops_some else _at_least_a_second(whole)

    def eta_seconds_of(self, job_id: UUID) -> int | None:
        """Return the time left for a job; None if it is unknown, or if something stops all work."""
        left = self.backlog.left.of_jobs.get(job_id)
        return None if left is None or self.found.stops_all else _at_least_a_second(left)


async def read_work(services: ApiServices, readiness: Readiness, tenant: str) -> OpenWork:
    """Read a tenant's open work.

    Raises:
        Unavailable: the ledger is unavailable.
    """
    backlog = await services.ledger[Backlogs].measure(tenant, services.embeddings)
    budgets, parts = await services.ledger[Budgets].for_tenant(tenant), await readiness.of_parts()
    of_features = await _of_features(services, tenant)
    uses = await _uses(services, tenant) if parts["broker"] else None
    workers: dict[str, int] = dict.fromkeys(backlog.stages, 0)
    for process in await services.ledger[Heartbeats].seen():
        if process.alive and process.role in workers:
            workers[process.role] += 1
    found = bottleneck(
        backlog, parts, uses or (), workers, budgets, reasons=readiness.reasons, refused_writes=readiness.refused_writes
    )
    shown = pace_view(found, [name for name, answers in parts.items() if not answers], workers)
    return OpenWork(backlog, uses, budgets, found, shown, of_features)


async def status_event(services: ApiServices, readiness: Readiness, tenant: str) -> StatusEvent:
    """Return the status event of the open work; raises as `read_work`."""
    work = await read_work(services, readiness, tenant)
    return StatusEvent(
        stages={queue: StageView.of(waiting) for queue, waiting in work.backlog.stages.items()},
        dead=work.backlog.dead,
        chunks_per_minute=round(work.backlog.chunks_per_minute, 1),
        eta_seconds=work.eta_seconds,
        pace=work.pace,
        **work.of_features,
    )


async def _of_features(services: ApiServices, tenant: str) -> dict[str, Any]:
    read = [feature.open_work for feature in FEATURE_ROUTES if feature.open_work is not None]
    return {name: value for of_one in read for name, value in (await of_one(tenant, services)).items()}


async def _uses(services: ApiServices, tenant: str) -> list[LimitUse] | None:
    try:
        return await services.limiters.usage(tenant)
    except Transient:
        return None


def _at_least_a_second(time: timedelta) -> int:
    return max(1, round(time.total_seconds()))
