"""A generate worker: the language model writes the questions of each chunk. It calls no Qdrant."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from shared.domain.spending.tiers import Tier
from shared.ingest.generate.stage import GenerateStage
from shared.ledger.work.generation import GenerateWork
from shared.ledger.work.heartbeats import Heartbeats
from shared.services.parts import Parts
from shared.services.worker import WorkerServices

if TYPE_CHECKING:
    from shared.ingest.batches.lane import BatchLane


def assemble(parts: Parts) -> WorkerServices:
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        heartbeats=parts.ledger[Heartbeats],
        stages={"generate": generator_of(parts)},
        limiters=(parts.llm_limiter,),
        warm_ups=(parts.database.warm,),
        make_batch_lane=partial(_make_batch_lane, parts),
    )


def _make_batch_lane(parts: Parts) -> BatchLane:
    from shared.services.batches import batch_lane_of  # imported when the first batch is due

    return batch_lane_of(parts)


def generator_of(parts: Parts) -> GenerateStage:
    tier = parts.settings.ingest_tier
    return GenerateStage(
        slots=parts.settings.llm_max_in_flight,
        defaults=parts.ingest_defaults,
        work=parts.ledger[GenerateWork],
        model=parts.chat,
        limiter=parts.llm_limiter,
        wakeups=parts.wakeups,
        policy=parts.retries,
        flex=parts.chat.in_tier(tier) if tier is Tier.FLEX else None,
        flex_wait=parts.settings.llm_flex_wait,
    )
