"""The process that parses files.

It is started as `python -m shared.ingest.parse.child MEMORY_BYTES CPU_SECONDS FOLDER PROFILE [DATA_FOLDER LANGUAGES]`.
The profile `parse` parses files, `scans` also finds their pages without text, and `ocr` reads such pages.

It reads requests from the socket on descriptor 0 and replies there, one at a time, until the parent closes the socket.
Each request passes an open descriptor of the file, because this process opens none. Output of native libraries is
written to descriptors 1 and 2, a small scratch file that the sandbox reads if the process dies.
"""

from __future__ import annotations

import ctypes
import encodings
import os
import pkgutil
import resource
import shutil
import signal
import socket
import sys
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from io import FileIO
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from shared.domain.chunks import ChunkContent
from shared.domain.documents import ReadyQuestion
from shared.domain.errors import Unreadable
from shared.domain.pages import PageText
from shared.ingest.parse import confinement
from shared.ingest.parse.chunking import divide
from shared.ingest.parse.document import ChunkingOptions, PagesToRead, ParsedDocument
from shared.ingest.parse.extraction import PageFinder, ScanOptions, extract
from shared.ingest.parse.extraction import load as load_extractor
from shared.ingest.parse.extraction import native_files as extracted_files
from shared.ingest.parse.illustrations import Shrink, illustrated
from shared.ingest.parse.languages import load as load_detector
from shared.ingest.parse.languages import with_languages
from shared.ingest.parse.protocol import (
    DETAIL_CHARS,
    LENGTH,
    READY,
    REASON_CHARS,
    ParseReply,
    ParseReplyOutcome,
    ParseRequest,
    flatten,
    pack_reply,
)
from shared.ingest.parse.questions import assign
from shared.process import priority

Work = Callable[[Any, bytes], ParseReply]
"""Answers a request of the child's profile about a file with this content."""

Load = Callable[[], Work]

SCRATCH_BYTES = 1024 * 1024
MAPPED_BYTES = 2 * 1024 * 1024 * 1024
"""Address space on top of the memory limit, because mapped libraries and files do not count as used memory."""

MAX_OPEN_FILES = 64
"""The runtime of the extractor has about ten, and a request brings one."""

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_UNPRIVILEGED = 65534


def main() -> None:
    """Load the extractor, confine this process, then parse until the parent closes the socket."""
    memory_bytes, cpu_seconds, folder, profile = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    priority.lower(os.nice(0))  # as its worker
    channel = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is needed
        os.dup2(nothing.fileno(), 0)
    statm = _open_statm()
    tie_to_parent()
    load_codecs()
    load_data = _reader(folder, *sys.argv[5:7]) if profile == "ocr" else _parser(profile)
    confinement.close_files(folder)
    work = load_data()
    confine(memory_bytes, cpu_seconds)
    channel.sendall(READY)
    with channel, channel.makefile("rb") as bodies:
        while received := _received_request(channel):
            length, file = received
            request = orjson.loads(bodies.read(length))
            reply = answer(request, file, work) | {"resident_bytes": _resident_bytes(statm)}
            for message in pack_reply(reply):
                channel.sendall(message)
            if reply["outcome"] == "memory":
                return


def _parser(profile: str) -> Load:
    """Import the libraries of a child that parses files, and return the function that loads their data."""
    finder: PageFinder | None = None
    shrink: Shrink | None = None
    if profile == "scans":
        finder = import_module("shared.ingest.parse.scans.finding")
        shrink = import_module("shared.ingest.parse.scans.shrinking").shrunk

    def work(request: Any, content: bytes) -> ParseReply:
        return _outcome(parse(request, content, finder, shrink))

    def load() -> Work:
        load_extractor()
        load_detector()
        return work

    return load


def _reader(folder: Path, data_folder: str, languages: str) -> Load:
    """Import the libraries of a child that reads pages, and return the function that loads its languages.

    Their data is copied to the folder, because later this process can open no other.
    """
    engines = import_module("shared.ingest.parse.scans.engine")
    read_page = import_module("shared.ingest.parse.scans.reading").read_page
    codes = languages.split("+")
    for code in codes:
        shutil.copy(Path(data_folder, f"{code}.traineddata"), folder)

    def load() -> Work:
        engine = engines.Engine(folder, codes)
        pages = count(1)

        def work(request: Any, content: bytes) -> ParseReply:
            text = read_page(content, request["number"], request["dpi"], engine)
            return _reply("text", text=text, native_files=next(pages))

        return work

    return load


def tie_to_parent() -> None:
    """Be killed with the parent, and gain no privileges. Threads inherit both, so this is called first."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def load_codecs() -> None:
    """Import the codecs of all encodings: a file may declare any, and a confined process imports nothing."""
    for module in pkgutil.iter_modules(encodings.__path__):
        with suppress(ImportError):  # two are Windows's
            import_module(f"encodings.{module.name}")


def confine(memory_bytes: int, cpu_seconds: int) -> None:
    """Set limits that the kernel enforces on any parser.

    RLIMIT_DATA counts private writable memory, which approximates the parser's allocations. RLIMIT_AS also counts 0.4
    GB that the extractor's threads reserve without using, so it is only an outer limit.
    """
    os.chdir("/")
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, SCRATCH_BYTES),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_AS, memory_bytes + MAPPED_BYTES),
    ):
        with suppress(ValueError, OSError):  # macOS refuses some of them
            resource.setrlimit(limit, (value, value))
    cease_to_be_root()
    confinement.allow_calls_of_parsing()


def cease_to_be_root() -> None:
    """Continue as an unprivileged user if this is root.

    Limits do not apply to root, which could also make system calls that the filters miss. The change resets the death
    signal and allows other processes of that user to inspect this one: both are set again.
    """
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_UNPRIVILEGED, _UNPRIVILEGED, _UNPRIVILEGED)
        os.setresuid(_UNPRIVILEGED, _UNPRIVILEGED, _UNPRIVILEGED)
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _received_request(channel: socket.socket) -> tuple[int, int] | None:
    """Wait for a request; return its length and its file's descriptor, or None after the last one."""
    header, descriptors, _, _ = socket.recv_fds(channel, LENGTH.size, 1)
    return (LENGTH.unpack(header)[0], descriptors[0]) if header else None


