"""A generate worker: the language model writes the questions of each chunk. It calls no Qdrant."""

from __future__ import annotations

from shared.domain.tiers import Tier
from shared.ingest.batches.lane import BatchLane, BatchTerms
from shared.ingest.batches.lines import Lines
from shared.ingest.generate.stage import GenerateStage
from shared.ledger.work.batches import Batches
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.work import Work
from shared.services.ingest import batch_provider_name
from shared.services.parts import Parts
from shared.services.worker import WorkerServices


def assemble(parts: Parts) -> WorkerServices:
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        heartbeats=parts.ledger[Heartbeats],
        stage=generator_of(parts),
        limiters=(parts.llm_limiter,),
        warm_ups=(parts.database.warm,),
        batch_lane=batch_lane_of(parts),
    )


def batch_lane_of(parts: Parts) -> BatchLane:
    settings, tuning = parts.settings, parts.settings.tuning
    return BatchLane(
        provider=batch_provider_name(settings),
        api=parts.batch_api,
        batches=parts.ledger[Batches],
        lines=Lines(parts.chat.name, parts.ingest_defaults, parts.chat.habits),
        endings=parts.llm_limiter.endings,
        terms=BatchTerms(
            enabled=settings.llm_batches,
            min_lines=tuning.batch_min_chunks,
            max_lines=tuning.batch_max_chunks,
            max_bytes=tuning.batch_max_bytes,
            wait=tuning.batch_wait,
            poll=tuning.batch_poll,
            list_lag=tuning.batch_list_lag,
            stalled=tuning.batch_stalled,
            queue_tokens=settings.llm_batch_queue_tokens,
        ),
        wakeups=parts.wakeups,
    )


def generator_of(parts: Parts) -> GenerateStage:
    tier = parts.settings.ingest_tier
    return GenerateStage(
        slots=parts.settings.llm_max_in_flight,
        defaults=parts.ingest_defaults,
        work=parts.ledger[Work],
        model=parts.chat,
        limiter=parts.llm_limiter,
        wakeups=parts.wakeups,
        policy=parts.retries,
        flex=parts.chat.in_tier(tier) if tier is Tier.FLEX else None,
        flex_wait=parts.settings.llm_flex_wait,
    )
