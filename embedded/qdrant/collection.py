"""A collection: its files, its process, and its optimizer.

    collection.json   configuration, payload indexes, and which directory is the shard
    shard-N/          the engine's; N increases by one with every optimization
    shard-N.writes    writes that an optimization must repeat

An optimization works on a copy, in a process of its own. Another process then loads the optimized copy, repeats the
writes that have arrived since, and takes over; the old one is killed. Queries wait for none of this.

During a load, optimizations give new segments bytes, which a search reads in a third of the time. After it, one joins
the segments and builds their graphs, which costs four times as much (decision 0022).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO

import orjson
import qdrant_edge as engine
import structlog

from embedded.guarded import guarded
from embedded.qdrant import schema
from embedded.qdrant.connection import Connection
from embedded.qdrant.errors import ErrorReply, engine_errors
from embedded.qdrant.messages import RequestKind, packed
from embedded.qdrant.schema import Json
from embedded.qdrant.shard import IDLE_SECONDS, sync

CONFIGURATION = "collection.json"
BUSY_BACKLOG = 2  # indexing thresholds: a smaller backlog is not optimized before there is a pause
# Graphs are built when so few points were written for so many seconds,
CALM_SECONDS, CALM_POINTS = 20.0, 1_000
# or when so many have none: among 250,000 a search takes 25 ms.
MOST_GRAPHLESS_POINTS = 250_000
# Recorded writes are repeated while others arrive, until few bytes are left; then later writes wait. If
# writes arrive as fast as they are repeated, they wait after so many rounds.
REPLAYED_LAST_BYTES = 2**20
REPLAY_ROUNDS = 8

log = structlog.get_logger(__name__)


class ServedCollection:
    """An open collection.

    Args:
        directory: its folder.
        died: called when its process has ended by itself.
    """

    def __init__(self, directory: Path, died: Callable[[], None]) -> None:
        self.directory = directory
        stored = orjson.loads((directory / CONFIGURATION).read_bytes())
        self.config: Json = stored["config"]
        self.indexes: Json = stored["indexes"]
        self._number: int = stored["shard"]
        self._optimized_points: int = stored["optimized_points"]
        # Optimized since the graphs were built. An older release has built graphs in each optimization.
        self._graphless_points: int = stored.get("graphless_points", 0)
        self._died = died
        self._dense_floats: int = sum(schema.shape(self.config).dense.values())
        self._remove_leftovers()
        self._process: ShardProcess
        self._unindexed_before = 0  # points without index that the process has not counted as written
        self._writable = asyncio.Event()
        self._writable.set()
        self._record: WriteRecord | None = None
        self._last_write = time.monotonic()
        self._calm_since, self._calm_points = self._last_write, 0  # no more than CALM_POINTS were written since
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
        counts = {"optimized_points": 0, "graphless_points": 0}
        _write_configuration(directory, {"config": config, "indexes": {}, "shard": 0, **counts})

    @classmethod
    async def open(cls, directory: Path, died: Callable[[], None]) -> ServedCollection:
        """Start the process of an existing collection."""
        collection = cls(directory, died)
        collection._process = await ShardProcess.start(collection._shard_directory(), directory / CONFIGURATION)
        collection._process.watch(died)
        points = collection._process.info["points_count"]
        collection._unindexed_before = max(0, points - collection._optimized_points)
        return collection

    async def read(self, kind: RequestKind, body: bytes) -> bytes:
        """Return the JSON of a read's result."""
        return await self._process.ask(kind, body)

    async def write(self, kind: RequestKind, body: bytes) -> int:
        """Apply a request; after the return it survives the death of all processes.

        Returns:
            The number of operations in the request.
        """
        await self._writable.wait()
        self._last_write = time.monotonic()
        self._awaits_nudge = False
        if self._record is not None:
            self._record.add(kind, body)
        return await self._process.write(kind, body)

    async def create_index(self, body: bytes) -> None:
        await self.write(RequestKind.CREATE_INDEX, body)
        request = orjson.loads(body)
        self.indexes[request["field_name"]] = request.get("field_schema")
        self._save()

    def nudge(self) -> None:
        """Allow the optimization of points that were not indexed at the start."""
        self._awaits_nudge = False

    async def info(self) -> Json:
        return schema.info(self.config, await self._process.ask_info(), self.indexes, self._status())

    async def maintain(self) -> None:
        """Optimize if it is due; called about every second."""
        if self._optimization is not None and self._optimization.done():
            finished, self._optimization = self._optimization, None
            finished.result()
        if self._optimization is None and not self._awaits_nudge:
            if self._are_graphs_due(calm=self._is_calm()):
                self._calm_since = time.monotonic()  # if it fails, the next attempt is after another calm
                self._start_optimization(with_graphs=True)
            elif self._is_due(idle=time.monotonic() - self._last_write > IDLE_SECONDS):
                self._start_optimization(with_graphs=False)

    async def close(self) -> None:
        """Flush and close; a running optimization is aborted, because no data depends on it."""
        await self._abort_optimization()
        await self._process.close()

    async def delete(self) -> None:
        """End the process and delete the files."""
        await self._abort_optimization()
        await self._process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    async def _abort_optimization(self) -> None:
        if self._optimization is not None:
            self._optimization.cancel()
            await asyncio.wait([self._optimization])

    def _status(self) -> str:
        if self._optimization is not None:
            return "yellow"
        is_due = self._is_due(idle=True) or (self._awaits_nudge and self._are_graphs_due(calm=True))
        return "grey" if is_due else "green"

    def _is_due(self, *, idle: bool) -> bool:
        """Return whether enough points are not indexed: when idle an eighth more, under load a quarter more.

        Each optimization copies everything, so it must be rarer as the collection grows. It reads only new points.
        """
        backlog = self._thresholds(self._unindexed_before + self._process.written_points)
        indexed = self._thresholds(self._optimized_points)
        return backlog >= (max(1, indexed / 8) if idle else max(BUSY_BACKLOG, indexed / 4))

    def _is_calm(self) -> bool:
        """Return whether few points were written for some time."""
        written = self._process.written_points
        if not 0 <= written - self._calm_points <= CALM_POINTS:
            self._calm_since, self._calm_points = time.monotonic(), written
        return time.monotonic() - self._calm_since > CALM_SECONDS

    def _are_graphs_due(self, *, calm: bool) -> bool:
        """Return whether graphs must be built: in a calm for an eighth more points, otherwise for many."""
        graphless = self._graphless_points
        if not calm:
            return graphless >= max(MOST_GRAPHLESS_POINTS, self._optimized_points - graphless)
        return self._thresholds(graphless) >= max(1, self._thresholds(self._optimized_points - graphless) / 8)

    def _thresholds(self, points: int) -> float:
        """Return the size of the vectors of this many points, in indexing thresholds; 0 without an index."""
        threshold_kb = schema.optimizers(self.config)["indexing_threshold"]
        if not threshold_kb or not schema.is_indexed(self.config):
            return 0.0
        return float(points * 4 * self._dense_floats / 1024 / threshold_kb)

    def _start_optimization(self, *, with_graphs: bool) -> None:
        self._optimization = asyncio.get_running_loop().create_task(self._optimize(with_graphs=with_graphs))

    async def _optimize(self, *, with_graphs: bool) -> None:
        """Serve an optimized copy.

        Args:
            with_graphs: whether all segments are joined and get graphs; otherwise only new ones are optimized.
        """
        before, source = self._process, self._shard_directory()
        target = self.directory / f"shard-{self._number + 1}"
        successor: ShardProcess | None = None
        try:
            async with self._writes_held():
                await asyncio.to_thread(_copy, source, target)
                record = self._record = WriteRecord(target.with_suffix(".writes"))
                new_points = self._unindexed_before + before.written_points
                self._unindexed_before = -before.written_points
            await self._optimize_copy(target, with_graphs=with_graphs)
            successor = await ShardProcess.start(target, self.directory / CONFIGURATION)
            points = successor.info["points_count"]
            for _ in range(REPLAY_ROUNDS):
                if record.unreplayed_bytes <= REPLAYED_LAST_BYTES:
                    break
                await record.replay(successor)
            await asyncio.to_thread(sync, target)
            async with self._writes_held():
                await record.replay(successor)
                await asyncio.to_thread(sync, target)  # the repeated writes were on disk in the shard that is deleted
                self._take_over(successor, points, 0 if with_graphs else self._graphless_points + new_points)
        except (OptimizerError, ErrorReply, OSError) as error:
            log.error("optimizer.failed", directory=str(target), reason=str(error))  # noqa: TRY400  it is explained
        finally:
            self._stop_recording()
            unused = successor if self._process is before else before
            if unused is not None:
                await unused.retire()
            shutil.rmtree(target if self._process is before else source, ignore_errors=True)

    @asynccontextmanager
    async def _writes_held(self) -> AsyncIterator[None]:
        """Within the block all earlier writes are applied, later ones wait, and the shard's files do not change."""
        self._writable.clear()
        try:
            await self._process.ask(RequestKind.HOLD)
            yield
        finally:
            self._writable.set()
            with suppress(ErrorReply):
                await self._process.ask(RequestKind.RELEASE)

    async def _optimize_copy(self, target: Path, *, with_graphs: bool) -> None:
        segments = schema.JOINED_SEGMENTS if with_graphs else schema.SEPARATE_SEGMENTS
        graphs = "graphs" if with_graphs or self._graphless_points < self._optimized_points else "bytes"
        arguments = [str(target), str(self.directory / CONFIGURATION), str(segments), graphs]
        module = [sys.executable, "-m", "embedded.qdrant.optimizer", *arguments]
        process = await asyncio.create_subprocess_exec(*guarded(module), stdin=subprocess.PIPE)
        try:
            code = await process.wait()
        finally:
            await _killed(process)
        if code:
            raise OptimizerError(f"it ended with code {code}")

    def _take_over(self, successor: ShardProcess, points: int, graphless: int) -> None:
        self._number += 1
        self._optimized_points = points
        self._graphless_points = min(points, graphless)
        self._save()
        self._process = successor
        self._process.watch(self._died)
        self._unindexed_before = 0

    def _stop_recording(self) -> None:
        if self._record is not None:
            self._record.close()
            self._record = None

    def _shard_directory(self) -> Path:
        return self.directory / f"shard-{self._number}"

    def _remove_leftovers(self) -> None:
        for path in self.directory.glob("shard-*"):
            if path.suffix == ".writes":
                path.unlink()
            elif path != self._shard_directory():
                shutil.rmtree(path)

    def _save(self) -> None:
        configuration = {
            "config": self.config,
            "indexes": self.indexes,
            "shard": self._number,
            "optimized_points": self._optimized_points,
            "graphless_points": self._graphless_points,
        }
        _write_configuration(self.directory, configuration)


