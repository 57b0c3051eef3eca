"""Readers: contents of sources are read in confined processes, which the requests of a tenant share."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil
from typing import IO, Annotated, Any, Literal

import orjson
import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.confined.fair_semaphore import FairSemaphore
from shared.confined.process import (
    ChildLimits,
    ConfinedProcess,
    InvalidReply,
    ProcessExit,
    cause,
    needed_too_much,
    took_too_long,
)
from shared.confined.protocol import DETAIL_CHARS, REASON_CHARS
from shared.confined.records import END, MESSAGE
from shared.domain.errors import Transient, Unreadable

MOST_MESSAGE_BYTES = 2_000_000

log = structlog.get_logger()
_KIND, _CONNECTING = "shared.confined.records", "shared.confined.connecting"
_CONNECTIONS = 16  # listings that are open at once: some wait for their runs
_SLOTS = 4  # as many syncs run at once
_LIFETIMES = 20  # of a message's processor time, after which a process is replaced
_LONGEST_SECONDS = 3_600  # of processor time; the kernel ends a process then
_IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of reading.

    Args:
        timeout: limit of each message, in wall-clock and in processor time.
        memory_bytes: memory of a process.
    """

    timeout: timedelta = timedelta(seconds=30)
    memory_bytes: int = 1024 * 1024 * 1024


class TooSlow(Unreadable):
    """A reader sent no message in time. If it waits for a server, another attempt may succeed."""


class Readers:
    """Confined processes for the contents of sources. They belong to the event loop that first uses them.

    A process reads contents of one tenant only.

    Args:
        limits: limits of reading.
        slots: number of contents that are read concurrently; see `FairSemaphore`.
    """

    def __init__(self, limits: ReadLimits | None = None, *, slots: int = _SLOTS) -> None:
        self._limits = limits or ReadLimits()
        self._most_idle = slots
        self._slots = FairSemaphore(slots)
        self._connections = FairSemaphore(_CONNECTIONS)
        self._idle: list[_Process] = []
        self._ending = set[asyncio.Task[None]]()
        self._closed = False

    def for_tenant(self, tenant: str | None) -> Reader:
        """Return the reader of a tenant's sources."""
        return Reader(self, tenant)

    async def aclose(self) -> None:
        """End the processes; those in use end after their current request, and later requests are refused."""
        self._closed = True
        while self._idle:
            await self._idle.pop().confined.end()

    async def read(self, tenant: str | None, request: _Request) -> AsyncGenerator[bytes, None]:
        """Yield the messages of a reply; raises as `Reader.read`."""
        slots = self._connections if request.kind == _CONNECTING else self._slots
        async with slots.one(tenant):
            if self._closed:
                raise Transient("the readers are closed")
            process, message = await self._first(tenant, request)
            end: _End | None = None
            try:
                async with process.confined.working():
                    while not message.startswith(END):
                        yield message[len(MESSAGE) :]
                        message = await self._next(process, request)
                end = _end_of(message, request)
            except _ProcessDiedError as error:
                raise self._unreadable(error.ended, request) from error
            finally:
                await self._return(process, end)
        _require_done(end, request, self._limits)

    async def _first(self, tenant: str | None, request: _Request) -> tuple[_Process, bytes]:
        """Return a process that has started to answer, and its first message.

        If a used process dies, a new one tries again: earlier contents may be the reason.
        """
        if used := await self._used(tenant, request.module):
            with suppress(_ProcessDiedError):
                return used, await self._asked(used, request)
        limits = ChildLimits(self._limits.memory_bytes, _LONGEST_SECONDS)
        new = _Process(await ConfinedProcess.start(limits, [request.kind, request.module]), tenant, request.module)
        try:
            return new, await self._asked(new, request)
        except _ProcessDiedError as error:
            raise self._unreadable(error.ended, request) from error

    async def _asked(self, process: _Process, request: _Request) -> bytes:
        """Return the first message of a reply. After an error the process has ended."""
        try:
            async with process.confined.working():
                process.confined.send(request.body(ceil(self._limits.timeout.total_seconds())), request.files)
                return await self._next(process, request)
        except OSError as error:
            raise _ProcessDiedError(await process.confined.end()) from error
        except BaseException:
            await process.confined.end()
            raise

    async def _next(self, process: _Process, request: _Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.timeout.total_seconds()):
                return await process.confined.message(MOST_MESSAGE_BYTES + 1)
        except TimeoutError as error:
            raise TooSlow(took_too_long(self._limits.timeout, request.subject)) from error
        except InvalidReply as error:
            ended = await process.confined.end()
            raise _ProcessDiedError(replace(ended, fault="invalid reply", detail=str(error))) from error
        except (EOFError, OSError) as error:
            raise _ProcessDiedError(await process.confined.end()) from error

    async def _used(self, tenant: str | None, module: str) -> _Process | None:
        """Return an idle process of this tenant and module; end idle processes that have died."""
        for dead in [process for process in self._idle if not process.confined.alive]:
            self._idle.remove(dead)
            await dead.confined.end()
        fitting = (each for each in reversed(self._idle) if (each.tenant, each.module) == (tenant, module))
        if process := next(fitting, None):
            self._idle.remove(process)
        return process

    async def _return(self, process: _Process, end: _End | None) -> None:
        """Keep a process for the next request, or end it; without an `end` its reply is incomplete."""
        if self._closed or end is None or not self._reusable(end):
            await process.confined.end()
            return
        self._idle.append(process)
        process.used += 1
        asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._expire, process, process.used)
        if len(self._idle) > self._most_idle:
            await self._idle.pop(0).confined.end()

    def _reusable(self, end: _End) -> bool:
        worn = (
            end.resident_bytes > self._limits.memory_bytes // 2
            or end.cpu_seconds > self._limits.timeout.total_seconds() * _LIFETIMES
        )
        return end.outcome in ("done", "unreadable") and not worn

    def _expire(self, process: _Process, used: int) -> None:
        """End a process that has been idle since it was given back for the time `used`."""
        if process in self._idle and process.used == used:
            self._idle.remove(process)
            task = asyncio.ensure_future(_end(process))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _unreadable(self, ended: ProcessExit, request: _Request) -> Unreadable:
        reason = cause(ended, self._limits.timeout, self._limits.memory_bytes, request.subject)
        return Unreadable(reason, detail=ended.detail)


