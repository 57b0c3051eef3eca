"""The collection of a batch: each outcome is committed together with the collected part of its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import timedelta

import structlog

from shared.broker.wakeups import Wakeups
from shared.domain.errors import ForeaskError, Permanent
from shared.domain.retry import Dead
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.batches import Batch, Unanswered
from shared.domain.stages.generation import GenerateOutcome, SentLine
from shared.ingest.batches import lines as of_lines
from shared.ingest.batches.lines import Lines
from shared.ledger.work.batches import Batches
from shared.process.telemetry import metrics
from shared.providers.batches import BatchProvider, BatchReply, NotDone, ResultLine
from shared.providers.chat import Completion
from shared.providers.limiter.endings import USABLE, WINDOW, Endings
from shared.providers.replies.json_replies import MalformedReply

_ENOUGH_REFUSALS = 5
_NO_TRIAL = 0  # no lease has this token
_SLICE = 500  # lines settled in one transaction

log = structlog.get_logger()


class ResultCollector:
    """Settles the lines of a claimed batch, at most 500 in one transaction.

    Args:
        api: the provider's batch API.
        batches: batches in the ledger.
        lines: conversion of lines.
        wakeups: wakes the workers of the next stage.
        batch: the batch.
        endings: receives the endings of the lines.
        later: pause before a batch that may succeed unchanged.
    """

    def __init__(
        self,
        api: BatchProvider,
        batches: Batches,
        lines: Lines,
        wakeups: Wakeups,
        batch: Batch,
        *,
        endings: Endings,
        later: timedelta,
    ) -> None:
        self._api = api
        self._batches = batches
        self._lines = lines
        self._wakeups = wakeups
        self._batch = batch
        self._endings = endings
        self._later = later
        self._output_bytes = batch.output_bytes
        self._error_bytes = batch.error_bytes
        self._collected = (batch.output_bytes, batch.error_bytes)  # committed

    async def read(self, file_id: str, *, is_output: bool) -> None:
        """Settle the lines of a file after the part that is collected already."""
        group: list[ResultLine] = []
        async with aclosing(self._api.lines(file_id, self._output_bytes if is_output else self._error_bytes)) as lines:
            async for line in lines:
                group.append(line)
                if len(group) == _SLICE:
                    await self._settle_group(group, is_output=is_output)
                    group = []
        if group:
            await self._settle_group(group, is_output=is_output)

    async def _settle_group(self, group: Sequence[ResultLine], *, is_output: bool) -> None:
        results: dict[int, Completion | ForeaskError] = {}
        refusals: list[BatchReply] = []
        unreadable = 0
        for line in group:
            reply = self._api.reply(line.content)
            token = None if reply is None else of_lines.token_of(reply)
            if reply is None or token is None:
                unreadable += bool(line.content.strip())
            elif not isinstance(results.get(token), Completion):  # the first good line of a request counts
                results[token] = of_lines.with_prompt(reply.result, self._batch)
                refusals += [reply] if of_lines.is_refusal_of_any(reply.result) else []
        sent = await self._batches.sent(self._batch, results.keys())
        if unreadable or len(sent) < len(results):
            log.warning("batch.unexpected_lines", unreadable=unreadable, unknown=len(results) - len(sent))
        if is_output:
            self._output_bytes = group[-1].end
        else:
            self._error_bytes = group[-1].end
        # A few texts may be refused with words that name a field; the live call of each decides.
        is_of_all = self._batch.output_file_id is None and len(refusals) == len(results) >= _ENOUGH_REFUSALS
        again = is_of_all and self._lines.learn(refusals)
        await self._settle([(line, results[token]) for token, line in sent.items()], again=again)

    async def _settle(
        self, results: Sequence[tuple[SentLine, Completion | ForeaskError]], *, again: bool = False
    ) -> None:
        """Settle lines in the same way as a worker's outcomes.

        Args:
            results: lines with their results.
            again: whether refused lines are sent in another batch, without the field that was refused.
        """
        model = self._batch.model
        outcomes: list[GenerateOutcome | FailedAttempt] = []
        endings: list[str] = []
        useless: list[tuple[SentLine, Completion, MalformedReply]] = []
        live: set[int] = set()
        for line, result in results:
            if isinstance(result, NotDone):
                outcomes.append(self._unanswered(line))
                live |= self._live([line])
                continue
            if isinstance(result, ForeaskError) and of_lines.is_refusal_of_any(result):
                outcomes.append(of_lines.retry_live(line, model, result))
                live |= set() if again else {line.lease.token}
                continue
            if not isinstance(result, Completion):
                outcomes.append(of_lines.failed(line, model, result))
                endings += of_lines.ending_of(result)
                continue
            questions = of_lines.questions_in(result, line)
            if isinstance(questions, MalformedReply):
                useless.append((line, result, questions))
                endings.append(str(questions))
            else:
                endings.append(USABLE)
                outcomes.append(of_lines.generated(line, model, questions, result))
        repaired = {line.lease.token for line, _, _ in useless}
        contents = await self._batches.contents_of(repaired) if repaired else {}
        for line, completion, fault in useless:
            content = contents.get(line.lease.token)
            reply = self._lines.paid_reply(line.tenant, content, completion)
            outcomes.append(of_lines.malformed(line, model, fault, completion, reply))
        await self._commit(outcomes, live=repaired | live)
        if self._batch.tenant is not None:
            await self._endings.record(self._batch.tenant, _NO_TRIAL, endings[-WINDOW:])

    async def settle_unanswered(self, *, is_bill_incomplete: bool) -> None:
        """Settle the lines that are in no file.

        Args:
            is_bill_incomplete: whether the provider may have charged for these lines.
        """
        while some := await self._batches.unanswered(self._batch, _SLICE):
            outcomes = [self._unanswered(line, is_bill_incomplete=is_bill_incomplete) for line in some]
            await self._commit(outcomes, live=self._live(some))

    def _unanswered(self, line: SentLine, *, is_bill_incomplete: bool = False) -> FailedAttempt:
        kind = self._batch.unanswered
        return of_lines.unanswered(
            line,
            self._batch.model,
            after=self._later if kind is Unanswered.LATER else timedelta(),
            counts=kind in (Unanswered.AGAIN, Unanswered.UNKNOWN),
            is_bill_incomplete=is_bill_incomplete,
        )

    def _live(self, unanswered: Sequence[SentLine]) -> set[int]:
        """Return the tokens of unanswered lines whose next attempt is a live call."""
        return {line.lease.token for line in unanswered} if self._batch.unanswered is Unanswered.LIVE else set()

    async def _commit(self, outcomes: Sequence[GenerateOutcome | FailedAttempt], *, live: Collection[int]) -> None:
        try:
            await self._store(outcomes, live, self._output_bytes, self._error_bytes)
        except Permanent:
            outcomes = await self._commit_each(outcomes, live)
        self._collected = (self._output_bytes, self._error_bytes)
        for kind, count in Counter(map(_kind, outcomes)).items():
            metrics.SETTLED.labels("generate", kind).inc(count)
        self._wakeups.wake("index", "generate")

    async def _commit_each(
        self, outcomes: Sequence[GenerateOutcome | FailedAttempt], live: Collection[int]
    ) -> list[GenerateOutcome | FailedAttempt]:
        """Settle outcomes one by one, because the ledger cannot store one of them; its failure is stored instead.

        The collected part of the files is recorded last, so that a process that dies meanwhile loses no line.
        """
        stored: list[GenerateOutcome | FailedAttempt] = []
        for outcome in outcomes:
            try:
                await self._store([outcome], live, *self._collected)
            except Permanent as error:
                log.exception("settlement.refused", reason=error.message)
                failure = outcome.refused(error.message)
                if failure is None:
                    raise
                await self._store([failure], live, *self._collected)
                stored.append(failure)
            else:
                stored.append(outcome)
        await self._store([], live, self._output_bytes, self._error_bytes)
        return stored

    async def _store(
        self,
        outcomes: Sequence[GenerateOutcome | FailedAttempt],
        live: Collection[int],
        output_bytes: int,
        error_bytes: int,
    ) -> None:
        await self._batches.settle(self._batch, outcomes, live=live, output_bytes=output_bytes, error_bytes=error_bytes)


def _kind(outcome: GenerateOutcome | FailedAttempt) -> str:
    if isinstance(outcome, GenerateOutcome):
        return "done"
    return "dead" if isinstance(outcome.decision, Dead) else "retry"
