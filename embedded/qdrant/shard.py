"""A collection's points, in the one process and thread that uses the engine.

The engine keeps Python's interpreter lock during every call, a flush for seconds, so a second thread would have to
wait. Each collection has its own process instead (`embedded.qdrant.serving`), which answers queries between the
operations of a write.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import qdrant_edge as engine

from embedded.qdrant import operations, queries, schema
from embedded.qdrant.errors import ErrorReply, engine_errors
from embedded.qdrant.filters import point_ids
from embedded.qdrant.messages import HEAD, RequestKind
from embedded.qdrant.narrowing import is_costly, narrowed
from embedded.qdrant.schema import Json

SYNC_EVERY_SECONDS = 5.0
# Queries wait for a flush. The write-ahead log protects writes until then; a killed server reads it at its next start:
# 60,000 points in 11 s on busy cores.
LATEST_FLUSH_POINTS = 30_000
QUIET_SECONDS = 2.0  # seconds without a query after which none is expected
IDLE_SECONDS = 1.0  # seconds without a write
_TICK_SECONDS = 0.25
Writing = Generator[None, None, int]  # reads or applies a part at each step, and returns the number of requests


class Shard:
    """An open engine.

    Args:
        directory: its files.
        config: the collection's configuration.
    """

    def __init__(self, directory: Path, config: Json) -> None:
        self._directory = directory
        self._is_quantized = schema.is_quantized(config)
        shape = schema.shape(config)
        with engine_errors():
            self._engine = engine.EdgeShard.load(str(directory), schema.edge_config(config))
        self.written_points = 0  # since the start, with deleted ones
        self._last_write = time.monotonic()
        self._last_query = -math.inf
        self._unflushed_points = 0
        self._unflushed_since: float | None = None
        self._last_sync = time.monotonic()
        self._syncing: threading.Thread | None = None
        self._held = False
        self._indexed = frozenset(self._engine.info().payload_schema)
        self._reads: dict[RequestKind, Callable[[Json], Any]] = {
            RequestKind.RETRIEVE: self._retrieve,
            RequestKind.SCROLL: self._scroll,
            RequestKind.COUNT: lambda body: {"count": self._engine.count(queries.count_request(body))},
            RequestKind.INFO: lambda _: self.info(),
        }
        self._writes: dict[RequestKind, Callable[[Json], list[operations.Read]]] = {
            RequestKind.UPSERT: lambda body: [operations.upsert(body, shape, self._operation_points)],
            RequestKind.DELETE: lambda body: [operations.delete(body)],
            RequestKind.SET_PAYLOAD: lambda body: [operations.set_payload(body)],
            RequestKind.BATCH: lambda body: operations.batch(body, shape, self._operation_points),
            RequestKind.CREATE_INDEX: lambda body: [operations.create_index(body)],
        }

    def read(self, kind: RequestKind, body: Json) -> Generator[None, None, Any]:
        """Execute a read, a step at a time; return its result, for JSON with `queries.encode`."""
        with engine_errors():
            if kind is RequestKind.QUERY:
                return (yield from self._query(body))
            return self._reads[kind](body)

    def write(self, kind: RequestKind, body: bytes) -> Writing:
        """Apply the operations of a request; after the last step they survive the death of this process."""
        with engine_errors():
            requests = []
            for request in self._writes[kind](parse(body)):
                requests.append((yield from request))  # noqa: PERF401  a comprehension cannot yield
            for operation, points in chain.from_iterable(requests):
                self._apply(operation, points)
                yield
            if kind is RequestKind.CREATE_INDEX:
                self._indexed = frozenset(self._engine.info().payload_schema)
        return len(requests)

    def replay(self, path: Path, start: int, end: int) -> Generator[None, None, None]:
        """Apply the recorded writes between two positions of a file."""
        with path.open("rb") as file:
            file.seek(start)
            while file.tell() < end:
                size, _, kind = HEAD.unpack(file.read(HEAD.size))
                with suppress(ErrorReply):  # requests that were refused before are refused again
                    yield from self.write(RequestKind(kind), file.read(size))

    def info(self) -> Json:
        info = self._engine.info()
        return {
            "points_count": info.points_count,
            "indexed_vectors_count": info.indexed_vectors_count,
            "segments_count": info.segments_count,
            "indexes": {field: index.points for field, index in info.payload_schema.items()},
        }

    def hold(self) -> None:
        """Change no file until `release` or the next write, so that the files can be copied as they are.

        The copy is like the files of a process that was killed: its write-ahead log has all that was not flushed.
        """
        self._held = True
        if self._syncing is not None:
            self._syncing.join()

    def release(self) -> None:
        self._held = False

    def sync_if_due(self) -> float | None:
        """Sync or flush if it is due; return after how many seconds to call again, None if not before a write."""
        if self._unflushed_since is None or self._held:
            return None
        now = time.monotonic()
        if self._syncing is None:
            if now - self._last_sync > SYNC_EVERY_SECONDS or self._is_flush_due(now):
                self._start_sync(now)
        elif not self._syncing.is_alive():
            self._syncing = None
            if self._is_flush_due(now):
                self._flush()
        return _TICK_SECONDS

    def close(self) -> None:
        if self._syncing is not None:
            self._syncing.join()
        with engine_errors():
            self._flush()
            self._engine.close()

    def _query(self, body: Json) -> Generator[None, None, list[Json]]:
        self._last_query = time.monotonic()
        searches = body["searches"]
        if any(is_costly(search.get("filter"), self._indexed) for search in searches):
            return (yield from self._query_apart(searches))
        return self._found([queries.query_request(search, quantized=self._is_quantized) for search in searches])

    def _query_apart(self, searches: list[Json]) -> Generator[None, None, list[Json]]:
        """Search one by one; searches with the same costly filter share its evaluation."""
        results = list[Json]()
        selections: dict[bytes, engine.Filter] = {}
        for search in searches:
            selected = None
            if is_costly(search.get("filter"), self._indexed):
                name = orjson.dumps(search["filter"])
                if name not in selections:
                    selections[name] = yield from narrowed(self._engine, search["filter"], self._indexed)
                selected = selections[name]
            request = queries.query_request(search, quantized=self._is_quantized, selected=selected)
            results += self._found([request])
            self._last_query = time.monotonic()
            yield
        return results

    def _found(self, requests: list[engine.QueryRequest]) -> list[Json]:
        found = self._engine.query_batch(engine.QueryBatchRequest(requests))
        return [{"points": queries.scored(points)} for points in found]

    def _retrieve(self, body: Json) -> list[Json]:
        payload = queries.with_payload(body, default=True)
        return queries.records(self._engine.retrieve(point_ids(body["ids"]), payload, queries.with_vector(body)))

    def _scroll(self, body: Json) -> Json:
        points, offset = self._engine.scroll(queries.scroll_request(body))
        return {"points": queries.records(points), "next_page_offset": offset}

    def _apply(self, operation: engine.UpdateOperation, points: int) -> None:
        self._held = False
        self._last_write = time.monotonic()
        self._unflushed_since = self._unflushed_since or self._last_write
        before = self._engine.info().points_count
        self._engine.update(operation)
        deleted = max(0, before - self._engine.info().points_count)
        self.written_points += points + deleted
        self._unflushed_points += points

    def _operation_points(self) -> int:
        """Return the number of points to write at once: fewer while queries arrive, which wait for each operation."""
        quiet = self._is_quiet(time.monotonic())
        return operations.OPERATION_POINTS if quiet else operations.OPERATION_POINTS_AMONG_QUERIES

    def _is_quiet(self, now: float) -> bool:
        return now - self._last_query > QUIET_SECONDS

    def _is_flush_due(self, now: float) -> bool:
        if self._unflushed_points > LATEST_FLUSH_POINTS:
            return True
        waits = now - (self._unflushed_since or now)
        return self._is_quiet(now) and (now - self._last_write > IDLE_SECONDS or waits > SYNC_EVERY_SECONDS)

    def _start_sync(self, now: float) -> None:
        """Write the files' changed pages to disk without the interpreter lock; a flush then has fewer to write."""
        self._last_sync = now
        self._syncing = threading.Thread(target=sync, args=(self._directory,), daemon=True)
        self._syncing.start()

    def _flush(self) -> None:
        self._engine.flush()
        self._unflushed_since = None
        self._unflushed_points = 0


def sync(directory: Path) -> None:
    """Write the changed pages of all files to disk, which lets other threads run."""
    for path in directory.rglob("*"):
        with suppress(OSError):  # the engine may delete a file meanwhile
            if path.is_file():
                file = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(file)
                finally:
                    os.close(file)


def parse(body: bytes) -> Json:
    """Return the JSON object of a request; an empty body is an empty object."""
    try:
        value = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError as error:
        raise ErrorReply(400, f"Format error in JSON body: {error}") from error
    if not isinstance(value, dict):
        raise ErrorReply(400, "Format error in JSON body: an object is expected")
    return value
