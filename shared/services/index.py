"""An index worker: embeds questions and chunks, writes them to Qdrant, and calibrates collections concurrently."""

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
        heartbeats=parts.ledger.heartbeats,
        stage=index_stage(*indexers_of(parts).values()),
        limiters=tuple(parts.embedding_limiters.values()),
        warm_ups=(parts.database.warm,),
        calibrator=calibrator_of(parts),
    )


def indexers_of(parts: Parts) -> dict[str, Indexer]:
    """The indexer of each embedding, by its name, the default one first."""
    return {name: _indexer(parts, name) for name in parts.embedders}


def _indexer(parts: Parts, name: str) -> Indexer:
    limiter, embedding = parts.embedding_limiters[name], parts.embeddings[name]
    floor = parts.settings.tuning.similarity_floor
    return Indexer(
        settings=parts.settings,
        work=parts.ledger.work,
        embedder=LimitedEmbedder(parts.embedders[name], limiter),
        limiter=limiter,
        index=parts.index,
        wakeups=parts.wakeups,
        policy=parts.retries,
        floor=floor_for(embedding.model) if floor is None else floor,
        space=embedding.space,
        finisher=parts.finisher,
    )
