"""Ingestion of files: upload them and follow their documents until each is in a final state."""

from __future__ import annotations

import mimetypes
import time
from base64 import b64encode
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Literal, Self

from foreask_client import Document, Job
from foreask_client.models import Json, Lane

from cli import losses
from cli.client import CliClient, problem_of
from cli.meter import IngestCounts
from shared.domain.errors import ForeaskError, Transient

UPLOADS_AT_ONCE = 8
_SMALL_BYTES = 64 << 10
_GROUP_BYTES, _GROUP_FILES = 1 << 20, 100
_FINAL = frozenset({"ready", "degraded", "failed"})
SEARCHABLE = frozenset({"searchable", "ready", "degraded"})
_ENDS = {"ready": _FINAL, "searchable": _FINAL | SEARCHABLE}
_SLICE = 100  # documents in one request
_SLICES = 10  # requests in one round: a round costs the same for a million documents as for a thousand
_SHORTEST_ROUND_SECONDS = 0.5
_ROUND_SHARE = 5  # requests take at most a fifth of the time, which limits the server's load from a large corpus
_UNAVAILABLE_ROUNDS = 10
_FAILURES = frozenset({"breaker", "cooldown", "component_down"})  # causes of `pace`
_WORKING = frozenset({"working", "stalled", "batches", "idle", "limit"})
_NO_WORKER = "no_worker"
_STALLED_SECONDS = 3.0
_START_SECONDS = 20.0  # of a worker on a slow machine, with the first heartbeat
_NO_CHUNKS = dict.fromkeys(("total", "searchable", "generated", "indexed", "dead", "discarded"), 0)

Until = Literal["searchable", "ready"]


@dataclass(frozen=True, slots=True)
class DocumentProgress:
    """The part of a document's state that an ingest needs; a batch may have a million documents.

    `first_loss` is a sentence that names words or a part of the file that did not arrive; None if everything did.
    """

    external_id: str
    state: str
    questions: int = 0
    error: str | None = None
    chunks: Mapping[str, int] = field(default_factory=lambda: _NO_CHUNKS)
    pages: int = 0
    pages_read: int = 0
    pages_unread: int = 0
    first_loss: str | None = None

    @classmethod
    def of(cls, document: Document) -> Self:
        chunks = document.chunks.model_dump()
        return cls(
            document.external_id,
            document.state,
            document.questions,
            document.error,
            chunks,
            document.pages,
            document.pages_read,
            document.pages_unread,
            next(iter(losses.sentences(document)), None),
        )

    def page_counts(self) -> dict[str, int]:
        """Return the numbers of all scanned pages, and of pages that were read or cannot be read."""
        return {"total": self.pages, "done": self.pages_read + self.pages_unread}


@dataclass(slots=True)
class UploadBatch:
    """The files of one ingest, and the last known state of their documents.

    Args:
        total: number of files to upload.
        rejected: reason of the rejection of a file, by external id.
        replaced: number of files that replaced the content of a document with the same external id.
        documents: last known state of each document, by document id.
    """

    total: int
    rejected: dict[str, str] = field(default_factory=dict)
    documents: dict[str, DocumentProgress] = field(default_factory=dict)
    replaced: int = 0
    _states: Counter[str] = field(default_factory=Counter)  # updated incrementally: there may be a million documents
    _chunks: Counter[str] = field(default_factory=Counter)
    _pages: Counter[str] = field(default_factory=Counter)

    def record(self, document_id: str, document: DocumentProgress) -> None:
        """Record the newest state of a document."""
        before = self.documents.get(document_id)
        if before is not None:
            self._states[before.state] -= 1
            self._chunks.subtract(before.chunks)
            self._pages.subtract(before.page_counts())
        self.documents[document_id] = document
        self._states[document.state] += 1
        self._chunks.update(document.chunks)
        self._pages.update(document.page_counts())

    def states(self) -> Counter[str]:
        return +self._states

    def is_pending(self, document_id: str, until: Until) -> bool:
        """Return whether a document is not yet in the awaited state, nor in a final one."""
        return self.documents[document_id].state not in _ENDS[until]

    def count(self, until: Until = "ready") -> IngestCounts:
        states, chunks = self._states, self._chunks
        indexed = chunks["indexed"] if until == "ready" else chunks["searchable"]
        return IngestCounts(
            documents=self.total,
            documents_done=sum(states[state] for state in _ENDS[until]) + len(self.rejected),
            searchable=sum(states[state] for state in SEARCHABLE),
            failed=states["failed"] + len(self.rejected),
            chunks=chunks["total"],
            chunks_generated=chunks["generated"],
            chunks_done=indexed + chunks["dead"] + chunks["discarded"],
            pages=self._pages["total"],
            pages_done=self._pages["done"],
            complete=len(self.documents) + len(self.rejected) == self.total
            and not states["queued"] + states["parsing"] + states["reading"],
        )


