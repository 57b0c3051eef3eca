"""Ingestion of a corpus: its rows are handed in in batches, and its collection followed until nothing waits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import orjson
from foreask_client import BatchLine

from cli.client import Client, problem_of
from cli.corpus import Corpus, Row, Truncated
from shared.domain.errors import NotFound, Transient

AT_ONCE = 4
_BATCH_ROWS = 500
_BATCH_BYTES = 2 * 1024 * 1024
_SHOWN = 20
_PATIENCE = 10  # rounds for which the server may be away
_OPEN = ("queued", "parsing", "indexing")

Until = Literal["searchable", "ready"]


@dataclass(slots=True)
class CorpusLoad:
    """What became of the rows.

    Args:
        total: rows of the corpus.
        accepted: documents that are new, or have other content.
        unchanged: documents that are there already.
        refused: rows that are no documents, or that the server refused.
        reasons: why, by row, of the first of these.
    """

    total: int
    accepted: int = 0
    unchanged: int = 0
    refused: int = 0
    reasons: dict[int, str] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return self.accepted + self.unchanged + self.refused

    def refuse(self, number: int, reason: str) -> None:
        self.refused += 1
        if len(self.reasons) < _SHOWN:
            self.reasons[number] = reason

    def see(self, number: int, line: BatchLine) -> None:
        """Note what the server said of a row."""
        match line.status:
            case 202:
                self.accepted += 1
            case 200:
                self.unchanged += 1
            case _:
                self.refuse(number, problem_of(line))


@dataclass(slots=True)
class _Batch:
    """Rows of one request, encoded."""

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


def hand_in(client: Client, corpus: Corpus, collection: str, load: CorpusLoad) -> Iterator[None]:
    """Hand in every row, some batches at once; yield after each batch.

    Rows of one name are handed in one after the other: the last one wins. Whoever breaks off begins again: what is
    there already is not taken twice.

    Raises:
        Truncated: the file breaks off; its rows before that were handed in.
        Unavailable: the server was away for long.
    """
    pool = ThreadPoolExecutor(AT_ONCE)
    waiting: deque[tuple[Future[list[BatchLine]], _Batch]] = deque()
    truncated: list[Truncated] = []
    try:
        for batch in _batches(_until_cut(corpus.rows(), truncated), load):
            while len(waiting) == AT_ONCE or any(not batch.ids.isdisjoint(other.ids) for _, other in waiting):
                _settle(waiting, load)
                yield
            waiting.append((pool.submit(client.upload_batch, batch.lines, collection=collection), batch))
        while waiting:
            _settle(waiting, load)
            yield
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if truncated:
        raise truncated[0]


def _settle(waiting: deque[tuple[Future[list[BatchLine]], _Batch]], load: CorpusLoad) -> None:
    future, batch = waiting.popleft()
    for number, reply in zip(batch.numbers, future.result(), strict=True):
        load.see(number, reply)


def _until_cut(rows: Iterable[Row], truncated: list[Truncated]) -> Iterator[Row]:
    """Yield the rows; where the file breaks off, note it for later."""
    try:
        yield from rows
    except Truncated as error:
        truncated.append(error)


def _batches(rows: Iterable[Row], load: CorpusLoad) -> Iterator[_Batch]:
    batch = _Batch()
    for row in rows:
        if row.document is None:
            load.refuse(row.number, row.refusal or "")
            continue
        name = row.document["external_id"]
        if name in batch.ids or batch.full:
            yield batch
            batch = _Batch()
        try:
            batch.add(row.number, name, orjson.dumps(row.document))
        except orjson.JSONEncodeError as error:
            load.refuse(row.number, f"It cannot be sent as JSON: {error}.")
    if batch.lines:
        yield batch


def follow(
    client: Client,
    collection: str,
    until: Until,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Mapping[str, int]]:
    """Yield how many documents of a collection are in each state, until none waits.

    A corpus may have millions of documents: the collection's counts are read, which include other loads' documents.

    Raises:
        Unavailable: the server was away for more than ten rounds.
    """
    away = 0
    while True:
        started = clock()
        try:
            states = states_of(client, collection)
            away = 0
        except Transient:
            away += 1
            if away > _PATIENCE:
                raise
        else:
            yield states
            if not open_documents(states, until):
                return
        sleep(max(1.0, (clock() - started) * 4))


def open_documents(states: Mapping[str, int], until: Until) -> int:
    """How many of these documents are still to be found, or until `ready` to have their questions."""
    return sum(states.get(state, 0) for state in (*_OPEN, *(("searchable",) if until == "ready" else ())))


def states_of(client: Client, collection: str) -> Mapping[str, int]:
    """How many documents of a collection are in each state; none where it is not there yet."""
    try:
        return client.collection(collection).documents
    except NotFound:
        return {}
