"""The batch lane of generate workers."""

from __future__ import annotations

from shared.ingest.batches.lane import BatchLane, BatchTerms
from shared.ingest.batches.lines import Lines
from shared.ledger.work.batches import Batches
from shared.services.ingest import batch_provider_name
from shared.services.parts import Parts


def batch_lane_of(parts: Parts) -> BatchLane:
    settings, tuning = parts.settings, parts.settings.tuning
    return BatchLane(
        provider=batch_provider_name(settings),
        api=parts.batch_api,
        batches=parts.ledger[Batches],
        lines=Lines(parts.chat.name, parts.ingest_defaults, parts.chat.quirks),
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
