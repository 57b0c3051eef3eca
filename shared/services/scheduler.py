"""The scheduler: it wakes workers for due work and cleans up. It calls no provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from shared.broker.wakeups import Wakeups
from shared.domain.spending.limit_use import LimitUse
from shared.domain.spending.rates import Rates
from shared.domain.spending.tiers import Tier
from shared.ingest.index import BATCH_CHUNKS
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.documents.unreferenced_objects import OutdatedObjects
from shared.ledger.ledger import Ledger
from shared.ledger.model.collections import Collections
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.election import Election
from shared.ledger.work.demand import Demand
from shared.ledger.work.finishing import Finishing
from shared.ledger.work.leftovers import Leftovers
from shared.maintenance.cleanup import Cleaner
from shared.maintenance.orphans import Orphans
from shared.maintenance.wanted import WantedWorkers, WorkerPool
from shared.providers.limiter import usage
from shared.providers.limiter.limiter import ProviderLimits, connect
from shared.providers.limiter.script import LimiterScript, Terms
from shared.services.features import Step
from shared.services.ingest import slots_of_parser, slots_of_reader
from shared.services.llm import llm_limits
from shared.services.parts import Parts
from shared.settings import Settings, require


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerServices:
    settings: Settings
    database: Database
    ledger: Ledger
    election: Election
    orphans: Orphans
    wakeups: Wakeups
    cleaner: Cleaner
    feature_steps: Sequence[Step]
    wanted: WantedWorkers


def assemble(parts: Parts) -> SchedulerServices:
    return SchedulerServices(
        settings=parts.settings,
        database=parts.database,
        ledger=parts.ledger,
        election=parts.election,
        orphans=parts.orphans,
        wakeups=parts.wakeups,
        cleaner=cleaner_of(parts),
        feature_steps=[step for feature in parts.features for step in feature.steps(parts)],
        wanted=wanted_of(parts),
    )


def wanted_of(parts: Parts) -> WantedWorkers:
    """Create the computation of the wanted workers, which uses the limits in the scheduler's own settings."""
    settings = parts.settings
    limits = None if settings.llm_model is None else llm_limits(settings, settings.llm_model)
    pool = WorkerPool(
        slots={
            "parse": slots_of_parser(settings),
            "read": slots_of_reader(settings),
            "generate": settings.llm_max_in_flight,
            "index": settings.tuning.embedding_max_in_flight * BATCH_CHUNKS * max(1, len(parts.embeddings)),
        },
        most=settings.workers_max,
        embeddings=list(parts.embeddings) or None,
        rates=Rates() if limits is None else limits.rates,
        rates_of=(lambda _: Rates()) if limits is None else limits.for_tenant,
        uses_flex=settings.ingest_tier is Tier.FLEX,
        flex_wait=settings.llm_flex_wait,
    )
    return WantedWorkers(parts.ledger[Demand], pool, _usage_of(parts, limits))


def _usage_of(parts: Parts, limits: ProviderLimits | None) -> Callable[[], Awaitable[Sequence[LimitUse]]]:
    if limits is None:
        return _unknown_usage
    redis = connect(require(parts.settings.redis_url, "FOREASK_REDIS_URL").get_secret_value())
    parts.stack.push_async_callback(redis.aclose)
    terms = Terms(limits.provider, limits.rates.buckets(), limits.in_flight, probe_seconds=0.0)
    return partial(usage.read, redis, LimiterScript(redis, terms), limits.component, limits.rates, ("", Rates()))


async def _unknown_usage() -> Sequence[LimitUse]:
    return ()


def cleaner_of(parts: Parts) -> Cleaner:
    return Cleaner(
        leftovers=parts.ledger[Leftovers],
        finishing=parts.ledger[Finishing],
        index=parts.index,
        uploads=parts.uploads,
        collections=parts.ledger[Collections],
        builds=parts.ledger[Builds],
        outdated=OutdatedObjects(parts.database),
        finisher=parts.finisher,
        descriptions=parts.ledger[Descriptions],
    )
