"""Ingestion: files are handed in, and their documents followed until they end."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Literal, Self

from foreask_client import Document
from foreask_client.models import Lane

from cli.client import Client
from cli.meter import Count
from shared.domain.errors import ForeaskError, Transient

UPLOADS_AT_ONCE = 8
_FINAL = frozenset({"ready", "degraded", "failed"})
FOUND = frozenset({"searchable", "ready", "degraded"})
_ENDS = {"ready": _FINAL, "searchable": _FINAL | FOUND}
_SLICE = 100  # documents of one request
_SLICES = 10  # requests of one round: a million documents cost a round no more than a thousand
_SHORTEST_ROUND_SECONDS = 0.5
_ROUND_SHARE = 5  # requests may take a fifth of the time, so that a large corpus does not load the server
_PATIENCE = 10  # rounds for which the server may be away
_NO_CHUNKS = dict.fromkeys(("total", "searchable", "generated", "indexed", "dead", "discarded"), 0)

Until = Literal["searchable", "ready"]


@dataclass(frozen=True, slots=True)
class DocumentProgress:
    """The part of a document's state that is kept: a batch may have a million documents."""

    external_id: str
    state: str
    questions: int = 0
    error: str | None = None
    chunks: Mapping[str, int] = field(default_factory=lambda: _NO_CHUNKS)

    @classmethod
    def of(cls, document: Document) -> Self:
        chunks = document.chunks.model_dump()
        return cls(document.external_id, document.state, document.questions, document.error, chunks)


@dataclass(slots=True)
class UploadBatch:
    """The files of one ingest, and their documents as last seen.

    Args:
        total: files to hand in.
        refused: why the server refused a file, by external id.
        documents: what is needed of the newest view of each document, by document id.
    """

    total: int
    refused: dict[str, str] = field(default_factory=dict)
    documents: dict[str, DocumentProgress] = field(default_factory=dict)
    _states: Counter[str] = field(default_factory=Counter)  # kept while documents come: there may be a million
    _chunks: Counter[str] = field(default_factory=Counter)

    def see(self, document_id: str, document: DocumentProgress) -> None:
        """Note the newest view of a document."""
        before = self.documents.get(document_id)
        if before is not None:
            self._states[before.state] -= 1
            self._chunks.subtract(before.chunks)
        self.documents[document_id] = document
        self._states[document.state] += 1
        self._chunks.update(document.chunks)

    def states(self) -> Counter[str]:
        return +self._states

    def waits(self, document_id: str, until: Until) -> bool:
        """Whether a document is still to be followed."""
        return self.documents[document_id].state not in _ENDS[until]

    def count(self, until: Until = "ready") -> Count:
        states, chunks = self._states, self._chunks
        stand = chunks["indexed"] if until == "ready" else chunks["searchable"]
        return Count(
            documents=self.total,
            documents_done=sum(states[state] for state in _ENDS[until]) + len(self.refused),
            searchable=sum(states[state] for state in FOUND),
            failed=states["failed"] + len(self.refused),
            chunks=chunks["total"],
            chunks_generated=chunks["generated"],
            chunks_done=stand + chunks["dead"] + chunks["discarded"],
            complete=len(self.documents) + len(self.refused) == self.total and not states["queued"] + states["parsing"],
        )


def upload(
    client: Client, files: Mapping[str, Path], collection: str, lane: Lane | None, batch: UploadBatch
) -> Iterator[str]:
    """Hand in the files, several at once; yield each external id when the server has taken or refused it."""
    pool = ThreadPoolExecutor(UPLOADS_AT_ONCE)

    def upload_one(name: str) -> Document:
        return client.upload(files[name], collection=collection, external_id=name, lane=lane)

    try:
        running = {pool.submit(upload_one, name): name for name in files}
        for future in as_completed(running):
            name = running[future]
            try:
                accepted = future.result()
            except (ForeaskError, OSError) as error:
                batch.refused[name] = error.message if isinstance(error, ForeaskError) else _reason(error)
            else:
                batch.see(accepted.id, DocumentProgress.of(accepted))
            yield name
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def follow(
    client: Client,
    batch: UploadBatch,
    until: Until = "ready",
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Count]:
    """Yield counts of the batch until each document is searchable, or in a final state.

    A round reads a part of the documents that still wait, the next round those behind them.

    Raises:
        Unavailable: the server was away for more than ten rounds.
    """
    away = 0
    waiting = deque(name for name in batch.documents if batch.waits(name, until))
    while True:
        started = clock()
        try:
            _read_some(client, batch, until, waiting)
            away = 0
        except Transient:
            away += 1
            if away > _PATIENCE:
                raise
        yield batch.count(until)
        if not waiting:
            return
        sleep(max(_SHORTEST_ROUND_SECONDS, (clock() - started) * (_ROUND_SHARE - 1)))


def _read_some(client: Client, batch: UploadBatch, until: Until, waiting: deque[str]) -> None:
    """Read the first of the waiting documents again; those that still wait go behind all others."""
    slices = ceil(len(waiting) / _SLICE)
    for _ in range(min(slices, _SLICES)):
        names = list(islice(waiting, _SLICE))
        documents = {document.id: DocumentProgress.of(document) for document in client.documents(ids=names)}
        for name in names:
            waiting.popleft()
            batch.see(name, documents.get(name) or _deleted(batch.documents[name].external_id))
            if batch.waits(name, until):
                waiting.append(name)


def _deleted(external_id: str) -> DocumentProgress:
    return DocumentProgress(external_id, "failed", error="It was deleted meanwhile.")


def _reason(error: OSError) -> str:
    return f"It cannot be read: {error.strerror or error}."
