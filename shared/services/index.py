"""An index worker: embeds questions and chunks, and writes them to Qdrant; concurrently it calibrates and does jobs."""

from __future__ import annotations

from functools import partial

from shared.domain.jobs import JOBS_OF_PARSERS
from shared.ingest.index.stage import Indexer, IndexStage
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.indexing import IndexWork
from shared.maintenance.jobs.runner import Runner
from shared.providers.limiter.limited_embedder import LimitedEmbedder
from shared.services.parts import Parts
from shared.services.similarity import similarity_floor
from shared.services.worker import WorkerServices


def assemble(parts: Parts) -> WorkerServices:
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        heartbeats=parts.ledger[Heartbeats],
        stages={"index": IndexStage(indexers_of(parts).values())},
        limiters=tuple(parts.embedding_limiters.values()),
        warm_ups=(parts.database.warm,),
        make_calibrator=lambda: parts.calibrator,
        runner=runner_of(parts),
    )


def runner_of(parts: Parts) -> Runner:
    """Return a runner of the jobs that are not of parsers; the stack stops it and releases its claims."""
    works = {
        kind: partial(make, parts)
        for feature in parts.features
        for kind, make in feature.jobs.items()
        if kind not in JOBS_OF_PARSERS
    }
    runner = Runner(parts.ledger[JobClaims], works)
    parts.stack.push_async_callback(runner.aclose)
    return runner


def indexers_of(parts: Parts) -> dict[str, Indexer]:
    """Return the indexer of each embedding, by its name, the default one first."""
    return {name: _indexer(parts, name) for name in parts.embedders}


def _indexer(parts: Parts, name: str) -> Indexer:
    limiter, embedding = parts.embedding_limiters[name], parts.embeddings[name]
    tuning = parts.settings.tuning
    return Indexer(
        slots=tuning.embedding_max_in_flight,
        max_given=tuning.given_per_chunk,
        request_inputs=tuning.embedding_batch_size,
        request_tokens=tuning.embedding_batch_tokens,
        work=parts.ledger[IndexWork],
        embedder=LimitedEmbedder(parts.embedders[name], limiter),
        limiter=limiter,
        index=parts.index,
        wakeups=parts.wakeups,
        policy=parts.retries,
        floor=similarity_floor(parts.settings, embedding),
        space=embedding.space,
        finisher=parts.finisher,
    )
