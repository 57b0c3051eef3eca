"""The work on an evaluation. After the loss of its worker it starts again, because its searches cost little."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from shared.domain.collections import Collection
from shared.domain.errors import Transient
from shared.domain.runs import RunClaim
from shared.domain.stored import known_fields
from shared.ledger.feedback.evaluations import EvaluationRequest, Evaluations
from shared.ledger.model.collections import Collections
from shared.maintenance.runs.progress import watched
from shared.maintenance.runs.retries import retried
from shared.query.evaluate.collection import EvaluationProgress, EvaluationQuestion, evaluate_collection
from shared.query.evaluate.results import Json
from shared.query.evaluate.strategies import select_strategies
from shared.query.retrieve import LiveRetriever, Retriever

_PROGRESS_SECONDS = 1.0  # interval at which the progress is saved


@dataclass(frozen=True, slots=True)
class Evaluating:
    """Evaluates the collections of claimed runs.

    Args:
        evaluations: runs in the ledger.
        collections: collections in the ledger.
        retriever: searches as for users, but without logging queries.
    """

    evaluations: Evaluations
    collections: Collections
    retriever: Retriever

    async def work(self, claim: RunClaim) -> None:
        """Evaluate the live build, and save the results.

        Raises:
            NotFound: the collection was deleted.
            Conflict: another build became live during the evaluation.
            Permanent: it made no progress for too long.
            Transient: an engine or a provider was unavailable for too long.
        """
        request = await retried(self.evaluations.request_of)(claim)
        collection = await retried(self.collections.get)(claim.tenant, claim.collection)
        retriever = LiveRetriever(self.retriever, self.collections.find)
        async with watched() as progressed:
            results = await self._evaluate(claim, collection, request, retriever, progressed)
        await retried(retriever.require_live)(collection)
        await retried(self.evaluations.finish)(claim, results)

    async def _evaluate(
        self,
        claim: RunClaim,
        collection: Collection,
        request: EvaluationRequest,
        retriever: LiveRetriever,
        progressed: Callable[[], None],
    ) -> Json:
        """Return the results; save the progress while they are computed."""
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
                if not isinstance(item, EvaluationProgress):
                    results = item
                elif time.monotonic() >= due:
                    due = time.monotonic() + _PROGRESS_SECONDS
                    with suppress(Transient):  # the next time tries again
                        await retriever.require_live(collection)
                        await self.evaluations.save_progress(claim, item.strategy, item.done, item.total)
        return results


def _question(stored: Any) -> EvaluationQuestion:
    return EvaluationQuestion(**known_fields(stored, EvaluationQuestion.__dataclass_fields__))
