"""Running evaluations of this process. They belong to the ledger, not to the request that started them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog
import tenacity

from api.http.concurrency import Slot, Slots
from api.http.problems import TooManyRequests
from shared.domain.collections import Collection
from shared.domain.errors import Conflict, ForeaskError, Misconfigured, NotFound, Transient
from shared.ledger.feedback.evaluations import EvaluationRun, Evaluations, RunState
from shared.ledger.model.collections import Collections
from shared.query.evaluate.collection import EvaluationProgress, LabelledQuestion, evaluate_collection
from shared.query.evaluate.results import Json
from shared.query.evaluate.strategies import Strategy
from shared.query.retrieve import Retriever

_MOST = 4  # at this process; a tenant has half of them at most
_EVERY_SECONDS = 1.0  # progress is written
_TIMEOUT = timedelta(minutes=2)  # with one search
_PAUSE = tenacity.wait_random_exponential(multiplier=0.5, max=20)

log = structlog.get_logger()


class EvaluationRunner:
    """Runs evaluations in the background, and writes their results into the ledger.

    Args:
        evaluations: runs in the ledger.
        collections: finds the live build of a collection.
        retriever: searches as for users, but without logging queries.
    """

    def __init__(self, evaluations: Evaluations, collections: Collections, retriever: Retriever) -> None:
        self._evaluations = evaluations
        self._collections = collections
        self._retriever = retriever
        self._slots = Slots(_MOST, "evaluations")
        self._tasks = set[asyncio.Task[None]]()

    async def begin(
        self,
        collection: Collection,
        labelled_set: str | None,
        questions: Sequence[LabelledQuestion],
        strategies: Sequence[Strategy],
        baseline: str,
        *,
        notes: Sequence[str] = (),
    ) -> EvaluationRun:
        """Start a run, and return it.

        Raises:
            TooManyRequests: the tenant has the maximum number of runs in this process.
            Unavailable: the process has no free slot.
        """
        slot = self._slots.take()
        try:
            if not slot.hold_for(collection.tenant):
                raise TooManyRequests("This tenant has evaluations under way, and no more may be: wait until one ends.")
            count = len({question.question for question in questions})
            run = await self._evaluations.start(collection.tenant, collection.name, labelled_set, count)
        except BaseException:
            slot.release()
            raise
        task = asyncio.create_task(self._run(run, collection, questions, strategies, baseline, notes=notes))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, slot))
        return run

    def _ended(self, slot: Slot, task: asyncio.Task[None]) -> None:
        slot.release()
        self._tasks.discard(task)

    async def _run(
        self,
        run: EvaluationRun,
        collection: Collection,
        questions: Sequence[LabelledQuestion],
        strategies: Sequence[Strategy],
        baseline: str,
        *,
        notes: Sequence[str],
    ) -> None:
        find = partial(_patiently(self._retriever.retrieve), collection)
        items = evaluate_collection(find, collection, questions, strategies, baseline, notes=notes)
        progress = _Progress()
        evaluating = asyncio.create_task(_evaluated(items, progress))
        try:
            while not (await asyncio.wait({evaluating}, timeout=_EVERY_SECONDS))[0]:
                if not await self._is_wanted(run, collection, progress.last):
                    return
            await _patiently(self._require_live)(collection)
            await _patiently(self._evaluations.finish)(run.id, RunState.DONE, results=evaluating.result())
        except asyncio.CancelledError:
            await self._evaluations.finish(run.id, RunState.INTERRUPTED)
            raise
        except ForeaskError as error:
            await _patiently(self._evaluations.finish)(run.id, RunState.FAILED, error=error.message)
        except Exception as error:  # no caller waits for this task
            log.exception("evaluation.failed", error=type(error).__name__)
            sentence = "The evaluation failed; the log says why."
            await _patiently(self._evaluations.finish)(run.id, RunState.FAILED, error=sentence)
        finally:
            evaluating.cancel()
            await asyncio.gather(evaluating, return_exceptions=True)

    async def _is_wanted(self, run: EvaluationRun, collection: Collection, progress: EvaluationProgress | None) -> bool:
        """Record that the run is alive, also during long searches; return False if it was deleted."""
        done = ("", 0, 0) if progress is None else (progress.strategy, progress.done, progress.total)
        try:
            await self._require_live(collection)
            return await self._evaluations.seen(run.id, *done)
        except Transient:  # the next heartbeat repeats it
            return True

    async def _require_live(self, collection: Collection) -> None:
        """Raise `Conflict` or `NotFound` if this build is not live any more: its points may be deleted."""
        live = await self._collections.find(collection.tenant, collection.name)
        if live is None:
            raise NotFound("The collection was deleted while it was evaluated.")
        if live.id != collection.id:
            raise Conflict("Another build went live while the collection was evaluated: run it again.")

    async def aclose(self) -> None:
        """Interrupt the running evaluations."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass(slots=True)
class _Progress:
    last: EvaluationProgress | None = None


async def _evaluated(items: AsyncGenerator[EvaluationProgress | Json, None], progress: _Progress) -> Json:
    """Run an evaluation to its end, and return its results."""
    results: Json = {}
    async with aclosing(items):
        async for item in items:
            if isinstance(item, EvaluationProgress):
                progress.last = item
            else:
                results = item
    return results


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after.total_seconds() if isinstance(error, Transient) and error.retry_after else 0.0
    return max(asked, _PAUSE(state))


# Repeat the call after a pause if an engine or a provider is unavailable, because the run has costs by then.
_patiently = tenacity.retry(
    retry=tenacity.retry_if_exception(lambda e: isinstance(e, Transient) and not isinstance(e, Misconfigured)),
    stop=tenacity.stop_before_delay(_TIMEOUT),
    wait=_pause,
    reraise=True,
)
