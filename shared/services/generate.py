"""A generate worker: the language model writes the questions of each chunk. It calls no Qdrant."""

from __future__ import annotations

from shared.domain.tiers import Tier
from shared.ingest.generate.stage import Generator, generate_stage
from shared.services.parts import Parts
from shared.services.worker import WorkerServices


def assemble(parts: Parts) -> WorkerServices:
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        heartbeats=parts.ledger.heartbeats,
        stage=generate_stage(generator_of(parts)),
        limiters=(parts.llm_limiter,),
        warm_ups=(parts.database.warm,),
    )


def generator_of(parts: Parts) -> Generator:
    tier = parts.settings.ingest_tier
    return Generator(
        slots=parts.settings.llm_max_in_flight,
        defaults=parts.ingest_defaults,
        work=parts.ledger.work,
        model=parts.chat,
        limiter=parts.llm_limiter,
        wakeups=parts.wakeups,
        policy=parts.retries,
        flex=parts.chat.in_tier(tier) if tier is Tier.FLEX else None,
        flex_wait=parts.settings.llm_flex_wait,
    )
