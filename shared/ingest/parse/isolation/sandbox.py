"""Parsing in separate processes, so that a hostile file cannot do harm."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self, TypeVar

import orjson
import structlog

from shared.confined.fair_semaphore import FairSemaphore
from shared.confined.process import (
    ChildLimits,
    ConfinedProcess,
    InvalidReply,
    ProcessExit,
    cause,
    needed_too_much,
    remove_leftovers,
    took_too_long,
)
from shared.confined.reading import as_file
from shared.domain.corpus.documents import ReadyQuestion
from shared.domain.errors import Transient, Unreadable
from shared.domain.stages.pages import PAGE_DPI, PageText
from shared.ingest.parse import kinds
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.document import PagesToRead, ParsedDocument, Reading
from shared.ingest.parse.isolation.protocol import PageRequest, ParseRequest, WebPage
from shared.ingest.parse.isolation.replies import (
    MAX_PART_BYTES,
    ReplyChunks,
    ReplyHead,
    ReplyLimits,
    pages_of,
    read_facts,
    read_head,
)
from shared.ingest.parse.isolation.small_files import SMALL_BYTES, SmallFiles, Waiting
from shared.ingest.parse.scans.language_data import folder as data_folder
from shared.ingest.parse.scans.language_data import lacking, lacking_packages
from shared.ingest.parse.scans.limits import MAX_PAGE_CHARS, MAX_PAGES, PAGE_SECONDS
from shared.ingest.parse.web.facts import PageFacts
from shared.ingest.parse.web.reading import WebPageReading, WebPageText

T = TypeVar("T")
log = structlog.get_logger()
MAX_NATIVE_FILES = 200
"""A child is replaced after native code has read this many files, because that code may leak memory."""

LIFETIMES = 20
"""A child is replaced after this multiple of one file's processor time; soon afterwards the kernel kills it."""

_PAGE_WALL = 6  # times the processor time that a page may take
_PIECE_CHARS = 100_000
_KIND = "shared.ingest.parse.isolation.child"
_SMALL_BYTES = 65_536  # of a reply: decoding it takes half a millisecond, and changing threads as long


