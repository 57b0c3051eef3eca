"""Parsing in separate processes, so that a hostile file cannot do harm."""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self, TypeVar

import orjson

from shared.domain.documents import ReadyQuestion
from shared.domain.errors import Transient, Unreadable
from shared.domain.pages import PAGE_DPI, PageText
from shared.ingest.parse import kinds
from shared.ingest.parse.document import ChunkingOptions, ExtractedText, PagesToRead, ParsedDocument, Reading
from shared.ingest.parse.fair_semaphore import FairSemaphore
from shared.ingest.parse.protocol import LENGTH, READY, PageRequest, ParseRequest
from shared.ingest.parse.replies import (
    MAX_PART_BYTES,
    InvalidReply,
    ReplyChunks,
    ReplyHead,
    ReplyLimits,
    pages_of,
    read_head,
)
from shared.ingest.parse.scans.language_data import folder as data_folder
from shared.ingest.parse.scans.language_data import lacking, lacking_packages
from shared.ingest.parse.scans.limits import MAX_PAGE_CHARS, MAX_PAGES, PAGE_SECONDS

T = TypeVar("T")
START_TIMEOUT = timedelta(seconds=60)
MAX_NATIVE_FILES = 200
"""A child is replaced after native code has read this many files, because that code may leak memory."""

MORE_THREADS = 64
"""A child with this many threads more than at its start is killed: the extractor adds one for a large page."""

_THREADS_SECONDS = 0.2  # between two counts of a child's threads while it reads a file
_IDLE_THREADS_SECONDS = 1.0

LIFETIMES = 20
"""A child is replaced after this multiple of one file's processor time; soon afterwards the kernel kills it."""

NEAR_LIMIT = 0.75
"""A child that dies with this share of its limit in memory died of it."""

NEAR_LIMIT_AT_ABORT = 0.5
"""The same for a child that aborts: a buffer that is doubled is refused when it has half of the limit."""

_PAGE_WALL = 6  # times the processor time that a page may take
_PIECE_CHARS = 100_000
_SMALL_BYTES = 65_536  # of a reply: decoding it takes half a millisecond, and changing threads as long

_ROOT = str(Path(__file__).resolve().parents[3])
_OUT_OF_MEMORY = (b"memory allocation of", b"MemoryError", b"bad_alloc", b"out of memory")
_FOLDER_PREFIX = "foreask-parser-"
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


