"""The process in which files are parsed: the sandbox runs `python -m shared.ingest.parse.child MEMORY_BYTES FOLDER`.

It reads requests from the socket on descriptor 0 and answers them there, one at a time, until the other end closes.
Whatever a native library prints goes to descriptors 1 and 2, a small scratch file that the sandbox reads if it dies.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import orjson

from shared.domain.errors import Unreadable
from shared.domain.records import ReadyQuestion
from shared.ingest.parse.chunking import divide
from shared.ingest.parse.document import ChunkingOptions, ParsedDocument
from shared.ingest.parse.extraction import extract, load, native_files
from shared.ingest.parse.pdf_library import private_folder
from shared.ingest.parse.protocol import LENGTH, READY, ParseReply, ParseReplyOutcome, ParseRequest, flatten, pack_reply
from shared.ingest.parse.questions import assign

SCRATCH_BYTES = 1024 * 1024
MAPPED_BYTES = 2 * 1024 * 1024 * 1024
"""Address space on top of the memory limit: shared libraries and files mapped for reading are no memory used."""

DETAIL_CHARS = 500
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def main() -> None:
    """Load the extractor, confine this process, then parse until the parent hangs up."""
    channel = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is wanted
        os.dup2(nothing.fileno(), 0)
    tie_to_parent()
    load_extractor(Path(sys.argv[2]))
    confine(int(sys.argv[1]))
    channel.sendall(READY)
    with channel, channel.makefile("rb") as requests:
        while length := requests.read(LENGTH.size):
            request: ParseRequest = orjson.loads(requests.read(LENGTH.unpack(length)[0]))
            reply = answer(request)
            for message in pack_reply(reply):
                channel.sendall(message)
            if reply["outcome"] == "memory":
                return


def tie_to_parent() -> None:
    """Die with the parent and gain no privileges. A thread inherits both when it starts, so they come first."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def load_extractor(temporary: Path) -> None:
    """Load the extractor before this process is confined: its PDF library is unpacked to a file of 8 MB.

    Raises:
        SystemExit: the library cannot be unpacked or loaded; the message says what to do.
    """
    try:
        with private_folder(temporary):
            load()
    except Exception as error:  # noqa: BLE001 - whatever it is, this process is of no use
        cause = " ".join(str(error).split())[:200]
        sys.exit(
            f"the PDF library cannot be unpacked and loaded in {temporary}: set TMPDIR to a folder where this user may "
            f"write files and run code ({cause})"
        )


def confine(memory_bytes: int) -> None:
    """Limits that the kernel keeps, whatever a parser does.

    RLIMIT_DATA counts private writable memory, so it stands for what a parser allocates; RLIMIT_AS also counts 0.4 GB
    that the extractor's threads reserve and never touch, and so is only the outer fence.
    """
    os.chdir("/")
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, SCRATCH_BYTES),
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_AS, memory_bytes + MAPPED_BYTES),
    ):
        with suppress(ValueError, OSError):  # macOS refuses some of them
            resource.setrlimit(limit, (value, value))


def answer(request: ParseRequest) -> ParseReply:
    """Parse one file; only what no file should bring about escapes."""
    _start_clock(request["cpu_seconds"])
    try:
        return _reply("document", document=parse(request))
    except Unreadable as error:
        return _reply("unreadable", error.message, error.detail)
    except MemoryError:
        return _reply("memory")
    except RecursionError:
        return _reply("unreadable", "the file is nested too deeply to be read; flatten it")
    except Exception as error:  # noqa: BLE001 - the border of the process: the parent decides what it means
        return _reply("broken", detail=f"{type(error).__name__}: {error}")


def parse(request: ParseRequest) -> ParsedDocument:
    """The document in a file: its text, divided, and its questions assigned to the chunks."""
    extracted = extract(
        Path(request["path"]),
        filename=request["filename"],
        media_type=request["media_type"],
        max_text_chars=request["max_text_chars"],
    )
    options = ChunkingOptions(request["max_chars"], request["overlap_chars"], request["section_max_chars"])
    chunks = divide(extracted, options)
    places = assign([ReadyQuestion(text, quote) for text, quote in request["questions"]], chunks)
    return ParsedDocument(extracted.title, len(extracted.text), extracted.media_type, chunks, tuple(places))


def _start_clock(cpu_seconds: int) -> None:
    """Let the kernel end this process `cpu_seconds` of processor time from now, and forget what was printed before."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    until = int(usage.ru_utime + usage.ru_stime) + 1 + cpu_seconds
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    with suppress(OSError):
        os.ftruncate(2, 0)
        os.lseek(2, 0, os.SEEK_SET)


def _reply(
    outcome: ParseReplyOutcome, reason: str = "", detail: str = "", *, document: ParsedDocument | None = None
) -> ParseReply:
    return ParseReply(
        outcome=outcome,
        reason=reason,
        detail=detail[:DETAIL_CHARS],
        document=flatten(document) if document else None,
        parts=0,
        resident_bytes=_resident_bytes(),
        native_files=native_files(),
    )


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 - once for each file: Path costs as much again
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS: bytes, and the most there ever was


if __name__ == "__main__":
    main()
