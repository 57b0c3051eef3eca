"""An index worker: questions and chunks are embedded and written to Qdrant; collections are calibrated beside that."""

from __future__ import annotations

from shared.ingest.generate.quality import floor_for
from shared.ingest.index.stage import Indexer, index_stage
from shared.providers.limiter.models import LimitedEmbedder
from shared.services.parts import Parts
from shared.services.query import calibrator_of
from shared.services.worker import WorkerServices


def assemble(parts: Parts) -> WorkerServices:
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        stage=index_stage(indexer_of(parts)),
        limiters=(parts.embedding_limiter,),
        warm_ups=(parts.database.warm,),
        calibrator=calibrator_of(parts),
    )


def indexer_of(parts: Parts) -> Indexer:
    floor = parts.settings.tuning.similarity_floor
    return Indexer(
        settings=parts.settings,
        work=parts.ledger.work,
        embedder=LimitedEmbedder(parts.embedder, parts.embedding_limiter),
        limiter=parts.embedding_limiter,
        index=parts.index,
        wakeups=parts.wakeups,
        policy=parts.retries,
        floor=floor_for(parts.embedder.name) if floor is None else floor,
        finisher=parts.finisher,
    )