def answer(request: Any, file: int, work: Work) -> ParseReply:
    """Work on the file of a descriptor, and close it; only errors that are not caused by files are raised."""
    _start_clock(request["cpu_seconds"])
    try:
        return work(request, _content(file))
    except Unreadable as error:
        return _reply("unreadable", error.message, error.detail)
    except MemoryError:
        return _reply("memory")
    except RecursionError:
        return _reply("unreadable", "the file is nested too deeply to be read; flatten it")
    except Exception as error:  # noqa: BLE001 - the process boundary: the parent classifies the error
        return _reply("broken", detail=f"{type(error).__name__}: {error}")


def _content(file: int) -> bytes:
    with FileIO(file) as opened:
        return opened.readall()


def parse(
    request: ParseRequest, content: bytes, finder: PageFinder | None = None, shrink: Shrink | None = None
) -> ParsedDocument | PagesToRead:
    """Return the document in a file: its text, divided, and its questions assigned to the chunks.

    If some of its pages must be read by OCR first, return these instead.
    """
    extracted = extract(
        content,
        filename=request["filename"],
        media_type=request["media_type"],
        max_text_chars=request["max_text_chars"],
        web_page=request["web_page"],
        scans=_scans(request, finder),
    )
    if isinstance(extracted, PagesToRead):
        return extracted
    if request["web_page"]:
        pieces = _pieces(extracted.text, request["max_chars"])
        return ParsedDocument(extracted.title, len(extracted.text), extracted.media_type, pieces)
    options = ChunkingOptions(request["max_chars"], request["overlap_chars"], request["section_max_chars"])
    chunks = divide(extracted, options)
    files: dict[str, bytes] = {}
    if (count := len(chunks)) > (most := request["max_chunks"]):
        raise Unreadable(
            f"The document has {count:,} chunks, more than the {most:,} allowed: divide it, or use longer chunks."
        )
    if extracted.markdown:  # source code is in no language
        chunks = with_languages(chunks)
    if request["pictures"] and shrink:
        room = min(request["pictures"], most - count)
        chunks, files = illustrated(content, extracted, chunks, shrink, room)
    indexes = assign([ReadyQuestion(text, quote) for text, quote in request["questions"]], chunks)
    return ParsedDocument(
        extracted.title,
        len(extracted.text),
        extracted.media_type,
        chunks,
        tuple(indexes),
        files,
        extracted.completeness.bounded(),
    )


def _scans(request: ParseRequest, finder: PageFinder | None) -> ScanOptions | None:
    read = request["read_pages"]
    if finder is None or read is None:
        return None
    return ScanOptions(finder, {number: PageText(text, words, confidence) for number, text, words, confidence in read})


def _outcome(parsed: ParsedDocument | PagesToRead) -> ParseReply:
    if isinstance(parsed, PagesToRead):
        return _reply("pages", pages=parsed)
    return _reply("document", document=parsed)


def _pieces(text: str, chars: int) -> tuple[ChunkContent, ...]:
    """Return a text as consecutive pieces, because one message has room for a part of a long text only."""
    starts = range(0, len(text), chars)
    return tuple(ChunkContent(text[at : at + chars], (at, min(at + chars, len(text)))) for at in starts)


def _start_clock(cpu_seconds: int) -> None:
    """Limit this process to `cpu_seconds` of further processor time; the kernel kills it then."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    until = int(usage.ru_utime + usage.ru_stime) + 1 + cpu_seconds
    with suppress(ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (min(until, most), most))
    with suppress(OSError):
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)


def _reply(
    outcome: ParseReplyOutcome,
    reason: str = "",
    detail: str = "",
    *,
    document: ParsedDocument | None = None,
    pages: PagesToRead | None = None,
    text: PageText | None = None,
    native_files: int | None = None,
) -> ParseReply:
    return ParseReply(
        outcome=outcome,
        reason=reason[:REASON_CHARS],
        detail=detail[:DETAIL_CHARS],
        document=flatten(document) if document else None,
        pages=(pages.page_count, pages.numbers, pages.media_type) if pages else None,
        text=(text.text, text.words, text.confidence) if text else None,
        picture=b64encode(text.picture).decode() if text else "",
        parts=0,
        resident_bytes=0,
        cpu_seconds=sum(resource.getrusage(resource.RUSAGE_SELF)[:2]),
        native_files=extracted_files() if native_files is None else native_files,
    )


def _open_statm() -> int | None:
    """Open the kernel's memory figures of this process, if available; later no file can be opened."""
    with suppress(OSError):
        return os.open("/proc/self/statm", os.O_RDONLY)
    return None


def _resident_bytes(statm: int | None) -> int:
    if statm is None:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: bytes, and the most there ever was
    return int(os.pread(statm, 200, 0).split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
