"""Running jobs whose questions are not generated now: a budget is used up, or the provider has no capacity.

Both are read from the budgets and the limiter, so a job continues at once when a budget is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from shared.domain.errors import Transient
from shared.domain.jobs import Job, Pause, PauseReason
from shared.domain.spending.budgets import Budget
from shared.domain.spending.limit_use import LimitUse
from shared.domain.spending.tiers import Tier
from shared.ledger.budgets.budgets import Budgets
from shared.providers.limiter.usage import usage_of
from shared.services.api import ApiServices

_LONG = timedelta(seconds=5)  # a shorter pause is a part of the pace


async def pauses_of(jobs: Sequence[Job], tenant: str, services: ApiServices) -> dict[UUID, Pause]:
    """Return the pauses of a tenant's jobs by the id of the job; jobs whose questions are generated are missing."""
    waiting = [job for job in jobs if job.lacks_questions]
    if not waiting:
        return {}
    exhausted = [budget for budget in await services.ledger[Budgets].for_tenant(tenant) if budget.is_exhausted]
    pauses = {job.id: pause for job in waiting if (pause := _of_budgets(job, exhausted))}
    calling = [job for job in waiting if job.needs_calls and job.id not in pauses]
    if calling and (pause := await _of_provider(tenant, services)):
        pauses |= dict.fromkeys((job.id for job in calling), pause)
    return pauses


def _of_budgets(job: Job, exhausted: Sequence[Budget]) -> Pause | None:
    budget = next((each for each in exhausted if each.covers(job.collection, job.id)), None)
    return None if budget is None else Pause(PauseReason.BUDGET, budget.notice or "", budget.id)


async def _of_provider(tenant: str, services: ApiServices) -> Pause | None:
    """Return the pause of all calls; None also while the broker, which knows it, is unavailable."""
    try:
        uses = await usage_of(services.limiters.llm, tenant)
    except Transient:
        return None
    use = next((use for use in uses if use.cooldown > _LONG), uses[0])
    if use.breaker != "closed" or use.cooldown > _LONG:
        cause = use.reason or "the provider fails"
        sentence = f"{cause[:1].upper()}{cause[1:]}; questions are generated when it answers again."
        return Pause(PauseReason.PROVIDER, sentence)
    return _of_flex(use, services)


def _of_flex(use: LimitUse, services: ApiServices) -> Pause | None:
    settings = services.settings
    if settings.ingest_tier is not Tier.FLEX or not use.defers_flex(settings.llm_flex_wait):
        return None
    return Pause(
        PauseReason.PROVIDER,
        "The provider has no capacity left in the service tier flex: questions are generated when it has some.",
    )
