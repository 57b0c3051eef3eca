"""The log of queries, so that feedback can refer to a query by its id.

A query waits until its row is written, because the reply contains the row's id. It waits a limited time, and not at all
while the ledger is unavailable; the reply then has no id. One row takes 0.7 ms of the query's time, half of it CPU
time; sixteen rows written together take 0.07 ms of CPU time each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextvars import Context
from datetime import timedelta
from uuid import UUID, uuid4

import structlog

from shared.domain.errors import ForeaskError
from shared.domain.spending.usage import Usage
from shared.ledger.feedback.query_log import QueryLog, QueryLogEntry, QueryOutcome, digest_of
from shared.query.answer import Answer
from shared.query.retrieve import Retrieval
from shared.query.retrieve.trace import Trace

_PAUSE_SECONDS = 1.0  # after a failure, before the ledger is tried again

log = structlog.get_logger()


class QueryLogWriter:
    """Writes queries to the log. Queries that arrive during a write form the next group.

    Args:
        queries: log in the ledger.
        enabled: if False, nothing is written and no query has an id.
        budget: maximum time that a query waits for its row.
        keeps_digests: whether digests of answers are stored, so that the answers can be shared.
        keeps_answers: whether the texts of answers are stored.
        model: name of the language model.
    """

    def __init__(
        self,
        queries: QueryLog,
        *,
        enabled: bool,
        budget: timedelta,
        keeps_digests: bool = False,
        keeps_answers: bool = False,
        model: str | None = None,
    ) -> None:
        self._queries = queries
        self._enabled = enabled
        self._keeps_digests = keeps_digests
        self._keeps_answers = keeps_answers
        self._model = model
        self._budget = budget.total_seconds()
        self._waiting: list[tuple[QueryLogEntry, asyncio.Future[bool]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self._late = False  # a query stopped waiting for the running write, so others do not wait for it

    async def record(self, retrieval: Retrieval, question: str, key_id: UUID | None) -> UUID | None:
        """Write the query and return its id; None if the log is disabled, or the ledger is slow or unavailable.

        Args:
            retrieval: the searched collection, the returned chunks, and the duration of each stage.
            question: the user's question.
            key_id: the key in the ledger that asked; None for a key of the settings, or without keys.
        """
        if not self._enabled or self._late or time.monotonic() < self._not_before:
            return None
        query = _entry(retrieval, question, key_id)
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((query, written))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), context=Context())  # no request ids in its log lines
        done, _ = await asyncio.wait({written}, timeout=self._budget)
        self._late = self._late or (not done and self._writing is not None)
        return query.id if done and written.result() else None

    async def note(
        self, retrieval: Retrieval, answer: Answer, *, usage: Usage, milliseconds: float, can_be_shared: bool = False
    ) -> None:
        """Record the answer to a query; the row assumes that none was written.

        Args:
            retrieval: the retrieval of the query. Nothing is recorded if the query has no id.
            answer: its answer.
            usage: tokens of the language model.
            milliseconds: duration of the query.
            can_be_shared: whether the chunks contain the complete passages of the answer.
        """
        if retrieval.query_id is None:
            return
        chunk_ids = [chunk.chunk_id for chunk in retrieval.chunks]
        is_identified = answer.found and can_be_shared and self._keeps_digests
        outcome = QueryOutcome(
            milliseconds=_named(retrieval.trace) | {"total": milliseconds},
            form=answer.form,
            incomplete_reason=answer.incomplete_reason,
            cited=answer.cited,
            model=self._model if usage != Usage() else None,
            usage=usage,
        )
        try:
            async with asyncio.timeout(self._budget):
                await self._queries.record(
                    retrieval.query_id,
                    outcome,
                    found=answer.found,
                    certain=answer.found and answer.is_certain,
                    digest=digest_of(answer.text, chunk_ids) if is_identified else None,
                    answer=answer.text if self._keeps_answers else None,
                    chunk_ids=chunk_ids,
                )
        except (ForeaskError, TimeoutError) as error:
            log.warning("query_log.failed", query_id=str(retrieval.query_id), reason=str(error))

    async def aclose(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                succeeded = await self._write_group([query for query, _ in group])
                self._late = False
                for _, written in group:
                    written.set_result(succeeded)
        finally:
            self._writing, self._late = None, False

    async def _write_group(self, queries: Sequence[QueryLogEntry]) -> bool:
        try:
            await self._queries.append(queries)
        except ForeaskError as error:
            self._not_before = time.monotonic() + _PAUSE_SECONDS
            log.warning("query_log.failed", queries=len(queries), reason=error.message)
            return False
        return True


def _named(trace: Trace) -> dict[str, float]:
    """Return the milliseconds of a query's steps by their names."""
    return {str(step): milliseconds for step, milliseconds in trace.milliseconds.items()}


def _entry(retrieval: Retrieval, question: str, key_id: UUID | None) -> QueryLogEntry:
    collection, chunks = retrieval.collection, retrieval.chunks
    return QueryLogEntry(
        uuid4(),
        collection.tenant,
        collection.id,
        question,
        [chunk.chunk_id for chunk in chunks],
        chunks[0].score if chunks else None,
        key_id,
        [chunk.score for chunk in chunks],
        _named(retrieval.trace),
    )
