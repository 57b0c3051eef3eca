"""Evaluations under way at this process. They belong to the ledger, not to the request that began them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial

import structlog

from api.http.problems import TooManyRequests
from api.http.slots import Slot, Slots
from shared.domain.errors import ForeaskError
from shared.domain.records import Collection
from shared.ledger.evaluations import EvaluationRun, Evaluations, RunState
from shared.query.evaluate.collection import EvaluationProgress, LabelledQuestion, evaluate_collection
from shared.query.evaluate.strategies import Strategy
from shared.query.retrieve import Retriever

_MOST = 4  # at this process; a tenant has half of them at most
_EVERY_SECONDS = 1.0  # progress is written

log = structlog.get_logger()


class EvaluationRunner:
    """Runs evaluations beside the requests, and writes what they find into the ledger.

    Args:
        evaluations: where runs are written.
        retriever: searches as it does for users, but nothing is written into the log of queries.
    """

    def __init__(self, evaluations: Evaluations, retriever: Retriever) -> None:
        self._evaluations = evaluations
        self._retriever = retriever
        self._slots = Slots(_MOST)
        self._tasks = set[asyncio.Task[None]]()

    async def begin(
        self,
        collection: Collection,
        labelled_set: str | None,
        questions: Sequence[LabelledQuestion],
        strategies: Sequence[Strategy],
        baseline: str,
    ) -> EvaluationRun:
        """Begin a run, and return it as it stands.

        Raises:
            TooManyRequests: the tenant has as many under way at this process as it may have.
            Unavailable: the process has no room for one.
        """
        slot = self._slots.take()
        try:
            if not slot.hold_for(collection.tenant):
                raise TooManyRequests("This tenant has evaluations under way, and no more may be: wait until one ends.")
            count = len({question.question for question in questions})
            run = await self._evaluations.begin(collection.tenant, collection.name, labelled_set, count)
        except BaseException:
            slot.release()
            raise
        task = asyncio.create_task(self._run(run, collection, questions, strategies, baseline))
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
    ) -> None:
        find = partial(self._retriever.retrieve, collection)
        try:
            written = 0.0
            async with aclosing(evaluate_collection(find, collection, questions, strategies, baseline)) as items:
                async for item in items:
                    if not isinstance(item, EvaluationProgress):
                        await self._evaluations.end(run.id, RunState.DONE, results=item)
                    elif time.monotonic() - written >= _EVERY_SECONDS:
                        written = time.monotonic()
                        if not await self._evaluations.seen(run.id, item.strategy, item.done, item.total):
                            return
        except asyncio.CancelledError:
            await self._evaluations.end(run.id, RunState.INTERRUPTED)
            raise
        except ForeaskError as error:
            await self._evaluations.end(run.id, RunState.FAILED, error=error.message)
        except Exception as error:  # nobody waits for this task
            log.exception("evaluation.failed", error=type(error).__name__)
            await self._evaluations.end(run.id, RunState.FAILED, error="The evaluation failed; the log says why.")

    async def aclose(self) -> None:
        """Interrupt what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