def upload(
    client: CliClient,
    files: Mapping[str, Path],
    collection: str,
    lane: Lane | None,
    batch: UploadBatch,
    *,
    job: str | None = None,
    readable_by: Sequence[str] | None = None,
) -> Iterator[str]:
    """Upload the files, several at once, and yield each external id when the server has stored or rejected it.

    Small files share requests, because a request for each costs ten times as much.

    Args:
        client: the client.
        files: paths by external id.
        collection: name of the collection.
        lane: lane of the documents.
        batch: receives the results.
        job: id of an open load.
        readable_by: readers of the documents; None: as before.
    """
    pool = ThreadPoolExecutor(UPLOADS_AT_ONCE)

    def upload_one(name: str) -> Document:
        return client.upload(
            files[name], collection=collection, external_id=name, lane=lane, job=job, readable_by=readable_by
        )

    def upload_together(names: Sequence[str]) -> Mapping[str, Document | str]:
        if len(names) == 1:
            return {names[0]: _outcome(partial(upload_one, names[0]))}
        try:
            readers = {} if readable_by is None else {"readable_by": list(readable_by)}
            lines = [_line(name, files[name]) | readers for name in names]
            results = client.upload_batch(lines, collection=collection, lane=lane or "interactive", job=job)
        except (ForeaskError, OSError):  # of one file, or an older server: each file reports its own reason
            return {name: _outcome(partial(upload_one, name)) for name in names}
        return {name: line.document or problem_of(line) for name, line in zip(names, results, strict=True)}

    try:
        running = [pool.submit(upload_together, names) for names in _groups(files)]
        for future in as_completed(running):
            for name, outcome in future.result().items():
                if isinstance(outcome, str):
                    batch.rejected[name] = outcome
                else:
                    batch.replaced += outcome.version > 1 and outcome.version != outcome.live_version
                    batch.record(outcome.id, DocumentProgress.of(outcome))
                yield name
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _groups(files: Mapping[str, Path]) -> Iterator[list[str]]:
    """Yield the names of files that are uploaded together; a large file is uploaded alone."""
    group, size_bytes = list[str](), 0
    for name, path in files.items():
        try:
            size = path.stat().st_size
        except OSError:  # its upload reports it
            size = _GROUP_BYTES
        if size > _SMALL_BYTES:
            yield [name]
            continue
        group.append(name)
        size_bytes += size
        if len(group) == _GROUP_FILES or size_bytes > _GROUP_BYTES:
            yield group
            group, size_bytes = [], 0
    if group:
        yield group


def _line(name: str, path: Path) -> Json:
    """Return a file as a line of a batch, with the media type that an upload of its own declares."""
    return {
        "external_id": name,
        "filename": path.name,
        "media_type": mimetypes.guess_type(path.name)[0] or "application/octet-stream",
        "content_base64": b64encode(path.read_bytes()).decode(),
    }


def _outcome(upload: Callable[[], Document]) -> Document | str:
    """Upload a file; return its document, or the reason of its rejection."""
    try:
        return upload()
    except ForeaskError as error:
        return error.message
    except OSError as error:
        return _reason(error)


def follow(
    client: CliClient,
    batch: UploadBatch,
    until: Until = "ready",
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[IngestCounts]:
    """Yield counts of the batch until each document is searchable, or in a final state.

    A round polls a part of the pending documents, and the next round continues after it.

    Raises:
        Unavailable: the server was unavailable for more than ten rounds.
    """
    failures = 0
    pending = deque(name for name in batch.documents if batch.is_pending(name, until))
    while True:
        started = clock()
        try:
            _poll_some(client, batch, until, pending)
            failures = 0
        except Transient:
            failures += 1
            if failures > _UNAVAILABLE_ROUNDS:
                raise
        yield batch.count(until)
        if not pending:
            return
        sleep(max(_SHORTEST_ROUND_SECONDS, (clock() - started) * (_ROUND_SHARE - 1)))


def job_of(client: CliClient, job: str) -> Job | None:
    """Return a job; None while the server is unavailable."""
    try:
        return client.job(job)
    except Transient:
        return None


def seconds_left_of(client: CliClient, job: str) -> int | None:
    """Return the time left for a job in seconds; None if it is unknown, or while the server is unavailable."""
    shown = job_of(client, job)
    return None if shown is None else shown.eta_seconds


def seconds_left(client: CliClient) -> int | None:
    """Return the time left for all open work in seconds; None if it is unknown, or if the server does not say it."""
    try:
        left = client.status()["eta_seconds"]
    except ForeaskError:
        return None
    return None if left is None else int(left)


def waiting_reason(client: CliClient, batch: UploadBatch | None = None, *, stalled_seconds: float) -> str | None:
    """Return a sentence about the reason why work waits; None without any, or if the server does not answer this key.

    Args:
        client: the client.
        batch: documents, whose errors are the reason if the server has none.
        stalled_seconds: time in which nothing has changed. Until some seconds have passed, only failures are reasons,
            and a missing worker is a reason later, because it may be starting.
    """
    stalled = stalled_seconds >= _STALLED_SECONDS
    try:
        pace = client.status()["pace"]
    except ForeaskError:
        return None
    is_starting = pace["cause"] == _NO_WORKER and stalled_seconds < _START_SECONDS
    if pace["cause"] in _FAILURES or (stalled and not is_starting and pace["cause"] not in _WORKING):
        return str(pace["message"])
    waiting = batch.documents.values() if batch is not None and stalled else ()
    return next((document.error for document in waiting if document.error and document.state not in _FINAL), None)


def _poll_some(client: CliClient, batch: UploadBatch, until: Until, pending: deque[str]) -> None:
    """Poll the first pending documents. Documents that are still pending move to the end of the queue."""
    slices = ceil(len(pending) / _SLICE)
    for _ in range(min(slices, _SLICES)):
        names = list(islice(pending, _SLICE))
        documents = {document.id: DocumentProgress.of(document) for document in client.documents(ids=names)}
        for name in names:
            pending.popleft()
            batch.record(name, documents.get(name) or _deleted(batch.documents[name].external_id))
            if batch.is_pending(name, until):
                pending.append(name)


def _deleted(external_id: str) -> DocumentProgress:
    return DocumentProgress(external_id, "failed", error="It was deleted during the ingest.")


def _reason(error: OSError) -> str:
    return f"It cannot be read: {error.strerror or error}."
