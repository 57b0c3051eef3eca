"""A confined process as its parent sees it: started, asked, watched and killed."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Self

from shared.confined.protocol import LENGTH, READY
from shared.domain.errors import Transient

START_TIMEOUT = timedelta(seconds=60)
MORE_THREADS = 64
"""A process with this many threads more than at its start is killed: the extractor adds one for a large page."""

NEAR_LIMIT = 0.75
"""A process that dies with this share of its limit in memory died of it."""

NEAR_LIMIT_AT_ABORT = 0.5
"""The same for a process that aborts: a buffer that is doubled is refused when it has half of the limit."""

_THREADS_SECONDS = 0.2  # between two counts of the threads while a process answers
_IDLE_THREADS_SECONDS = 1.0
_ROOT = str(Path(__file__).resolve().parents[2])
_OUT_OF_MEMORY = (b"memory allocation of", b"MemoryError", b"bad_alloc", b"out of memory")
_FOLDER_PREFIX = "foreask-parser-"
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


class InvalidReply(Exception):
    """A reply that no reader produces. The message names the wrong part and quotes none of its values."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The end of a process; `peak_bytes` is 0 if its memory is unknown, `fault` the parent's reason if it killed it."""

    status: int
    peak_bytes: int
    last_output: bytes
    fault: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Lifetime limits of a process: memory, and seconds of processor time."""

    memory_bytes: int
    cpu_seconds: int


class ConfinedProcess:
    """One process and the socket to it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        scratch: IO[bytes],
        channel: socket.socket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        # Until a child executes another program it shares this process's memory, whose peak counts as its own for ever.
        self._inherited_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT
        self._scratch = scratch
        self._channel = channel
        self._reader = reader
        self._writer = writer
        self._reaping: asyncio.Future[ProcessExit] | None = None
        self._limiting: asyncio.Task[None] | None = None
        self._working = asyncio.Event()
        self._fault = ""

    @classmethod
    async def start(cls, limits: ChildLimits, kind: Sequence[str]) -> Self:
        """Start a process of a kind, and return it when it has reported that it is ready.

        It is started by the event loop's own thread, because Linux kills it when its starting thread ends.

        Args:
            limits: lifetime limits.
            kind: module of the kind, and its arguments: see `shared.confined.child`.
        """
        with _folder() as folder:
            try:
                scratch = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the child is buried
            except OSError as error:
                raise _no_folder(error) from error
            child = await cls._spawned(limits, kind, scratch, folder)
            return await child.when_ready()

    @classmethod
    async def _spawned(cls, limits: ChildLimits, kind: Sequence[str], scratch: IO[bytes], folder: str) -> Self:
        ours, theirs = socket.socketpair()
        try:
            process = _spawn(theirs, scratch, limits, kind, folder)
        except OSError as error:
            ours.close()
            scratch.close()
            raise Transient(f"no parser process can be started: {error.strerror}") from error
        finally:
            theirs.close()
        ours.setblocking(False)  # noqa: FBT003 - its only parameter
        return cls(process, scratch, ours, *await asyncio.open_connection(sock=ours))

    async def when_ready(self) -> Self:
        """Wait until this child has reported that it is ready, and return it."""
        try:
            async with asyncio.timeout(START_TIMEOUT.total_seconds()):
                await self._reader.readexactly(len(READY))
        except (TimeoutError, EOFError, OSError) as error:
            ended = await self.end()
            words = ended.last_output.decode(errors="replace").strip().rpartition("\n")[2]
            reason = words or f"it ended with status {ended.status}"
            raise Transient(f"the parser process did not start: {reason}") from error
        except BaseException:
            await self.end()
            raise
        # Counted before the child receives a file: code in it could start threads before the first step of the task.
        self._limiting = asyncio.create_task(self._limit_threads(self._threads() + MORE_THREADS))
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._reader.at_eof()

    @property
    def is_reaped(self) -> bool:
        return self._reaping is not None and self._reaping.done()

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Count the threads more often within the block, in which the process answers a request."""
        self._working.set()
        try:
            yield
        finally:
            self._working.clear()

    def send(self, request: bytes, files: Sequence[int]) -> None:
        """Send a request with the open descriptors of its files; the last reply must have been read."""
        # The descriptors bypass the transport, which has nothing left to send: the process has answered.
        socket.send_fds(self._channel, [LENGTH.pack(len(request))], files)
        self._writer.write(request)

    async def message(self, max_bytes: int) -> bytes:
        """Return the next message of the reply.

        Raises:
            InvalidReply: it has more bytes.
            EOFError, OSError: the process died.
        """
        (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        if length > max_bytes:
            raise InvalidReply(f"a message of {length} bytes")
        return await self._reader.readexactly(length)

    async def _limit_threads(self, most: int) -> None:
        """Kill the child when it has more threads, even while it is idle; seccomp cannot count threads."""
        while self._threads() <= most:
            if self._working.is_set():
                await asyncio.sleep(_THREADS_SECONDS)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._working.wait(), _IDLE_THREADS_SECONDS)
        self._fault = "too many threads"
        self._kill()

    def _threads(self) -> int:
        """Return the number of the child's threads; 0 if unknown."""
        with suppress(OSError):
            return Path(f"/proc/{self._process.pid}/task").stat().st_nlink - 2
        return 0

    async def end(self) -> ProcessExit:
        """Kill the child with all processes of its session; a child that has already died keeps its exit status."""
        if self._reaping is None:
            if self._limiting is not None:
                self._limiting.cancel()
            self._writer.close()
            self._kill()
            self._reaping = asyncio.ensure_future(asyncio.to_thread(self._reap))
        return await asyncio.shield(self._reaping)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _reap(self) -> ProcessExit:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        peak = usage.ru_maxrss * _MAXRSS_UNIT
        its_own = peak * NEAR_LIMIT > self._inherited_peak_bytes
        with self._scratch as scratch:
            scratch.seek(0)
            return ProcessExit(self._process.returncode, peak if its_own else 0, scratch.read(65_536), self._fault)