class ParsingSandbox:
    """Child processes that each parse many files, one after the other.

    A file that crashes its child affects no other child. Small files of a tenant are sent to a child together. If it
    dies, or takes too long, the files without an answer are parsed again, each alone.

    A sandbox belongs to the event loop that first uses it.

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
        self._small = SmallFiles[_Kind, _Task, _Answer](self._read_together, most_groups=workers)
        self._children = ChildLimits(memory_bytes, ceil(timeout.total_seconds()) * (LIFETIMES + 1))
        self._idle: list[_Child] = []
        self._live: set[_Child] = set()
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
            await self._idle.pop().process.end()

    @property
    def children(self) -> int:
        """The number of processes that this sandbox has started and not yet ended."""
        return sum(not child.process.is_reaped for child in self._live)

    async def parse(
        self,
        file: Path | bytes,
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
        """Parse a file, and assign its ready-made questions to chunks.

        Args:
            file: the file, which is opened here, or its content.
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
        request = self._request(filename, media_type, options, max_chunks)
        request["questions"] = [(question.text, question.quote) for question in questions]
        request["pictures"] = pictures
        if reading is not None:
            if reason := lacking_packages():  # another parse worker may have them
                raise Transient(f"This parse worker cannot use texts of scanned pages: {reason}")
            request["read_pages"] = [
                (number, page.text, page.words, page.confidence) for number, page in reading.texts.items()
            ]
        return await self._parse(file, request, tenant)

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

    async def read_web_page(
        self, path: Path, page: WebPage, *, filename: str | None, media_type: str | None, tenant: str | None = None
    ) -> WebPageReading:
        """Return the facts of the page at `path`, which was downloaded from the web, and its text: the main part.

        It has the other arguments and the errors of `parse`; the result says why a page has no readable text.
        """
        most = self._max_text_chars // _PIECE_CHARS + 1
        request = self._request(filename, media_type, ChunkingOptions(_PIECE_CHARS), most)
        request["web_page"] = page
        limits = replace(_limits_of(request), facts=True)
        task = _Task(request, limits, self._parsing, tenant, timeout=self._timeout, subject="the page")
        answer = await self._answered(path, task, filename, media_type)
        if answer.facts is None:
            _result_of(answer, task, self._memory_bytes)
            raise AssertionError
        facts, text_hash = answer.facts
        document = answer.result
        if not isinstance(document, ParsedDocument):
            return WebPageReading(facts, problem=answer.head.reason or None)
        text = "".join(piece.text for piece in document.chunks)
        return WebPageReading(facts, WebPageText(text, document.title, document.media_type, text_hash))

    def _request(
        self, filename: str | None, media_type: str | None, options: ChunkingOptions, max_chunks: int
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
            web_page=None,
            questions=[],
            read_pages=None,
            pictures=0,
        )

    async def _parse(
        self, file: Path | bytes, request: ParseRequest, tenant: str | None
    ) -> ParsedDocument | PagesToRead:
        needs_scans = request["read_pages"] is not None or request["pictures"]
        profile = _Profile("scans") if needs_scans else self._parsing
        task = _Task(request, _limits_of(request), profile, tenant, timeout=self._timeout)
        result = await self._result(file, task, request["filename"], request["media_type"])
        assert not isinstance(result, PageText)
        return result

    async def _result(
        self, file: Path | bytes, task: _Task, filename: str | None = None, media_type: str | None = None
    ) -> _Result:
        return _result_of(await self._answered(file, task, filename, media_type), task, self._memory_bytes)

    async def _answered(self, file: Path | bytes, task: _Task, filename: str | None, media_type: str | None) -> _Answer:
        if isinstance(file, bytes):
            plain = kinds.is_plain(file[: kinds.HEAD_BYTES], filename=filename, media_type=media_type)
            task = replace(task, content=file, taint=None if plain else task.tenant)
            if len(file) <= SMALL_BYTES and (answer := await self._small.answer(task.kind, task)):
                return answer
        async with self._slots.one(task.tenant):
            if self._closed:
                raise Transient("the parsing sandbox is closed")
            if isinstance(file, bytes):
                with as_file(file) as descriptor:
                    os.lseek(descriptor, 0, os.SEEK_SET)
                    return await self._exchange(replace(task, file=descriptor))
            with await _open(file) as opened:
                plain = kinds.is_plain(_head(opened), filename=filename, media_type=media_type)
                return await self._exchange(replace(task, file=opened.fileno(), taint=None if plain else task.tenant))

    async def _read_together(self, kind: _Kind, take: Callable[[], list[Waiting[_Task, _Answer]]]) -> None:
        async with self._slots.one(kind.tenant):
            group = take()
            if group and not self._closed:
                child = await self._used_child(group[0].file) or await self._new_child(kind.profile)
                with as_file(b"".join(one.file.content for one in group)) as descriptor:
                    await self._ask_together(child, group, descriptor)

    async def _ask_together(self, child: _Child, group: Sequence[Waiting[_Task, _Answer]], descriptor: int) -> None:
        """Set the answers of a group within the time of one file. Afterwards the child is always idle or ended."""
        reusable = False
        try:
            async with (
                asyncio.timeout(group[0].file.wall_seconds),
                child.asked([one.file for one in group], descriptor, sizes=[len(one.file.content) for one in group]),
            ):
                for one in group:
                    answer = await child.answer(one.file.limits)
                    if answer.head.outcome == "memory":  # which earlier files may have taken
                        return
                    if not one.answer.done():
                        one.answer.set_result(answer)
            reusable = self._reusable(answer.head)
        except (TimeoutError, InvalidReply, EOFError, OSError) as error:
            unread = sum(not one.answer.done() for one in group)
            log.info("small_files.interrupted", files=len(group), unread=unread, reason=repr(error))
        finally:
            await self._return(child, reusable=reusable)

    async def _exchange(self, task: _Task) -> _Answer:
        """Return a child's answer. If a used child dies, a new one tries again: earlier files may be the reason."""
        if used := await self._used_child(task):
            outcome = await self._ask(used, task)
            if not isinstance(outcome, ProcessExit) and outcome.head.outcome != "memory":
                return outcome
            os.lseek(task.file, 0, os.SEEK_SET)
        outcome = await self._ask(await self._new_child(task.profile), task)
        if isinstance(outcome, ProcessExit):
            raise Unreadable(cause(outcome, task.timeout, self._memory_bytes, task.subject), detail=outcome.detail)
        return outcome

    async def _ask(self, child: _Child, task: _Task) -> _Answer | ProcessExit:
        """Return the child's answer. Afterwards the child is always idle or ended."""
        reusable = False
        try:
            async with asyncio.timeout(task.wall_seconds):
                answer = await child.ask(task)
            reusable = self._reusable(answer.head)
        except TimeoutError as error:
            raise Unreadable(took_too_long(task.timeout, task.subject)) from error
        except InvalidReply as error:
            return replace(await child.process.end(), fault="invalid reply", detail=str(error))
        except (EOFError, OSError):
            return await child.process.end()
        else:
            return answer
        finally:
            await self._return(child, reusable=reusable)

    async def _return(self, child: _Child, *, reusable: bool) -> None:
        if reusable:
            self._idle.append(child)
        else:
            await child.process.end()

    async def warm(self) -> None:
        """Start a child before the first file, and remove folders of killed workers."""
        await asyncio.to_thread(remove_leftovers)
        self._idle.append(await self._new_child(self._parsing))

    async def _new_child(self, profile: _Profile) -> _Child:
        child = _Child(profile, await ConfinedProcess.start(self._children, [_KIND, *profile.arguments]))
        self._live = {live for live in self._live if not live.process.is_reaped} | {child}
        return child

    async def _used_child(self, task: _Task) -> _Child | None:
        """Return an idle child that may and can do a task; if there is none, end another one to make room."""
        for dead in [child for child in self._idle if not child.process.alive]:
            self._idle.remove(dead)
            await dead.process.end()
        child = next((child for child in reversed(self._idle) if child.can_run(task)), None)
        if child is not None:
            self._idle.remove(child)
        elif self._idle:
            await self._idle.pop(0).process.end()
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
            raise Unreadable(needed_too_much(memory_bytes, task.subject))
        case _:
            message = f"{task.subject} could not be parsed; the log of the parse worker says why"
            raise Unreadable(message, detail=head.detail)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A valid reply, its result if it has one, and the facts of a page of the web with the hash of its text."""

    head: ReplyHead
    result: _Result | None
    facts: tuple[PageFacts, str] | None = None


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
class _Kind:
    """The kind of child that may read a file, and its tenant."""

    tenant: str | None
    profile: _Profile
    taint: str | None


@dataclass(frozen=True, slots=True)
class _Task:
    """A request, the open descriptor of its file or its content, and its tenant.

    `taint` is the tenant to whom the child is bound from then on; None if no library reads the file. `timeout` is the
    limit of processor time. `subject` names the file or page in errors.
    """

    request: ParseRequest | PageRequest
    limits: ReplyLimits
    profile: _Profile
    tenant: str | None
    timeout: timedelta
    file: int = -1
    content: bytes = b""
    taint: str | None = None
    subject: str = "the file"

    @property
    def kind(self) -> _Kind:
        return _Kind(self.tenant, self.profile, self.taint)

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


class _Child:
    """A child that parses files.

    `tenant` is the tenant whose files libraries have read in it; None until then.
    """

    def __init__(self, profile: _Profile, process: ConfinedProcess) -> None:
        self.process = process
        self.tenant: str | None = None
        self._profile = profile

    def can_run(self, task: _Task) -> bool:
        """Return whether the child has the libraries of a task, and has read no file of another tenant."""
        return self._profile.serves(task.profile) and self.tenant in (None, task.tenant)

    async def ask(self, task: _Task) -> _Answer:
        """Return the child's answer.

        Raises:
            InvalidReply: the child sent an invalid reply.
            EOFError, OSError: the child died.
        """
        async with self.asked([task], task.file):
            return await self.answer(task.limits)

    @asynccontextmanager
    async def asked(self, tasks: Sequence[_Task], file: int, sizes: Sequence[int] | None = None) -> AsyncIterator[None]:
        """Send the tasks of a file, or of files of these sizes that follow each other in it; read the answers within.

        Raises:
            OSError: the child died.
        """
        self.tenant = tasks[0].taint or self.tenant
        async with self.process.working():
            self.process.send(orjson.dumps({"requests": [task.request for task in tasks], "sizes": sizes}), [file])
            yield

    async def answer(self, limits: ReplyLimits) -> _Answer:
        """Return the next answer; raises as `ask`."""
        head = read_head(await self.process.message(limits.head_bytes), limits)
        facts = read_facts(await self.process.message(MAX_PART_BYTES), head) if head.facts else None
        if head.document is None:
            return _Answer(head, pages_of(head), facts)
        chunks, left = ReplyChunks(head, limits), limits.parts_bytes
        for _ in range(head.parts):
            body = await self.process.message(min(MAX_PART_BYTES, left))
            left -= len(body)
            await _decoded(partial(chunks.add, body), len(body))
        return _Answer(head, await _decoded(chunks.document, limits.parts_bytes - left), facts)


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
