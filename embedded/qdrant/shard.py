"""A collection: its files, its writer thread, and its optimizer.

The engine keeps Python's interpreter lock during every call, so a call is atomic for all threads and reads need no
lock; writes go through one thread, in the order of their arrival. Files:

    collection.json   configuration, payload indexes, and which directory is the shard
    shard-N/          the engine's; N increases by one with every optimization
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson
import qdrant_edge as engine
import structlog

from embedded.guarded import guarded
from embedded.qdrant import operations, schema
from embedded.qdrant.errors import ErrorReply, engine_errors
from embedded.qdrant.operations import Counted
from embedded.qdrant.schema import Json

Result = TypeVar("Result")
Make = Callable[[Json, schema.Shape, Callable[[], int]], Iterable[Counted]]  # the operations of a request

CONFIGURATION = "collection.json"
# A flush keeps the interpreter lock, so queries wait for it. The write-ahead log protects writes until then.
# With five queries and 2,000 points a second on busy cores, the 95th percentile of the queries' latency was 55 ms
# instead of 70.
FLUSH_AFTER_SECONDS = 5.0
LATEST_FLUSH_SECONDS = 30.0  # while queries arrive
LATEST_FLUSH_POINTS = 30_000  # a killed server reads the log at its next start: 60,000 points in 11 s on busy cores
QUIET_SECONDS = 2.0  # seconds without a query after which none is expected
IDLE_SECONDS = 1.0
BUSY_BACKLOG = 2  # indexing thresholds: a smaller backlog is not optimized before there is a pause
CALM_SECONDS = 20.0  # seconds without a write before segments are joined
# In a calm: one segment in addition to the one for writes. The channels of a query among 100,000 points take 3.4 to
# 4.5 ms of CPU in two segments and 7.5 in four. Of the ten nearest of 20,800 sentences 99.75 and 99.95 % are found, of
# the hundred nearest 96.5 and 99.5 %. To join 100,000 points takes 80 CPU seconds, at most once for an eighth more of
# them.
JOINED_SEGMENTS = 2
REPLAYED_AT_ONCE = 32  # least number of operations, of at most 64 points each; other writes wait for them, 0.2 s

log = structlog.get_logger(__name__)


class Shard:
    """An open collection."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        stored = orjson.loads((directory / CONFIGURATION).read_bytes())
        self.config: Json = stored["config"]
        self.indexes: Json = stored["indexes"]
        self._number: int = stored["shard"]
        self._optimized_points: int = stored["optimized_points"]
        self.shape = schema.shape(self.config)
        self._remove_leftovers()
        self.engine = engine.EdgeShard.load(str(self._engine_directory()))
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="writer")
        self._recorded: deque[engine.UpdateOperation] | None = None
        self._written_points = self._unindexed_at_start()
        self._last_write = time.monotonic()
        self._last_query = -math.inf
        self._unflushed_since: float | None = None
        self._unflushed_points = 0
        self._joined = True  # since the last write
        self._joined_segments = JOINED_SEGMENTS  # segments after joining: more if the largest are full
        self._optimization: asyncio.Task[None] | None = None
        # As on a server: segments that were not optimized before a shutdown stay so until a write or changed settings.
        self._awaits_nudge = True

    @staticmethod
    def create(directory: Path, config: Json) -> None:
        """Create an empty collection; it exists once its configuration file exists."""
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "shard-0").mkdir(parents=True)
        with engine_errors():
            shard = engine.EdgeShard.create(str(directory / "shard-0"), schema.edge_config(config))
            shard.flush()
            shard.close()
        _write_configuration(directory, {"config": config, "indexes": {}, "shard": 0, "optimized_points": 0})

    def query(self, requests: list[engine.QueryRequest]) -> list[list[engine.ScoredPoint]]:
        """Return the points that each request finds."""
        self._last_query = time.monotonic()
        return self.engine.query_batch(engine.QueryBatchRequest(requests))

    async def update(self, body: bytes, make: Make) -> None:
        """Apply the operations of a request; after the return they survive the death of this process."""

        def apply() -> None:
            with engine_errors():
                self._apply(make(parse(body), self.shape, self._operation_points))

        await self._write(apply)

    async def update_batch(self, body: bytes) -> int:
        """Apply the operations of `points/batch` in order and return how many there were."""

        def apply() -> int:
            with engine_errors():
                batch = operations.batch(parse(body), self.shape, self._operation_points)
                for one in batch:
                    self._apply(one)
                return len(batch)

        return await self._write(apply)

    async def create_index(self, field: str, field_schema: Any) -> None:
        def apply() -> None:
            with engine_errors():
                self._apply([(engine.UpdateOperation.create_field_index(field, schema.index_params(field_schema)), 0)])
            self.indexes[field] = field_schema
            self._save()

        await self._write(apply)

    def nudge(self) -> None:
        """Allow the optimization of points that were not indexed at the start."""
        self._awaits_nudge = False

    def info(self) -> Json:
        return schema.info(self.config, self.engine.info(), self.indexes, self._status())

    async def maintain(self) -> None:
        """Flush and optimize if they are due; called about every second."""
        now = time.monotonic()
        idle = now - self._last_write > IDLE_SECONDS
        if self._is_flush_due(now, idle=idle):
            await self._write(self._flush)
        if self._optimization is not None and self._optimization.done():
            finished, self._optimization = self._optimization, None
            finished.result()
        if self._optimization is None and not self._awaits_nudge:
            if self._is_due(idle=idle):
                self._start_optimization(schema.SEGMENTS)
            elif now - self._last_write > CALM_SECONDS and self._has_many_segments():
                self._joined = True
                self._start_optimization(schema.FEWEST_SEGMENTS)

    async def close(self) -> None:
        """Flush and close; a running optimization is aborted, because no data depends on it."""
        if self._optimization is not None:
            self._optimization.cancel()
            await asyncio.wait([self._optimization])
        await self._write(self.engine.flush)
        self._writer.shutdown()
        self.engine.close()

    async def _write(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._writer, work)

    def _apply(self, batch: Iterable[Counted]) -> None:
        for operation, points in batch:
            if self._recorded is not None:
                self._recorded.append(operation)
            self._unflushed_since = self._unflushed_since or time.monotonic()
            self._awaits_nudge = self._joined = False
            self._last_write = time.monotonic()
            before = self.engine.info().points_count
            self.engine.update(operation)
            deleted = max(0, before - self.engine.info().points_count)
            self._written_points += points + deleted
            self._unflushed_points += points

    def _operation_points(self) -> int:
        """Return the number of points to write at once: fewer while queries arrive, which wait for each operation."""
        quiet = self._is_quiet(time.monotonic())
        return operations.OPERATION_POINTS if quiet else operations.OPERATION_POINTS_AMONG_QUERIES

    def _is_quiet(self, now: float) -> bool:
        return now - self._last_query > QUIET_SECONDS

    def _is_flush_due(self, now: float, *, idle: bool) -> bool:
        if self._unflushed_since is None:
            return False
        waits = now - self._unflushed_since
        if waits > LATEST_FLUSH_SECONDS or self._unflushed_points > LATEST_FLUSH_POINTS:
            return True
        return self._is_quiet(now) and (idle or waits > FLUSH_AFTER_SECONDS)

    def _flush(self) -> None:
        _sync(self._engine_directory())
        self.engine.flush()
        self._unflushed_since = None
        self._unflushed_points = 0

    def _status(self) -> str:
        if self._optimization is not None:
            return "yellow"
        return "grey" if self._is_due(idle=True) else "green"

    def _is_due(self, *, idle: bool) -> bool:
        """Return whether enough points are not indexed: when idle an eighth more, under load a quarter more.

        Each optimization copies everything, so it must be rarer as the collection grows. It indexes only new points.
        """
        backlog, indexed = self._thresholds(self._written_points), self._thresholds(self._optimized_points)
        return backlog >= (max(1, indexed / 8) if idle else max(BUSY_BACKLOG, indexed / 4))

    def _has_many_segments(self) -> bool:
        return not self._joined and self.engine.info().segments_count > self._joined_segments

    def _thresholds(self, points: int) -> float:
        """Return the size of the vectors of this many points, in indexing thresholds; 0 without an index."""
        threshold_kb = schema.optimizers(self.config)["indexing_threshold"]
        bytes_a_point = 4 * sum(self.shape.dense.values())
        if not threshold_kb or not schema.is_indexed(self.config) or not bytes_a_point:
            return 0.0
        return float(points * bytes_a_point / 1024 / threshold_kb)

    def _unindexed_at_start(self) -> int:
        return max(0, int(self.engine.info().points_count) - self._optimized_points)

    def _start_optimization(self, segments: int) -> None:
        self._optimization = asyncio.get_running_loop().create_task(self._optimize(segments))

    async def _optimize(self, segments: int) -> None:
        """Optimize a copy in another process while this shard serves, replay later writes on the copy, and swap.

        Args:
            segments: number of segments that may remain.
        """
        target = self.directory / f"shard-{self._number + 1}"
        await self._write(lambda: self._copy(target))
        code = await self._optimize_copy(target, segments)
        if code:
            log.error("optimizer.failed", directory=str(target), code=code)
            await self._write(lambda: self._abandon(target))
            return
        optimized, points = await self._write(lambda: _load(target))
        await self._catch_up(optimized)
        await self._write(lambda: self._take_over(optimized, points))
        if segments == schema.FEWEST_SEGMENTS:
            self._joined_segments = max(JOINED_SEGMENTS, self.engine.info().segments_count)

    async def _optimize_copy(self, target: Path, segments: int) -> int:
        """Run the optimizer's process and return its exit code."""
        configuration = self.directory / CONFIGURATION
        module = [sys.executable, "-m", "embedded.qdrant.optimizer", str(target), str(configuration), str(segments)]
        process = await asyncio.create_subprocess_exec(*guarded(module), stdin=subprocess.PIPE)
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()

    def _copy(self, target: Path) -> None:
        self._flush()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self._engine_directory(), target)
        self._recorded = deque()
        self._written_points = 0

    async def _catch_up(self, optimized: engine.EdgeShard) -> None:
        """Replay in steps, between which waiting writes run; each step replays twice the newly arrived operations."""
        assert self._recorded is not None
        left, most = len(self._recorded), REPLAYED_AT_ONCE
        while left > REPLAYED_AT_ONCE:
            await self._write(partial(self._replay, optimized, most))
            came = len(self._recorded) - max(0, left - most)
            left, most = len(self._recorded), max(REPLAYED_AT_ONCE, 2 * came)

    def _replay(self, optimized: engine.EdgeShard, most: int) -> None:
        """Apply the first `most` recorded operations to the optimized shard."""
        recorded = self._recorded or deque()
        for _ in range(min(most, len(recorded))):
            with suppress(ErrorReply), engine_errors():  # operations that the engine refused before are refused again
                optimized.update(recorded.popleft())

    def _take_over(self, optimized: engine.EdgeShard, points: int) -> None:
        """Replay the rest and serve the optimized shard."""
        self._replay(optimized, len(self._recorded or ()))
        self._recorded = None
        _sync(self.directory / f"shard-{self._number + 1}")
        optimized.flush()
        before = self._engine_directory()
        self._number += 1
        self._optimized_points = points
        self._save()
        # A reader may be using the old engine now: it is closed when its last reader releases it.
        self.engine = optimized
        shutil.rmtree(before, ignore_errors=True)

    def _abandon(self, target: Path) -> None:
        self._recorded = None
        shutil.rmtree(target, ignore_errors=True)

    def _engine_directory(self) -> Path:
        return self.directory / f"shard-{self._number}"

    def _remove_leftovers(self) -> None:
        for path in self.directory.glob("shard-*"):
            if path != self._engine_directory():
                shutil.rmtree(path)

    def _save(self) -> None:
        configuration = {
            "config": self.config,
            "indexes": self.indexes,
            "shard": self._number,
            "optimized_points": self._optimized_points,
        }
        _write_configuration(self.directory, configuration)


def _sync(directory: Path) -> None:
    """Write the files' changed pages to disk without the interpreter lock; the engine's flush then has fewer to write.

    This halves the time of a flush, measured with 6,400 and with 32,000 points.
    """
    for path in directory.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)


def _load(directory: Path) -> tuple[engine.EdgeShard, int]:
    """Return an optimized shard and its number of points."""
    with engine_errors():
        shard = engine.EdgeShard.load(str(directory))
    return shard, shard.info().points_count


def parse(body: bytes) -> Json:
    """Return the JSON object of a request; an empty body is an empty object."""
    try:
        value = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError as error:
        raise ErrorReply(400, f"Format error in JSON body: {error}") from error
    if not isinstance(value, dict):
        raise ErrorReply(400, "Format error in JSON body: an object is expected")
    return value


def _write_configuration(directory: Path, configuration: Json) -> None:
    """Replace the configuration atomically."""
    path = directory / CONFIGURATION
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(orjson.dumps(configuration))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