class ParsingSandbox:
    """Child processes that each parse many files, one at a time.

    A file that crashes its child affects no other child. A sandbox belongs to the event loop that first uses it.

    Args:
        workers: number of files parsed concurrently.
        timeout: limit per file, in wall-clock and in processor time.
        memory_bytes: memory limit of a child.
        max_text_chars: a file with more text is rejected.
        scans: whether children can find pages without text, for `parse` with a `reading`.
        page_timeout: limit per page that is read by OCR, in processor time.
    """

    def __init__(
        self,
        *,
        workers: int = 1,
        timeout: timedelta = timedelta(seconds=30),
        memory_bytes: int = 1024 * 1024 * 1024,
        max_text_chars: int = 20_000_000,
        scans: bool = False,
        page_timeout: timedelta = timedelta(seconds=PAGE_SECONDS),
    ) -> None:
        self._timeout = timeout
        self._page_timeout = page_timeout
        self._parsing = _Profile("scans" if scans else "parse")
        self._memory_bytes = memory_bytes
        self._max_text_chars = max_text_chars
        self._slots = FairSemaphore(workers)
        self._children = ChildLimits(memory_bytes, ceil(timeout.total_seconds()) * (LIFETIMES + 1))
        self._idle: list[_ParserProcess] = []
        self._live: set[_ParserProcess] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the children after they have parsed their current files; later files are refused."""
        self._closed = True
        while self._idle:
            await self._idle.pop().end()

    @property
    def children(self) -> int:
        """The number of processes that this sandbox has started and not yet ended."""
        return sum(not child.buried for child in self._live)

    async def parse(
        self,
        path: Path,
        *,
        filename: str | None,
        media_type: str | None,
        options: ChunkingOptions,
        max_chunks: int = 50_000,
        questions: Sequence[ReadyQuestion] = (),
        tenant: str | None = None,
        reading: Reading | None = None,
        pictures: int = 0,
    ) -> ParsedDocument | PagesToRead:
        """Parse the file at `path`, and assign its ready-made questions to chunks.

        Args:
            path: the file, which is opened here.
            filename: name given by the sender.
            media_type: type declared by the sender.
            options: options for dividing it.
            max_chunks: a file with more chunks is rejected.
            questions: questions submitted with it.
            tenant: owner. A child whose libraries have read one tenant's file reads no file of another tenant.
            reading: the texts of its pages that were read by OCR; None: pages without text are not read.
            pictures: maximum number of pictures in it that become chunks; it needs the extra `ocr`.

        Returns:
            The document, or its pages without text if `reading` lacks some of them.

        Raises:
            Unreadable: the file has no readable text, or reading it took too much time or memory, or crashed.
            Transient: no child could be started.
        """
        request = self._request(filename, media_type, options, max_chunks, web_page=False)
        request["questions"] = [(question.text, question.quote) for question in questions]
        request["pictures"] = pictures
        if reading is not None:
            if reason := lacking_packages():  # another parse worker may have them
                raise Transient(f"This parse worker cannot use texts of scanned pages: {reason}")
            request["read_pages"] = [
                (number, page.text, page.words, page.confidence) for number, page in reading.texts.items()
            ]
        return await self._parse(path, request, tenant)

    async def read_page(
        self,
        path: Path,
        number: int,
        *,
        languages: tuple[str, ...],
        dpi: int = PAGE_DPI,
        tenant: str | None = None,
    ) -> PageText:
        """Return the text of a page of the file at `path`, read by OCR.

        Args:
            path: the file.
            number: number of the page in it, from 1.
            languages: languages of OCR, in the engine's codes, such as `eng`.
            dpi: resolution; a page that cannot be read completely is read again at 300.
            tenant: owner of the file.

        Raises:
            Unreadable: the page has ink but no words, or reading it failed; the message names the page.
            Transient: no child could be started.
        """
        if reason := lacking(languages):
            raise Unreadable(f"page {number:,} cannot be read: {reason}")
        request = PageRequest(number=number, dpi=dpi, cpu_seconds=ceil(self._page_timeout.total_seconds()))
        task = _Task(
            request,
            ReplyLimits(chunks=0, text_chars=0, chunk_chars=0, questions=0, page_chars=MAX_PAGE_CHARS),
            _Profile("ocr", languages),
            tenant,
            timeout=self._page_timeout,
            subject=f"page {number:,}",
        )
        result = await self._result(path, task)
        assert isinstance(result, PageText)
        return result

    async def text_of_page(
        self, path: Path, *, filename: str | None, media_type: str | None, tenant: str | None = None
    ) -> ExtractedText:
        """Return the text of the file at `path`, which was downloaded from the web: of HTML only the main part.

        It has the arguments and the errors of `parse`.
        """
        most = self._max_text_chars // _PIECE_CHARS + 1
        request = self._request(filename, media_type, ChunkingOptions(_PIECE_CHARS), most, web_page=True)
        document = await self._parse(path, request, tenant)
        assert isinstance(document, ParsedDocument)  # it reads no pages
        return ExtractedText("".join(piece.text for piece in document.chunks), document.title, document.media_type)

    def _request(
        self, filename: str | None, media_type: str | None, options: ChunkingOptions, max_chunks: int, *, web_page: bool
    ) -> ParseRequest:
        return ParseRequest(
            filename=filename,
            media_type=media_type,
            max_chars=options.max_chars,
            overlap_chars=options.overlap_chars,
            section_max_chars=options.section_max_chars,
            max_text_chars=self._max_text_chars,
            max_chunks=max_chunks,
            cpu_seconds=ceil(self._timeout.total_seconds()),
            web_page=web_page,
            questions=[],
            read_pages=None,
            pictures=0,
        )

    async def _parse(self, path: Path, request: ParseRequest, tenant: str | None) -> ParsedDocument | PagesToRead:
        needs_scans = request["read_pages"] is not None or request["pictures"]
        profile = _Profile("scans") if needs_scans else self._parsing
        task = _Task(request, _limits_of(request), profile, tenant, timeout=self._timeout)
        result = await self._result(path, task, request["filename"], request["media_type"])
        assert not isinstance(result, PageText)
        return result

    async def _result(
        self, path: Path, task: _Task, filename: str | None = None, media_type: str | None = None
    ) -> _Result:
        async with self._slots.one(task.tenant):
            if self._closed:
                raise Transient("the parsing sandbox is closed")
            with await _open(path) as file:
                plain = kinds.is_plain(_head(file), filename=filename, media_type=media_type)
                answer = await self._exchange(replace(task, file=file.fileno(), taint=None if plain else task.tenant))
        return _result_of(answer, task, self._memory_bytes)

    async def _exchange(self, task: _Task) -> _Answer:
        """Return a child's answer. If a used child dies, a new one tries again: earlier files may be the reason."""
        if used := await self._used_child(task):
            outcome = await self._ask(used, task)
            if not isinstance(outcome, _Death) and outcome.head.outcome != "memory":
                return outcome
            os.lseek(task.file, 0, os.SEEK_SET)
        outcome = await self._ask(await self._new_child(task.profile), task)
        if isinstance(outcome, _Death):
            raise Unreadable(_cause(outcome, task.timeout, self._memory_bytes, task.subject), detail=outcome.detail)
        return outcome

    async def _ask(self, child: _ParserProcess, task: _Task) -> _Answer | _Death:
        """Return the child's answer. Afterwards the child is always idle or ended."""
        reusable = False
        try:
            async with asyncio.timeout(task.wall_seconds):
                answer = await child.ask(task)
            reusable = self._reusable(answer.head)
        except TimeoutError as error:
            raise Unreadable(_took_too_long(task.timeout, task.subject)) from error
        except InvalidReply as error:
            return replace(await child.end(), fault="invalid reply", detail=str(error))
        except (EOFError, OSError):
            return await child.end()
        else:
            return answer
        finally:
            if reusable:
                self._idle.append(child)
            else:
                await child.end()

    async def warm(self) -> None:
        """Start a child before the first file, and remove folders of killed workers."""
        await asyncio.to_thread(_remove_leftovers)
        self._idle.append(await self._new_child(self._parsing))

    async def _new_child(self, profile: _Profile) -> _ParserProcess:
        child = await _ParserProcess.start(self._children, profile)
        self._live = {live for live in self._live if not live.buried} | {child}
        return child

    async def _used_child(self, task: _Task) -> _ParserProcess | None:
        """Return an idle child that may and can do a task; if there is none, end another one to make room."""
        for dead in [child for child in self._idle if not child.alive]:
            self._idle.remove(dead)
            await dead.end()
        child = next((child for child in reversed(self._idle) if child.may_do(task)), None)
        if child is not None:
            self._idle.remove(child)
        elif self._idle:
            await self._idle.pop(0).end()
        return child

    def _reusable(self, reply: ReplyHead) -> bool:
        """Return whether a child in this state may read another file."""
        worn = (
            reply.native_files >= MAX_NATIVE_FILES
            or reply.resident_bytes > self._memory_bytes // 2
            or reply.cpu_seconds > self._timeout.total_seconds() * LIFETIMES
        )
        return not (worn or self._closed or reply.outcome == "memory")


