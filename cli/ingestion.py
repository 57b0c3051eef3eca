"""Ingestion: files are handed in, and their documents followed until they end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from cli.client import Client, Json
from cli.meter import Count
from shared.domain.errors import ForeaskError, Transient

UPLOADS_AT_ONCE = 8
ACTIVE = ("queued", "parsing", "indexing", "searchable")
_FINAL = frozenset({"ready", "degraded", "failed"})
_LOOK_UPS = 200  # documents that one round reads one by one
_SHORTEST_ROUND_SECONDS = 0.5
_ROUND_SHARE = 5  # requests may take a fifth of the time, so that a large corpus does not load the server
_PATIENCE = 10  # rounds for which the server may be away


@dataclass(slots=True)
class UploadBatch:
    """The files of one ingest, and their documents as last seen.

    Args:
        total: files to hand in.
        refused: why the server refused a file, by external id.
        documents: the newest view of each document, by document id; at first the reply to its upload.
    """

    total: int
    refused: dict[str, str] = field(default_factory=dict)
    documents: dict[str, Json] = field(default_factory=dict)

    def states(self) -> Counter[str]:
        return Counter(str(document["state"]) for document in self.documents.values())

    def unfinished(self) -> list[str]:
        return [name for name, document in self.documents.items() if document["state"] not in _FINAL]

    def count(self) -> Count:
        chunks = [document["chunks"] for document in self.documents.values() if "chunks" in document]
        states = self.states()
        return Count(
            documents=self.total,
            documents_done=sum(states[state] for state in _FINAL) + len(self.refused),
            failed=states["failed"] + len(self.refused),
            chunks=sum(chunk["total"] for chunk in chunks),
            chunks_generated=sum(chunk["generated"] for chunk in chunks),
            chunks_done=sum(chunk["indexed"] + chunk["dead"] + chunk.get("discarded", 0) for chunk in chunks),
            complete=len(self.documents) + len(self.refused) == self.total and not states["queued"] + states["parsing"],
        )


def upload(
    client: Client, files: Mapping[str, Path], collection: str, lane: str | None, batch: UploadBatch
) -> Iterator[str]:
    """Hand in the files, several at once; yield each external id when the server has taken or refused it."""
    pool = ThreadPoolExecutor(UPLOADS_AT_ONCE)
    try:
        running = {pool.submit(client.upload, path, name, collection, lane): name for name, path in files.items()}
        for future in as_completed(running):
            name = running[future]
            try:
                accepted = future.result()
            except (ForeaskError, OSError) as error:
                batch.refused[name] = error.message if isinstance(error, ForeaskError) else _reason(error)
            else:
                batch.documents[accepted["document_id"]] = accepted
            yield name
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def follow(
    client: Client,
    batch: UploadBatch,
    collection: str,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Count]:
    """Yield counts of the batch until each document is in a final state.

    Raises:
        Unavailable: the server was away for more than ten rounds.
    """
    away = 0
    while True:
        started = clock()
        try:
            _refresh(client, batch, collection)
            away = 0
        except Transient:
            away += 1
            if away > _PATIENCE:
                raise
        yield batch.count()
        if not batch.unfinished():
            return
        sleep(max(_SHORTEST_ROUND_SECONDS, (clock() - started) * (_ROUND_SHARE - 1)))


def _refresh(client: Client, batch: UploadBatch, collection: str) -> None:
    """Read the batch's documents again: active ones as lists, and one by one those that left the lists."""
    active = set[str]()
    for state in ACTIVE:
        for document in client.documents(collection, state):
            if document["id"] in batch.documents:
                batch.documents[document["id"]] = document
                active.add(document["id"])
    unseen = (name for name, document in batch.documents.items() if name not in active and not _is_final(document))
    for name in list(islice(unseen, _LOOK_UPS)):
        batch.documents[name] = client.document(name)


def _is_final(document: Json) -> bool:
    # The reply to an upload has no counts, so its document is read once even if its state is final.
    return document["state"] in _FINAL and "chunks" in document


def _reason(error: OSError) -> str:
    return f"It cannot be read: {error.strerror or error}."
