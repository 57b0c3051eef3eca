"""The work on an evaluation. After the loss of its worker it starts again, because its searches cost little."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from features.evaluation.collection import EvaluationQuestion, FinishedQueries, evaluate_collection
from features.evaluation.ledger.evaluations import EvaluationJob, Evaluations
from features.evaluation.results import Json
from features.evaluation.searched import build_to_search
from features.evaluation.strategies import select_strategies
from shared.domain.corpus.collections import Collection
from shared.domain.errors import Transient
from shared.domain.jobs import JobClaim
from shared.domain.stored import known_fields
from shared.ledger.builds.builds import Builds
from shared.ledger.model.collections import Collections
from shared.maintenance.jobs.progress import watched
from shared.maintenance.jobs.retries import retried
from shared.maintenance.jobs.runner import JobWork
from shared.query.retrieve import LiveRetriever, Retriever

_PROGRESS_SECONDS = 1.0  # interval at which the progress is saved


@dataclass(frozen=True, slots=True)
class EvaluationWork(JobWork):
    """Evaluates the collections of claimed jobs.

    Args:
        evaluations: evaluations in the ledger.
        collections: collections in the ledger.
        builds: their builds.
        retriever: searches as for users, but without logging queries.
    """

    evaluations: Evaluations
    collections: Collections
    builds: Builds
    retriever: Retriever

    async def work(self, claim: JobClaim) -> None:
        """Evaluate the live build, or the named one, and save the results.

        Raises:
            NotFound: the collection or the build was deleted.
            Conflict: another build became live during the evaluation, or the named one is being deleted.
            Permanent: it made no progress for too long.
            Transient: an engine or a provider was unavailable for too long.
        """
        job = await retried(self.evaluations.claimed)(claim)
        assert job.request is not None
        number = job.request.build

        def searched(tenant: str, name: str) -> Awaitable[Collection]:
            return build_to_search(self.collections, self.builds, tenant, name, number)

        collection = await retried(searched)(claim.tenant, claim.collection)
        retriever = LiveRetriever(self.retriever, searched)
        async with watched() as progressed:
            results = await self._evaluate(claim, collection, job, retriever, progressed)
        await retried(retriever.require_live)(collection)
        await retried(self.evaluations.finish)(claim, job.progress, results)

    async def _evaluate(
        self,
        claim: JobClaim,
        collection: Collection,
        job: EvaluationJob,
        retriever: LiveRetriever,
        progressed: Callable[[], None],
    ) -> Json:
        """Return the results; save the progress while they are computed."""
        request = job.request
        assert request is not None
        items = evaluate_collection(
            partial(retried(retriever.retrieve_from), collection),
            collection,
            [_question(stored) for stored in request.questions],
            select_strategies(request.strategies),
            request.baseline,
            notes=request.notes,
        )
        results: Json = {}
        due = time.monotonic()
        async with aclosing(items):
            async for item in items:
                progressed()
                if not isinstance(item, FinishedQueries):
                    results = item
                elif time.monotonic() >= due:
                    due = time.monotonic() + _PROGRESS_SECONDS
                    with suppress(Transient):  # the next time tries again
                        await retriever.require_live(collection)
                        progress = replace(job.progress, strategy=item.strategy, done=item.done, total=item.total)
                        await self.evaluations.save_progress(claim, progress)
        return results


def _question(stored: Any) -> EvaluationQuestion:
    return EvaluationQuestion(**known_fields(stored, EvaluationQuestion.__dataclass_fields__))