_Result = ParsedDocument | PagesToRead | PageText


def _result_of(answer: _Answer, task: _Task, memory_bytes: int) -> _Result:
    head = answer.head
    if answer.result:
        return answer.result
    match head.outcome:
        case "unreadable":
            raise Unreadable(head.reason, detail=head.detail)
        case "memory":
            raise Unreadable(_needed_too_much(memory_bytes, task.subject))
        case _:
            message = f"{task.subject} could not be parsed; the log of the parse worker says why"
            raise Unreadable(message, detail=head.detail)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A valid reply, and its result if it has one."""

    head: ReplyHead
    result: _Result | None


@dataclass(frozen=True, slots=True)
class _Death:
    """The end of a child; `peak_bytes` is 0 if its memory is unknown, `fault` the worker's reason if it killed it."""

    status: int
    peak_bytes: int
    last_words: bytes
    fault: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Lifetime limits of a child: memory, and seconds of processor time."""

    memory_bytes: int
    cpu_seconds: int


@dataclass(frozen=True, slots=True)
class _Profile:
    """Libraries that a child loads: `scans` adds to `parse` how to find pages without text; `ocr` reads pages."""

    name: Literal["parse", "scans", "ocr"]
    languages: tuple[str, ...] = ()

    def serves(self, other: _Profile) -> bool:
        return self == other or (self.name, other.name) == ("scans", "parse")

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.name, str(data_folder()), "+".join(self.languages)) if self.languages else (self.name,)


@dataclass(frozen=True, slots=True)
class _Task:
    """A request, the open descriptor of its file, and its tenant.

    `taint` is the tenant to whom the child is bound from then on; None if no library reads the file. `timeout` is the
    limit of processor time. `subject` names the file or page in errors.
    """

    request: ParseRequest | PageRequest
    limits: ReplyLimits
    profile: _Profile
    tenant: str | None
    timeout: timedelta
    file: int = -1
    taint: str | None = None
    subject: str = "the file"

    @property
    def wall_seconds(self) -> float:
        """The limit of time; pages get more, because workers read them on all cores."""
        seconds = self.timeout.total_seconds()
        return seconds * _PAGE_WALL if self.profile.name == "ocr" else seconds


def _limits_of(request: ParseRequest) -> ReplyLimits:
    """Return the largest accepted reply; a chunk's text may be twice as long as configured, which no reply needs."""
    read = request["read_pages"]
    return ReplyLimits(
        chunks=request["max_chunks"],
        text_chars=request["max_text_chars"],
        chunk_chars=request["max_chars"] * 2,
        questions=len(request["questions"]),
        pages=0 if read is None else max(0, MAX_PAGES - len(read)),
        read=frozenset(number for number, *_ in read or ()),
        pictures=request["pictures"],
    )


