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
from shared.domain.errors import ForeaskError, Misconfigured, Transient
from shared.ledger.feedback.evaluations import EvaluationRun, Evaluations, RunState
from shared.query.evaluate.collection import EvaluationProgress, EvaluationQuestion, evaluate_collection
from shared.query.evaluate.results import Json
from shared.query.evaluate.strategies import Strategy
from shared.query.retrieve import LiveRetriever

_MOST = 4  # per process; a tenant has at most half of them
_PROGRESS_SECONDS = 1.0  # interval at which the progress is written
_TIMEOUT = timedelta(minutes=2)  # of one search with its retries
_PAUSE = tenacity.wait_random_exponential(multiplier=0.5, max=20)

log = structlog.get_logger()


class EvaluationRunner:
    """Runs evaluations in the background, and writes their results into the ledger.

    Args:
        evaluations: runs in the ledger.
        retriever: searches as for users, but without logging queries.
    """

    def __init__(self, evaluations: Evaluations, retriever: LiveRetriever) -> None:
        self._evaluations = evaluations
        self._retriever = retriever
        self._slots = Slots(_MOST, "evaluations")
        self._tasks = set[asyncio.Task[None]]()

    async def start(
        self,
        collection: Collection,
        labelled_set: str | None,
        questions: Sequence[EvaluationQuestion],
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
        slot = self._slots.acquire()
        try:
            if not slot.assign(collection.tenant):
                raise TooManyRequests(
                    "This tenant has the maximum number of running evaluations: wait until one finishes."
                )
            count = len({question.question for question in questions})
            run = await self._evaluations.start(collection.tenant, collection.name, labelled_set, count)
        except BaseException:
            slot.release()
            raise
        task = asyncio.create_task(self._run(run, collection, questions, strategies, baseline, notes=notes))
        self._tasks.add(task)
        task.add_done_callback(partial(self._finish, slot))
        return run

    def _finish(self, slot: Slot, task: asyncio.Task[None]) -> None:
        slot.release()
        self._tasks.discard(task)

    async def _run(
        self,
        run: EvaluationRun,
        collection: Collection,
        questions: Sequence[EvaluationQuestion],
        strategies: Sequence[Strategy],
        baseline: str,
        *,
        notes: Sequence[str],
    ) -> None:
        find = partial(_with_retries(self._retriever.retrieve_from), collection)
        items = evaluate_collection(find, collection, questions, strategies, baseline, notes=notes)
        progress = _Progress()
        evaluating = asyncio.create_task(_evaluate(items, progress))
        try:
            while not (await asyncio.wait({evaluating}, timeout=_PROGRESS_SECONDS))[0]:
                if not await self._is_continued(run, collection, progress.last):
                    return
            await _with_retries(self._retriever.require_live)(collection)
            await _with_retries(self._evaluations.finish)(run.id, RunState.DONE, results=evaluating.result())
        except asyncio.CancelledError:
            await self._evaluations.finish(run.id, RunState.INTERRUPTED)
            raise
        except ForeaskError as error:
            await _with_retries(self._evaluations.finish)(run.id, RunState.FAILED, error=error.message)
        except Exception as error:  # no caller waits for this task
            log.exception("evaluation.failed", error=type(error).__name__)
            sentence = "The evaluation failed; the server's log has the reason."
            await _with_retries(self._evaluations.finish)(run.id, RunState.FAILED, error=sentence)
        finally:
            evaluating.cancel()
            await asyncio.gather(evaluating, return_exceptions=True)

    async def _is_continued(
        self, run: EvaluationRun, collection: Collection, progress: EvaluationProgress | None
    ) -> bool:
        """Record that the run is alive, also during long searches; return False if it was deleted."""
        done = ("", 0, 0) if progress is None else (progress.strategy, progress.done, progress.total)
        try:
            await self._retriever.require_live(collection)
            return await self._evaluations.seen(run.id, *done)
        except Transient:  # the next heartbeat tries again
            return True

    async def aclose(self) -> None:
        """Interrupt the running evaluations."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass(slots=True)
class _Progress:
    last: EvaluationProgress | None = None


async def _evaluate(items: AsyncGenerator[EvaluationProgress | Json, None], progress: _Progress) -> Json:
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
    requested = error.retry_after.total_seconds() if isinstance(error, Transient) and error.retry_after else 0.0
    return max(requested, _PAUSE(state))


# Retry while an engine or a provider is unavailable, because a failed run would waste its costs.
_with_retries = tenacity.retry(
    retry=tenacity.retry_if_exception(lambda e: isinstance(e, Transient) and not isinstance(e, Misconfigured)),
    stop=tenacity.stop_before_delay(_TIMEOUT),
    wait=_pause,
    reraise=True,
)