class OptimizerError(Exception):
    """The optimizer's process failed."""


class WriteRecord:
    """The writes that have arrived since a copy was made, in a file, because they may be larger than the memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] = path.open("wb")
        self._replayed_bytes = 0
        self._failure: OSError | None = None

    def add(self, kind: RequestKind, body: bytes) -> None:
        """Record a request. An error is raised by `replay`, because the request itself can be applied."""
        try:
            self._file.write(packed(0, kind, body))
        except OSError as error:
            self._failure = error

    @property
    def unreplayed_bytes(self) -> int:
        return self._file.tell() - self._replayed_bytes

    async def replay(self, process: ShardProcess) -> None:
        """Make the process apply the recorded requests that it has not applied.

        Raises:
            OSError: a request could not be recorded, for example because the disk is full.
        """
        if self._failure is not None:
            raise self._failure
        self._file.flush()
        end = self._file.tell()
        await process.write(RequestKind.REPLAY, orjson.dumps([str(self._path), self._replayed_bytes, end]))
        self._replayed_bytes = end

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)


class ShardProcess:
    """A process that serves a shard (`embedded.qdrant.serving`).

    Args:
        info: the result of `Shard.info` at its start.
    """

    def __init__(self, process: asyncio.subprocess.Process, connection: Connection, info: Json) -> None:
        self._process = process
        self._connection = connection
        self.info = info
        self.written_points = 0  # since its start, with deleted ones

    @classmethod
    async def start(cls, directory: Path, configuration: Path) -> ShardProcess:
        """Start a process and wait until it has loaded the shard.

        Raises:
            ErrorReply: the process ended before.
        """
        own, its = socket.socketpair()
        with its:
            arguments = [str(its.fileno()), str(directory), str(configuration)]
            command = [sys.executable, "-m", "embedded.qdrant.serving", *arguments]
            process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()])
        connection = await Connection.open(own)
        try:
            info = orjson.loads(await connection.started)
        except BaseException:
            await connection.close()
            await _killed(process)
            raise
        return cls(process, connection, info)

    def watch(self, died: Callable[[], None]) -> None:
        """Call a function if the process ends by itself, or if it has ended."""
        self._connection.watch(died)

    async def ask(self, kind: RequestKind, body: bytes = b"") -> bytes:
        return await self._connection.ask(kind, body)

    async def ask_info(self) -> Json:
        info: Json = orjson.loads(await self.ask(RequestKind.INFO))
        return info

    async def write(self, kind: RequestKind, body: bytes) -> int:
        """Return the number of operations in the request."""
        self.written_points, operations = orjson.loads(await self.ask(kind, body))
        return int(operations)

    async def close(self) -> None:
        """Flush and end."""
        with suppress(ErrorReply):
            await self.ask(RequestKind.CLOSE)
        await self.kill()

    async def retire(self) -> None:
        """End after the replies to all requests."""
        try:
            await self._connection.answered()
        finally:
            await self.kill()

    async def kill(self) -> None:
        await self._connection.close()
        await _killed(self._process)


async def _killed(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.communicate()  # also closes its standard input


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def _write_configuration(directory: Path, configuration: Json) -> None:
    """Replace the configuration atomically."""
    path = directory / CONFIGURATION
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(orjson.dumps(configuration))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
