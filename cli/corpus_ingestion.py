"""Ingestion of a corpus: upload its rows in batches and follow its job until no document is pending."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import orjson
from foreask_client import BatchLine, Job

from cli.client import CliClient, problem_of
from cli.corpus import Corpus
from cli.ingestion import SEARCHABLE
from cli.meter import IngestCounts
from features.sources.tables.formats import READABLE_BY, TableRow, Truncated
from shared.domain.errors import Transient

BATCHES_AT_ONCE = 4
_BATCH_ROWS = 500
_BATCH_BYTES = 2 * 1024 * 1024
_SHOWN = 20
_UNAVAILABLE_ROUNDS = 10
_NOT_SEARCHABLE = ("queued", "parsing", "reading", "indexing")

Until = Literal["searchable", "ready"]


@dataclass(slots=True)
class CorpusLoad:
    """Results of the uploaded rows.

    Args:
        total: number of rows in the corpus.
        accepted: number of documents that are new or have new content.
        unchanged: number of documents that were stored already.
        rejected: number of rows that are not valid documents or were rejected by the server.
        reasons: reason of each of the first rejections, by row number.
    """

    total: int
    accepted: int = 0
    unchanged: int = 0
    rejected: int = 0
    reasons: dict[int, str] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return self.accepted + self.unchanged + self.rejected

    def reject(self, number: int, reason: str) -> None:
        self.rejected += 1
        if len(self.reasons) < _SHOWN:
            self.reasons[number] = reason

    def record(self, number: int, line: BatchLine) -> None:
        """Record the result of a row."""
        match line.status:
            case 202:
                self.accepted += 1
            case 200:
                self.unchanged += 1
            case _:
                self.reject(number, problem_of(line))


@dataclass(slots=True)
class _RowBatch:
    """The encoded rows of one request."""

    numbers: list[int] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    lines: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, number: int, external_id: str, line: bytes) -> None:
        self.numbers.append(number)
        self.ids.add(external_id)
        self.lines.append(line)
        self.size_bytes += len(line)

    @property
    def full(self) -> bool:
        return len(self.lines) >= _BATCH_ROWS or self.size_bytes >= _BATCH_BYTES


def upload_rows(
    client: CliClient,
    corpus: Corpus,
    collection: str,
    load: CorpusLoad,
    *,
    lane: Literal["bulk", "batch"] | None = None,
    job: str | None = None,
    readable_by: Sequence[str] | None = None,
) -> Iterator[None]:
    """Upload every row, several batches at once, and yield after each batch.

    Rows with the same external id are uploaded one after another, and the last one wins. An interrupted upload can be
    started again, because documents that are stored already are not stored twice.

    Args:
        client: the client.
        corpus: the rows.
        collection: name of the collection.
        load: receives the results.
        lane: lane of the documents.
        job: id of an open load.
        readable_by: readers of documents whose rows name none; None: as before.

    Raises:
        Truncated: the file is truncated; the rows before the end were uploaded.
        Unavailable: the server was unavailable for all attempts.
    """
    pool = ThreadPoolExecutor(BATCHES_AT_ONCE)
    running: deque[tuple[Future[list[BatchLine]], _RowBatch]] = deque()
    truncated: list[Truncated] = []
    try:
        for batch in _batches(_until_truncated(corpus.rows(), truncated), load, readable_by):
            while len(running) == BATCHES_AT_ONCE or any(not batch.ids.isdisjoint(other.ids) for _, other in running):
                _record_first(running, load)
                yield
            uploading = pool.submit(client.upload_batch, batch.lines, collection=collection, lane=lane, job=job)
            running.append((uploading, batch))
        while running:
            _record_first(running, load)
            yield
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if truncated:
        raise truncated[0]


def _record_first(running: deque[tuple[Future[list[BatchLine]], _RowBatch]], load: CorpusLoad) -> None:
    future, batch = running.popleft()
    for number, line in zip(batch.numbers, future.result(), strict=True):
        load.record(number, line)


def _until_truncated(rows: Iterable[TableRow], truncated: list[Truncated]) -> Iterator[TableRow]:
    """Yield the rows. If the file is truncated, append the error to a list instead of raising it."""
    try:
        yield from rows
    except Truncated as error:
        truncated.append(error)


def _batches(rows: Iterable[TableRow], load: CorpusLoad, readable_by: Sequence[str] | None) -> Iterator[_RowBatch]:
    batch = _RowBatch()
    readers = {} if readable_by is None else {READABLE_BY: list(readable_by)}
    for row in rows:
        if row.document is None:
            load.reject(row.number, row.rejection or "")
            continue
        name = row.document["external_id"]
        if name in batch.ids or batch.full:
            yield batch
            batch = _RowBatch()
        try:
            batch.add(row.number, name, orjson.dumps(readers | row.document))
        except orjson.JSONEncodeError as error:
            load.reject(row.number, f"It cannot be sent as JSON: {error}.")
    if batch.lines:
        yield batch


def follow(
    client: CliClient,
    job: str,
    until: Until,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Job]:
    """Yield a job repeatedly, until none of its documents is pending.

    Raises:
        Unavailable: the server was unavailable for more than ten rounds.
    """
    failures = 0
    while True:
        started = clock()
        try:
            shown = client.job(job)
            failures = 0
        except Transient:
            failures += 1
            if failures > _UNAVAILABLE_ROUNDS:
                raise
        else:
            yield shown
            if not pending_documents(shown.documents, until):
                return
        sleep(max(1.0, (clock() - started) * 4))


def pending_documents(states: Mapping[str, int], until: Until) -> int:
    """Return the number of documents that are not yet searchable, or with `ready` that lack their questions."""
    return sum(states.get(state, 0) for state in (*_NOT_SEARCHABLE, *(("searchable",) if until == "ready" else ())))


def counts_of(states: Mapping[str, int], until: Until) -> IngestCounts:
    """Return the progress of documents by their states."""
    total = sum(states.values())
    return IngestCounts(
        documents=total,
        documents_done=total - pending_documents(states, until),
        failed=states.get("failed", 0),
        searchable=sum(states.get(state, 0) for state in SEARCHABLE),
    )
