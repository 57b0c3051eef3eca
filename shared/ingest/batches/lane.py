"""The batch lane: chunks are planned into batches, and each batch is uploaded, created, polled and collected.

Each step ends with a commit, so that any process can continue after a kill:

| state | committed before the step | continued by |
|---|---|---|
| planning | lines with their leases | more lines, or the end of the planning |
| planned | all lines | another upload: a file costs nothing |
| creating | the file, then the time of the create | a search for the batch: see `_create` |
| running | the provider's id | the next poll |
| collecting | the ids of the result files, then the collected part with its outcomes | the next line |

The calls run in generate workers, which have the provider's key. The scheduler only wakes them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO

import structlog

from shared.broker.wakeups import Wakeups
from shared.domain.errors import ForeaskError, LeaseLost, Permanent, Transient, Unavailable
from shared.domain.stages.batches import Batch, PlannedLine, Unanswered, input_file_name
from shared.domain.stages.generation import ChunkToGenerate
from shared.domain.states import BatchState
from shared.ingest.batches import lines as of_lines
from shared.ingest.batches import probing, rejections
from shared.ingest.batches.collector import ResultCollector
from shared.ingest.batches.lines import Lines
from shared.ledger.work.batches import Batches
from shared.process.clock import elapsed_seconds
from shared.process.telemetry import metrics
from shared.providers.batches import BatchError, BatchMissing, BatchProvider, ProviderBatch, found
from shared.providers.errors.answers import said
from shared.providers.limiter.endings import Endings

_FIRST_LINE_BYTES = 8_192  # assumed until lines were planned
_BYTES_PER_TOKEN = 4  # of a file, estimated
_SHARE_OF_LIMIT = 4  # a batch has at most a quarter of the tokens that the provider enqueues
_LOOKS = (36, 12, 3, 1)  # the list is read this fraction of its lag after a create: after 5, 15, 60 and 180 s
_MOST_POLLS = 10  # longest pause between two polls, relative to the shortest
_PROBE_AGAIN_AFTER = timedelta(days=1)
_GONE_AFTER = 60  # polls without an object before it counts as lost: an hour
_FOREIGN = "its provider is not configured any more"
_OVER_LIMIT = "token_limit_exceeded"
_NAMED_LIMIT = re.compile(r"[Ll]imit:? ([\d,]+)")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """Limits and times of batches.

    Args:
        enabled: whether batches are planned; existing ones are always continued.
        min_lines: fewer chunks are generated live.
        max_lines: most lines of a batch.
        max_bytes: planning ends when the file has this size; the file is built in memory.
        wait: time without another chunk after which planning ends.
        poll: shortest pause between two polls.
        list_lag: time after which the provider's list certainly contains a batch.
        stalled: a batch without progress for this time is cancelled.
        queue_tokens: tokens that the provider enqueues in all batches, as configured; None: unknown until it refuses a
            batch.
    """

    enabled: bool
    min_lines: int
    max_lines: int
    max_bytes: int
    wait: timedelta
    poll: timedelta
    list_lag: timedelta
    stalled: timedelta
    queue_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class BatchLane:
    """The work on batches of one provider and model.

    Args:
        provider: name of the provider, its address.
        api: the provider's batch API.
        batches: batches in the ledger.
        lines: conversion of lines.
        terms: limits and times.
        wakeups: wakes the workers of the next stage.
        endings: endings of the model's calls, by which a tenant's load pauses.
    """

    provider: str
    api: BatchProvider
    batches: Batches
    lines: Lines
    terms: BatchTerms
    wakeups: Wakeups
    endings: Endings

    async def work(self, stopping: asyncio.Event) -> None:
        """Plan batches, and continue batches until none is due.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        while not stopping.is_set():
            await self._plan()
            claimed_at = elapsed_seconds()
            batch = await self.batches.claim(self.provider)
            if batch is None:
                return
            async with self._extended(batch, claimed_at) as require_lease:
                await self._continue(batch, require_lease)

    async def _plan(self) -> None:
        """Start batches for waiting chunks, or move the chunks to the bulk lane if there will be no batch."""
        if not self.terms.enabled or self.lines.defaults.generation.strategy != "list":
            await self._leave_lane()
            return
        model = self.lines.model
        probe = await self.batches.probe(self.provider, model)
        if probe is not None and probe.state is BatchState.DONE:
            await self.batches.start(self.provider, model, pause=_MOST_POLLS * self.terms.poll)
            return
        if probe is not None and probe.state is BatchState.FAILED:
            await self._leave_lane()
        await self.batches.start_probe(self.provider, model, lines=probing.LINES, pause=_PROBE_AGAIN_AFTER)

    async def _leave_lane(self) -> None:
        while await self.batches.leave_lane():
            self.wakeups.wake("generate")

    @asynccontextmanager
    async def _extended(self, batch: Batch, claimed_at: float) -> AsyncIterator[Callable[[], None]]:
        """Extend the claim of a batch within the block; yield a function that raises LeaseLost if it may have ended."""
        until = claimed_at + self.batches.lease.total_seconds()

        def require_lease() -> None:
            if elapsed_seconds() >= until:
                raise LeaseLost("the lease on the batch may have ended")

        async def extend() -> None:
            nonlocal until
            while True:
                await asyncio.sleep(self.batches.lease.total_seconds() / 3)
                requested_at = elapsed_seconds()
                try:
                    await self.batches.extend(batch)
                except LeaseLost:
                    until = requested_at
                    return
                except Transient as error:
                    log.warning("heartbeat.failed", batch_id=str(batch.id), reason=error.message)
                else:
                    until = requested_at + self.batches.lease.total_seconds()

        extending = asyncio.create_task(extend())
        try:
            yield require_lease
        finally:
            extending.cancel()
            await asyncio.gather(extending, return_exceptions=True)

    async def _continue(self, batch: Batch, require_lease: Callable[[], None]) -> None:
        """Do one step of a batch; after an error it is due again."""
        with structlog.contextvars.bound_contextvars(batch_id=str(batch.id), tenant=batch.tenant, state=batch.state):
            try:
                await self._step(batch, require_lease)
            except LeaseLost as error:
                log.warning("batch.lost", reason=error.message)
            except ForeaskError as error:
                log.warning("batch.delayed", reason=error.message)
                await self._postpone(batch, error)
            except Exception as error:  # the boundary of a batch: one must not stop all others
                log.exception("batch.raised")
                await self._postpone(batch, error)

    async def _postpone(self, batch: Batch, error: Exception) -> None:
        after = error.retry_after if isinstance(error, Transient) else None
        with suppress(LeaseLost):
            await self.batches.postpone(batch, min(after or self.terms.poll, _MOST_POLLS * self.terms.poll))

    async def _step(self, batch: Batch, require_lease: Callable[[], None]) -> None:
        if batch.foreign and batch.state is not BatchState.COLLECTING:
            await self.batches.ended(batch, unanswered=Unanswered.LATER, error=_FOREIGN)
            return
        match batch.state:
            case BatchState.PLANNING:
                await self._fill(batch)
            case BatchState.PLANNED:
                await self._upload(batch, require_lease)
            case BatchState.CREATING:
                await self._create(batch, require_lease)
            case BatchState.RUNNING:
                await self._poll(batch)
            case BatchState.COLLECTING:
                await self._collect(batch, require_lease)

    # Planning

    async def _fill(self, batch: Batch) -> None:
        """Add chunks until the batch is full, or no chunk has become due for a while."""
        if batch.cancelled:
            await self.batches.ended(batch, unanswered=batch.after_cancellation)
            return
        if (bound := await self._bound(batch)) is not None:
            await self._fill_paused(batch, bound)
            return
        enqueued = await self.batches.enqueued(self.provider)
        most_bytes = self.terms.max_bytes
        limits = [limit for limit in (enqueued.token_limit, self.terms.queue_tokens) if limit is not None]
        if limits:
            limit_bytes = min(limits) * _BYTES_PER_TOKEN
            most_bytes = min(most_bytes, limit_bytes // _SHARE_OF_LIMIT)
            if enqueued.bytes and enqueued.bytes + most_bytes > limit_bytes:
                await self.batches.postpone(batch, self.terms.poll)
                return
        if batch.model != self.lines.model:
            await self.batches.seal(batch)  # its lines are dropped: they need calls of the new model
            return
        lines, is_full = await self._add_chunks(batch, most_bytes)
        if is_full:
            await self.batches.seal(batch)
        elif lines > batch.lines or batch.since_added < self.terms.wait:
            await self.batches.postpone(batch, self.terms.wait / 4)
        elif lines < self.terms.min_lines:
            log.info("batch.too_small", lines=lines)
            await self.batches.ended(batch, unanswered=Unanswered.LIVE)
        else:
            await self.batches.seal(batch)

    async def _bound(self, batch: Batch) -> int | None:
        """Return the number of chunks that the tenant may hold, if its load is paused or recovers."""
        return None if batch.tenant is None else (await self.endings.bounds()).get(batch.tenant)

    async def _fill_paused(self, batch: Batch, bound: int) -> None:
        """Plan no batch while the load is paused: trials are live calls, because a batch ends hours later."""
        if batch.lines:
            await self.batches.ended(batch, unanswered=Unanswered.LATER)
            return
        lines = 0
        if bound:
            lines, _ = await self._add_chunks(batch, self.terms.max_bytes, most=bound)
        if lines:
            await self.batches.ended(batch, unanswered=Unanswered.LIVE)
        else:
            await self.batches.postpone(batch, self.terms.poll)

    async def _add_chunks(self, batch: Batch, most_bytes: int, most: int | None = None) -> tuple[int, bool]:
        """Add due chunks, at most `most`; return the number of lines, and whether the batch is full."""
        lines, size = batch.lines, batch.bytes
        planned: list[int] = []

        def line_of(chunk: ChunkToGenerate) -> PlannedLine:
            line = self.lines.planned(chunk)
            planned.append(line.bytes)
            return line

        most_lines = self.terms.max_lines if most is None else most
        while lines < most_lines and size < most_bytes:
            planned.clear()
            line_bytes = size // lines if lines else _FIRST_LINE_BYTES
            room = min(most_lines - lines, max(1, (most_bytes - size) // line_bytes))
            claimed = await self.batches.fill(
                batch, room, key_of=self.lines.key_of, line_of=line_of, reserve_of=self.lines.reserve_of
            )
            lines += len(claimed.chunks)
            size += sum(planned[-len(claimed.chunks) :]) if claimed.chunks else 0
            if claimed.paid_already:
                self.wakeups.wake("index")
            if not (claimed.chunks or claimed.paid_already or claimed.left):
                return lines, False
        return lines, True

    # Submission

    async def _upload(self, batch: Batch, require_lease: Callable[[], None]) -> None:
        """Upload the input file, which is a function of the rows; lines that need no call any more are dropped."""
        if batch.cancelled:
            await self.batches.ended(batch, unanswered=batch.after_cancellation)
            return
        if await self._bound(batch) is not None:
            await self.batches.ended(batch, unanswered=Unanswered.LATER)
            return
        content = await self._content(batch)
        if not content.getbuffer().nbytes:
            await self.batches.ended(batch, unanswered=Unanswered.LATER)
            return
        await self._delete_inputs(batch, require_lease)
        require_lease()
        try:
            file_id = await self.api.upload(input_file_name(batch.id), content)
        except Permanent as error:
            await self.batches.ended(batch, error=error.message)
            return
        await self.batches.uploaded(batch, file_id)

    async def _delete_inputs(self, batch: Batch, require_lease: Callable[[], None]) -> None:
        """Delete the batch's input files at the provider, including files with ids that a dying process has lost.

        Raises:
            Transient: the provider does not answer.
        """
        found: set[str] = set() if batch.file_id is None else {batch.file_id}
        try:
            found |= {id_ for id_, name in await self.api.input_files() if name == input_file_name(batch.id)}
        except Permanent as error:  # it lists no files
            log.warning("batch.files_unlisted", reason=error.message)
        for file_id in found:
            require_lease()
            await self.api.delete_file(file_id)

    async def _content(self, batch: Batch) -> BytesIO:
        if batch.tenant is None:
            return BytesIO(probing.content(self.lines.model))
        content, after, dropped = BytesIO(), 0, list[int]()
        while slice_ := await self.batches.contents(batch, after):
            for line in slice_:
                rendered = self.lines.rendered(batch.tenant, line)
                if rendered is None:
                    dropped.append(line.token)
                else:
                    content.write(rendered)
            after = slice_[-1].token
        if dropped:
            await self.batches.drop_lines(batch, dropped)
        content.seek(0)
        return content

    async def _create(self, batch: Batch, require_lease: Callable[[], None]) -> None:
        """Adopt the provider's batch if it exists, or create it.

        No provider has a key that makes a repeated create harmless, and the reply to a create may be lost. Therefore
        the list of batches is read, completely, before every create. After a create whose result is unknown, the list
        is read until a batch would certainly be in it. Then the input file is deleted, so that a delayed create can
        succeed no more, and another file is uploaded.
        """
        assert batch.file_id is not None
        try:
            listed = await self.api.list_since(batch.created_at)
            if known := found(listed, str(batch.id), batch.file_id):
                log.info("batch.adopted", provider_id=known.id)
                await self._started(batch, known)
            elif batch.since_tried is not None and batch.since_tried < self.terms.list_lag:
                await self.batches.postpone(batch, self._next_look(batch.since_tried))
            elif batch.cancelled:
                await self.batches.ended(batch, unanswered=batch.after_cancellation)
            elif batch.since_tried is not None:
                await self.api.delete_file(batch.file_id)
                await self.batches.upload_again(batch)
            else:
                await self.batches.try_create(batch)
                require_lease()
                await self._started(batch, await self.api.create(batch.file_id, str(batch.id)))
                log.info("batch.created", lines=batch.lines)
        except Permanent as error:  # the provider has rejected it, or has no list
            await self.batches.ended(batch, error=error.message)
        except Transient as error:
            if isinstance(error, LeaseLost):
                raise
            log.warning("batch.unknown", reason=error.message)
            await self.batches.postpone(batch, self._next_look(batch.since_tried or timedelta()))

    def _next_look(self, since_tried: timedelta) -> timedelta:
        looks = (self.terms.list_lag / part for part in _LOOKS)
        return next((look - since_tried for look in looks if look > since_tried), self.terms.poll)

    async def _started(self, batch: Batch, known: ProviderBatch) -> None:
        await self.batches.started(batch, known.id, poll_after=self.terms.poll)

    # Progress

    async def _poll(self, batch: Batch) -> None:
        assert batch.provider_id is not None
        try:
            known = await self.api.get(batch.provider_id)
        except BatchMissing as error:
            if batch.since_progress < _GONE_AFTER * self.terms.poll:
                raise
            await self.batches.ended(batch, unanswered=Unanswered.UNKNOWN, error=error.message)
            return
        if known.has_ended:
            await self._ended(batch, known)
            return
        if known.status != "cancelling" and (batch.cancelled or batch.since_progress >= self.terms.stalled):
            log.warning("batch.cancelled", requested=batch.cancelled)
            with suppress(Unavailable):  # 409: it has ended; after any other error, the next poll tries again
                await self.api.cancel(known.id)
        elif batch.since_progress >= 2 * self.terms.stalled:
            reason = "the provider did not end the batch after its cancellation"
            await self.batches.ended(batch, unanswered=Unanswered.UNKNOWN, error=reason)
            return
        longest = _MOST_POLLS * self.terms.poll
        usual = max(self.terms.poll, min(longest, (batch.since_submitted or timedelta()) / _MOST_POLLS))
        await self.batches.polled(batch, known.done, poll_after=self.terms.poll if batch.cancelled else usual)

    async def _ended(self, batch: Batch, known: ProviderBatch) -> None:
        log.info("batch.ended", status=known.status, done=known.done)
        if known.was_rejected:
            await self._rejected(batch, known)
            return
        if known.has_lost_results:
            reason = "the provider failed the batch after some requests, and shows no results"
            await self.batches.ended(batch, unanswered=Unanswered.UNKNOWN, error=reason)
            return
        await self.batches.ended(
            batch,
            output_file_id=known.output_file_id,
            error_file_id=known.error_file_id,
            done=known.done,
            unanswered=batch.after_cancellation if batch.cancelled else Unanswered.AGAIN,
        )

    async def _rejected(self, batch: Batch, known: ProviderBatch) -> None:
        """Plan the lines of a batch again that the provider has rejected as a whole; nothing was executed."""
        first = known.errors[0] if known.errors else BatchError(None, "", None)
        named = f" ({first.code})" if first.code else ""
        rejection = self.api.rejection(first)
        error = f"the provider rejected the batch{named}{said(rejection.words)}"
        if first.code == _OVER_LIMIT:
            await self._over_limit(batch, error, await self._limit_in(first.message))
        elif batch.is_probe or batch.cancelled or isinstance(rejection, Transient):
            # The lines are not the reason: the account or the model is.
            await self.batches.ended(
                batch, unanswered=batch.after_cancellation if batch.cancelled else Unanswered.AGAIN, error=error
            )
        else:
            await self._divide(batch, known, error)

    async def _divide(self, batch: Batch, known: ProviderBatch, error: str) -> None:
        """End a rejected batch: the lines that the provider names fail, and others are moved to new batches.

        Each new batch is complete when it is committed. After a kill, the remaining lines are divided in the same way.
        """
        named = {each.line: each for each in known.errors if each.line is not None}
        # Numbers count the lines of the file: of another file, or after lines were moved, they name other lines.
        is_numbered = known.input_file_id in ("", batch.file_id) and not batch.settled
        verdict = rejections.decide(
            named.keys() if is_numbered else (),
            lines=batch.lines,
            min_lines=self.terms.min_lines,
            failures=1 + await self.batches.failures(batch),
        )
        lines = await self.batches.numbered(batch, verdict.refused)
        refused = [
            of_lines.failed(line, batch.model, self.api.rejection(named[number])) for number, line in lines.items()
        ]
        if verdict.part_lines:
            await self.batches.renew_leases(batch)
        is_left = await self.batches.divide(batch, refused, verdict.part_lines)
        while is_left and verdict.part_lines:
            is_left = await self.batches.divide(batch, [], verdict.part_lines)
        await self.batches.ended(batch, unanswered=Unanswered.LIVE, error=error)
        metrics.SETTLED.labels("generate", "dead").inc(len(refused))
        self.wakeups.wake("index")  # the text of a line without questions is complete
        log.warning("batch.divided", refused=len(refused), part_lines=verdict.part_lines)

    async def _over_limit(self, batch: Batch, error: str, limit: int) -> None:
        """End a batch that exceeds the provider's limit of enqueued tokens: its lines go to smaller ones."""
        # A single line above the limit would fail forever.
        unanswered = Unanswered.AGAIN if batch.lines == 1 else Unanswered.LATER
        await self.batches.ended(batch, unanswered=unanswered, error=error, token_limit=limit)

    async def _limit_in(self, message: str) -> int:
        """Return the limit of enqueued tokens that a message names, or else three quarters of the enqueued tokens."""
        named = _NAMED_LIMIT.search(message)
        if named:
            return int(named[1].replace(",", ""))
        enqueued = await self.batches.enqueued(self.provider)
        return enqueued.bytes // _BYTES_PER_TOKEN * 3 // 4

    # Collection

    async def _collect(self, batch: Batch, require_lease: Callable[[], None]) -> None:
        error = batch.error
        if batch.is_probe:
            error = error or await probing.fault_of(self.api, batch, self.terms.list_lag)
        else:
            error = await self._collect_lines(batch) or error
        if not batch.foreign:
            for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
                await self.api.delete_file(file_id)
            await self._delete_inputs(batch, require_lease)
        await self.batches.finish(batch, error)
        log.info("batch.finished", lines=batch.lines, error=error)

    async def _collect_lines(self, batch: Batch) -> str | None:
        """Settle all lines; return an error if a result file is lost."""
        if not await self.batches.unanswered(batch, 1):
            return None  # a process that ended after it had settled all lines may have deleted the files
        collection = ResultCollector(
            self.api, self.batches, self.lines, self.wakeups, batch, endings=self.endings, later=self.terms.poll
        )
        error = _FOREIGN if batch.foreign else None
        files = () if batch.foreign else ((True, batch.output_file_id), (False, batch.error_file_id))
        for is_output, file_id in files:
            try:
                if file_id is not None:
                    await collection.read(file_id, is_output=is_output)
            except BatchMissing:
                if batch.since_progress < _GONE_AFTER * self.terms.poll:
                    raise
                error = "the provider has lost the results"
                log.exception("batch.results_lost", file_id=file_id)
        # The provider may have charged for results that were never read.
        abandoned = batch.foreign and batch.file_id is not None
        is_bill_incomplete = error is not None or abandoned or batch.unanswered is Unanswered.UNKNOWN
        await collection.settle_unanswered(is_bill_incomplete=is_bill_incomplete)
        return error