class _ParserProcess:
    """One process and the socket to it.

    `tenant` is the tenant whose files libraries have read in it; None until then.
    """

    def __init__(  # noqa: PLR0917 - called once
        self,
        profile: _Profile,
        process: subprocess.Popen[bytes],
        scratch: IO[bytes],
        channel: socket.socket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._profile = profile
        self._process = process
        # Until a child executes another program it shares this process's memory, whose peak counts as its own for ever.
        self._inherited_peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT
        self.tenant: str | None = None
        self._scratch = scratch
        self._channel = channel
        self._reader = reader
        self._writer = writer
        self._burial: asyncio.Future[_Death] | None = None
        self._limiting: asyncio.Task[None] | None = None
        self._reading = asyncio.Event()
        self._fault = ""

    @classmethod
    async def start(cls, limits: ChildLimits, profile: _Profile) -> Self:
        """Start a child, and return it when it has reported that it is ready.

        It is started by the event loop's own thread, because Linux kills it when its starting thread ends.
        """
        with _folder() as folder:
            try:
                scratch = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the child is buried
            except OSError as error:
                raise _no_folder(error) from error
            child = await cls._spawned(limits, profile, scratch, folder)
            return await child.greeted()

    @classmethod
    async def _spawned(cls, limits: ChildLimits, profile: _Profile, scratch: IO[bytes], folder: str) -> Self:
        ours, theirs = socket.socketpair()
        try:
            process = _spawn(theirs, scratch, limits, profile, folder)
        except OSError as error:
            ours.close()
            scratch.close()
            raise Transient(f"no parser process can be started: {error.strerror}") from error
        finally:
            theirs.close()
        ours.setblocking(False)  # noqa: FBT003 - its only parameter
        return cls(profile, process, scratch, ours, *await asyncio.open_connection(sock=ours))

    async def greeted(self) -> Self:
        """Wait until this child has reported that it is ready, and return it."""
        try:
            async with asyncio.timeout(START_TIMEOUT.total_seconds()):
                await self._reader.readexactly(len(READY))
        except (TimeoutError, EOFError, OSError) as error:
            death = await self.end()
            words = death.last_words.decode(errors="replace").strip().rpartition("\n")[2]
            cause = words or f"it ended with status {death.status}"
            raise Transient(f"the parser process did not start: {cause}") from error
        except BaseException:
            await self.end()
            raise
        # Counted before the child receives a file: code in it could start threads before the first step of the task.
        self._limiting = asyncio.create_task(self._limit_threads(self._threads() + MORE_THREADS))
        return self

    @property
    def alive(self) -> bool:
        return not self._reader.at_eof()

    def may_do(self, task: _Task) -> bool:
        """Return whether the child has the libraries of a task, and has read no file of another tenant."""
        return self._profile.serves(task.profile) and self.tenant in (None, task.tenant)

    @property
    def buried(self) -> bool:
        return self._burial is not None and self._burial.done()

    async def ask(self, task: _Task) -> _Answer:
        """Return the child's answer.

        Raises:
            InvalidReply: the child sent an invalid reply.
            EOFError, OSError: the child died.
        """
        self._reading.set()
        try:
            return await self._answer(task)
        finally:
            self._reading.clear()

    async def _answer(self, task: _Task) -> _Answer:
        self.tenant = task.taint or self.tenant
        body = orjson.dumps(task.request)
        # The file's descriptor bypasses the transport, which has nothing left to send: the child has answered.
        socket.send_fds(self._channel, [LENGTH.pack(len(body))], [task.file])
        self._writer.write(body)
        limits = task.limits
        head = read_head(await self._message(limits.head_bytes), limits)
        if head.document is None:
            return _Answer(head, pages_of(head))
        chunks, left = ReplyChunks(head, limits), limits.parts_bytes
        for _ in range(head.parts):
            body = await self._message(min(MAX_PART_BYTES, left))
            left -= len(body)
            await _decoded(partial(chunks.add, body), len(body))
        return _Answer(head, await _decoded(chunks.document, limits.parts_bytes - left))

    async def _limit_threads(self, most: int) -> None:
        """Kill the child when it has more threads, even while it is idle; seccomp cannot count threads."""
        while self._threads() <= most:
            if self._reading.is_set():
                await asyncio.sleep(_THREADS_SECONDS)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._reading.wait(), _IDLE_THREADS_SECONDS)
        self._fault = "too many threads"
        self._kill()

    def _threads(self) -> int:
        """Return the number of the child's threads; 0 if unknown."""
        with suppress(OSError):
            return Path(f"/proc/{self._process.pid}/task").stat().st_nlink - 2
        return 0

    async def _message(self, max_bytes: int) -> bytes:
        (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        if length > max_bytes:
            raise InvalidReply(f"a message of {length} bytes")
        return await self._reader.readexactly(length)

    async def end(self) -> _Death:
        """Kill the child with all processes of its session; a child that has already died keeps its exit status."""
        if self._burial is None:
            if self._limiting is not None:
                self._limiting.cancel()
            self._writer.close()
            self._kill()
            self._burial = asyncio.ensure_future(asyncio.to_thread(self._bury))
        return await asyncio.shield(self._burial)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _bury(self) -> _Death:
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        peak = usage.ru_maxrss * _MAXRSS_UNIT
        its_own = peak * NEAR_LIMIT > self._inherited_peak_bytes
        with self._scratch as scratch:
            scratch.seek(0)
            return _Death(self._process.returncode, peak if its_own else 0, scratch.read(65_536), self._fault)


def _remove_leftovers() -> None:
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


async def _decoded(decode: Callable[[], T], size: int) -> T:
    """Call a function that decodes some bytes: many in a thread, because the event loop must not block."""
    return decode() if size <= _SMALL_BYTES else await asyncio.to_thread(decode)


def _head(file: IO[bytes]) -> bytes:
    try:
        return os.pread(file.fileno(), kinds.HEAD_BYTES, 0)
    except OSError:  # the child will fail with it, too
        return b""


async def _open(path: Path) -> IO[bytes]:
    """Open a stored file in a thread; if the caller is cancelled meanwhile, the file is closed."""
    opening = asyncio.ensure_future(asyncio.to_thread(_opened, path))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close)
        raise


