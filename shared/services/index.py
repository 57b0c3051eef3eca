"""An index worker: embeds questions and chunks, and writes them to Qdrant; concurrently it calibrates and does jobs."""

from __future__ import annotations

from shared.ingest.index.stage import Indexer, IndexStage
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.audit import Audit
from shared.ledger.jobs.evaluations import Evaluations
from shared.ledger.jobs.gates import Gates
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.jobs.verifications import Verifications
from shared.ledger.model.collections import Collections
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.work import Work
from shared.maintenance.gate import Gate
from shared.maintenance.jobs.evaluating import Evaluating
from shared.maintenance.jobs.gating import Gating
from shared.maintenance.jobs.runner import Runner
from shared.maintenance.jobs.verifying import Verifying
from shared.providers.limiter.models import LimitedEmbedder
from shared.query.calibrate.calibrator import Calibrator
from shared.services.ingest import similarity_floor
from shared.services.parts import Parts
from shared.services.query import calibrator_of, evaluated_retriever_of
from shared.services.worker import WorkerServices


def assemble(parts: Parts) -> WorkerServices:
    calibrator = calibrator_of(parts)
    return WorkerServices(
        settings=parts.settings,
        wakeups=parts.wakeups,
        heartbeats=parts.ledger[Heartbeats],
        stage=IndexStage(indexers_of(parts).values()),
        limiters=tuple(parts.embedding_limiters.values()),
        warm_ups=(parts.database.warm,),
        calibrator=calibrator,
        runner=runner_of(parts, calibrator),
    )


def runner_of(parts: Parts, calibrator: Calibrator) -> Runner:
    """Return a runner; the stack stops it and releases its claims."""
    ledger, retriever = parts.ledger, evaluated_retriever_of(parts)

    def gate_of(accepted_failures: int) -> Gate:
        return Gate(
            ledger=ledger,
            index=parts.index,
            retriever=retriever,
            calibrator=calibrator,
            accepted_failures=accepted_failures,
        )

    evaluating = Evaluating(ledger[Evaluations], ledger[Collections], retriever)
    verifying = Verifying(
        ledger[Verifications],
        ledger[Collections],
        ledger[Audit],
        parts.index,
        ledger[JobClaims],
        lambda: parts.wakeups.wake("index"),
    )
    runner = Runner(ledger[JobClaims], evaluating, Gating(ledger[Gates], ledger[Builds], gate_of), verifying)
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
        work=parts.ledger[Work],
        embedder=LimitedEmbedder(parts.embedders[name], limiter),
        limiter=limiter,
        index=parts.index,
        wakeups=parts.wakeups,
        policy=parts.retries,
        floor=similarity_floor(parts.settings, embedding),
        space=embedding.space,
        finisher=parts.finisher,
    )
