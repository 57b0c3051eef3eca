"""A tenant's open work, for the status and the events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.features import FEATURE_ROUTES
from api.progress.bottleneck import pace
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
        of_features: fields of features.
    """

    backlog: Backlog
    uses: Sequence[LimitUse] | None
    budgets: Sequence[Budget]
    pace: PaceView
    of_features: Mapping[str, Any]


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
    sentence = pace(
        backlog, parts, uses or (), workers, budgets, reasons=readiness.reasons, refused_writes=readiness.refused_writes
    )
    return OpenWork(backlog, uses, budgets, sentence, of_features)


async def status_event(services: ApiServices, readiness: Readiness, tenant: str) -> StatusEvent:
    """Return the status event of the open work; raises as `read_work`."""
    work = await read_work(services, readiness, tenant)
    return StatusEvent(
        stages={queue: StageView.of(waiting) for queue, waiting in work.backlog.stages.items()},
        dead=work.backlog.dead,
        chunks_per_minute=round(work.backlog.rate, 1),
        eta_seconds=None if work.backlog.eta is None else round(work.backlog.eta.total_seconds()),
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