def _close(opening: asyncio.Future[IO[bytes]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        raise Unreadable(f"the stored file cannot be opened: {error.strerror}") from error


def _spawn(
    channel: socket.socket, scratch: IO[bytes], limits: ChildLimits, profile: _Profile, folder: str
) -> subprocess.Popen[bytes]:
    """Start a child without secrets: its environment contains only the variables that Python needs to find modules."""
    arguments = [str(limits.memory_bytes), str(limits.cpu_seconds), folder, *profile.arguments]
    return subprocess.Popen(  # noqa: S603 - this interpreter, this package
        [sys.executable, "-P", "-m", "shared.ingest.parse.child", *arguments],
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


def _cause(death: _Death, timeout: timedelta, memory_bytes: int, subject: str = "the file") -> str:
    """Return a readable reason for a child's death; native libraries that run out of memory fail in many ways."""
    if death.fault:
        return f"{subject} crashed the parser ({death.fault})"
    if death.status == -signal.SIGXCPU:
        return _took_too_long(timeout, subject)
    out_of_memory = any(words in death.last_words for words in _OUT_OF_MEMORY)
    near_limit = NEAR_LIMIT_AT_ABORT if death.status == -signal.SIGABRT else NEAR_LIMIT
    if out_of_memory or death.peak_bytes > memory_bytes * near_limit:
        return _needed_too_much(memory_bytes, subject)
    if death.status < 0:
        return f"{subject} crashed the parser (signal {-death.status})"
    return f"{subject} crashed the parser (status {death.status})"


def _took_too_long(timeout: timedelta, subject: str) -> str:
    return f"{subject} took longer than {timeout.total_seconds():g} s to read"


def _needed_too_much(memory_bytes: int, subject: str) -> str:
    return f"{subject} needed more than {memory_bytes / 2**30:.1f} GB of memory to read"