class Reader:
    """Reads contents of the sources of one tenant."""

    def __init__(self, readers: Readers, tenant: str | None) -> None:
        self._readers = readers
        self._tenant = tenant

    def read(
        self, module: str, name: str, options: Mapping[str, Any], files: Sequence[int], *, subject: str
    ) -> AsyncGenerator[bytes, None]:
        """Yield the messages of a reader, which are untrusted. Close the generator (`aclosing`) to stop reading.

        Args:
            module: the reader's module.
            name: its name in the module's `READERS`.
            options: its options, which must be JSON.
            files: open descriptors, which the caller closes; at most 48.
            subject: name of the content in errors, such as `the file a.jsonl`.

        Raises:
            Unreadable: the reader refuses the content, or it took too much time or memory, or crashed.
            Transient: no process could be started.
        """
        return self._readers.read(self._tenant, _Request(module, name, options, files, subject))

    def connected(
        self, module: str, name: str, options: Mapping[str, Any], *, subject: str
    ) -> AsyncGenerator[bytes, None]:
        """Yield the messages of a reader that connects to a server: see `shared.confined.connecting`.

        It has its own slots, because the server decides how long it takes. Its arguments and errors are as in `read`.
        """
        return self._readers.read(self._tenant, _Request(module, name, options, (), subject, _CONNECTING))

    async def message(
        self, module: str, name: str, options: Mapping[str, Any], content: bytes, *, subject: str
    ) -> bytes:
        """Return the only message about a small content; has the arguments and the errors of `read`."""
        with as_file(content) as file:
            async with aclosing(self.read(module, name, options, [file], subject=subject)) as messages:
                found = [message async for message in messages]
        if len(found) != 1:
            raise Unreadable(f"{subject} crashed the parser (invalid reply)")
        return found[0]


@contextmanager
def as_file(content: bytes) -> Iterator[int]:
    """Yield the descriptor of a temporary file with this content; in memory if the kernel supports it."""
    file: IO[bytes]
    if sys.platform == "linux":
        file = os.fdopen(os.memfd_create("foreask"), "w+b", buffering=0)
    else:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed below
    with file:
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]
        yield file.fileno()


@dataclass(slots=True, eq=False)
class _Process:
    """A process, the tenant whose contents it reads, and the module of its readers."""

    confined: ConfinedProcess
    tenant: str | None
    module: str
    used: int = 0


@dataclass(frozen=True, slots=True)
class _Request:
    """A request: the arguments of `Reader.read`."""

    module: str
    name: str
    options: Mapping[str, Any]
    files: Sequence[int]
    subject: str
    kind: str = _KIND

    def body(self, seconds: int) -> bytes:
        return orjson.dumps({"reader": self.name, "options": self.options, "seconds": seconds})


class _End(BaseModel):
    """The last message of a reply."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    outcome: Literal["done", "unreadable", "memory", "broken"]
    reason: Annotated[str, Field(max_length=REASON_CHARS)]
    detail: Annotated[str, Field(max_length=DETAIL_CHARS)]
    resident_bytes: Annotated[int, Field(ge=0, le=2**53)]
    cpu_seconds: Annotated[float, Field(ge=0)]


class _ProcessDiedError(Exception):
    """A process has died, or was killed because of its reply."""

    def __init__(self, ended: ProcessExit) -> None:
        super().__init__(ended.status)
        self.ended = ended


def _end_of(message: bytes, request: _Request) -> _End:
    """Return the last message of a reply.

    Raises:
        Unreadable: it is not valid.
    """
    try:
        return _End.model_validate_json(message[len(END) :])
    except ValidationError as error:
        raise Unreadable(f"{request.subject} crashed the parser (invalid reply)") from error


def _require_done(end: _End, request: _Request, limits: ReadLimits) -> None:
    match end.outcome:
        case "done":
            return
        case "unreadable":
            raise Unreadable(end.reason.replace("\0", ""), detail=end.detail)
        case "memory":
            raise Unreadable(needed_too_much(limits.memory_bytes, request.subject))
        case _:
            log.warning("reader.failed", reader=request.name, detail=end.detail)
            message = f"{request.subject} could not be read; the log of the parse worker says why"
            raise Unreadable(message, detail=end.detail)


async def _end(process: _Process) -> None:
    await process.confined.end()