def remove_leftovers() -> None:
    """Remove the folders of children that were killed while they started; recent ones may be in use."""
    oldest = time.time() - 2 * START_TIMEOUT.total_seconds()
    folders = list[Path]()
    with suppress(OSError):  # no folder: the start reports it
        folders = list(Path(tempfile.gettempdir()).glob(_FOLDER_PREFIX + "*"))
    for folder in folders:
        with suppress(OSError):
            if folder.stat().st_mtime < oldest:
                shutil.rmtree(folder)


@contextmanager
def _folder() -> Iterator[str]:
    """Yield a folder for files that a child unpacks while it starts; it is removed after the block."""
    try:
        folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX)
    except OSError as error:
        raise _no_folder(error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _no_folder(error: OSError) -> Transient:
    return Transient(f"{error.strerror}: set TMPDIR to a folder in which this user may write files")


def _spawn(
    channel: socket.socket, scratch: IO[bytes], limits: ChildLimits, kind: Sequence[str], folder: str
) -> subprocess.Popen[bytes]:
    """Start a child without secrets: its environment contains only the variables that Python needs to find modules."""
    arguments = [str(limits.memory_bytes), str(limits.cpu_seconds), folder, *kind]
    return subprocess.Popen(  # noqa: S603 - this interpreter, this package
        [sys.executable, "-P", "-m", "shared.confined.child", *arguments],
        stdin=channel.fileno(),
        stdout=scratch,
        stderr=scratch,
        cwd="/",
        env={
            "PYTHONPATH": os.pathsep.join(dict.fromkeys((_ROOT, *filter(os.path.isabs, sys.path)))),
            "LANG": "C.UTF-8",
            "RUST_BACKTRACE": "0",
            "MALLOC_ARENA_MAX": "2",
            "OMP_THREAD_LIMIT": "1",  # more threads of Tesseract cost more than they gain
        },
        start_new_session=True,
    )


def cause(ended: ProcessExit, timeout: timedelta, memory_bytes: int, subject: str = "the file") -> str:
    """Return a readable reason for a child's death; native libraries that run out of memory fail in many ways."""
    if ended.fault:
        return f"{subject} crashed the parser ({ended.fault})"
    if ended.status == -signal.SIGXCPU:
        return took_too_long(timeout, subject)
    out_of_memory = any(words in ended.last_output for words in _OUT_OF_MEMORY)
    near_limit = NEAR_LIMIT_AT_ABORT if ended.status == -signal.SIGABRT else NEAR_LIMIT
    if out_of_memory or ended.peak_bytes > memory_bytes * near_limit:
        return needed_too_much(memory_bytes, subject)
    if ended.status < 0:
        return f"{subject} crashed the parser (signal {-ended.status})"
    return f"{subject} crashed the parser (status {ended.status})"


def took_too_long(timeout: timedelta, subject: str) -> str:
    return f"{subject} took longer than {timeout.total_seconds():g} s to read"


def needed_too_much(memory_bytes: int, subject: str) -> str:
    return f"{subject} needed more than {memory_bytes / 2**30:.1f} GB of memory to read"
