"""Attacks by a compromised library in a parser's child process, and the mechanisms that block them."""

import asyncio
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from features.all import FEATURES
from shared.confined import confinement
from shared.confined.process import MORE_THREADS
from shared.confined.protocol import LENGTH
from shared.domain.errors import InvalidInput, Unreadable
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.document import ParsedDocument
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.services import build
from tests.support.parser_replies import SOUND, changed, document_reply, messages_of
from tests.support.pictures import picture, saved
from tests.support.waiting import TIMEOUT_SECONDS, eventually

ROOT = Path(__file__).parents[2]

# A library that replaces a reader, and runs code from the file in this thread and in one started while it was loaded.
TAKEN_OVER = """
import ctypes, errno, json, mmap, os, queue, signal, socket, sys, threading, time
from shared.confined import confinement
from shared.ingest.parse import extraction, kinds
from shared.ingest.parse.readers.reading import FileReading, Part

libc = ctypes.CDLL(None, use_errno=True)
asked, answers = queue.SimpleQueue(), queue.SimpleQueue()

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.connect(address)

def fork():
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)

def tried(code):
    try:
        exec(code)
        return "done"
    except OSError as error:
        return "refused" if error.errno in (errno.EPERM, errno.EACCES) else str(error)
    except Exception as error:
        return str(error)

def older_thread():
    while True:
        answers.put(tried(asked.get()))

def read(text):
    results = []
    for code in json.loads(text.partition("<pre>")[2]):
        asked.put(code)
        results.append([tried(code), answers.get()])
    return FileReading((Part(json.dumps(results)),))

extraction._CONVERTERS[kinds.RST] = read

class NNetLanguageIdentifier:
    language, probability = "und", 0.0
    def __init__(self, **options):
        pass
    def FindLanguage(self, text):
        if text == "a":  # the sample that is read before system calls are restricted
            threading.Thread(target=older_thread, daemon=True).start()
        return self
"""
# The same as an OCR engine, which runs the code in `ATTEMPTS` instead of reading a page; its sample is read first.
TAKEN_OVER_READER = (
    TAKEN_OVER
    + """
class Names:
    def __getattr__(self, name):
        return name

PSM = OEM = PT = RIL = Names()

class PyTessBaseAPI:
    pictures = 0
    def __init__(self, **options):
        threading.Thread(target=older_thread, daemon=True).start()
    def SetImageBytes(self, *picture):
        self.pictures += 1
    def Recognize(self):
        return True
    def GetTSVText(self, page):
        return "\\t".join("5 1 1 1 1 1 0 0 9000 9000 90 word".split())
    def GetUTF8Text(self):
        results = []
        for code in ATTEMPTS if self.pictures > 1 else ():
            asked.put(code)
            results.append([tried(code), answers.get()])
        return json.dumps(results)
    def GetIterator(self):
        return None
    def Clear(self):
        pass
    SetVariable = SetSourceResolution = lambda *values: None
"""
)
WITHOUT = {
    "seccomp": "confinement._has_seccomp = lambda: False\n",
    "Landlock": "confinement.landlock_version = lambda: 0\n",
}

GROWS_DOWN = 0x100
_SECOND = platform.machine() != "x86_64"
NUMBERS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "mount": (165, 40),
    "unshare": (272, 97),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "prctl": (157, 167),
    "mprotect": (10, 226),
    "prlimit64": (302, 261),
    "clone": (56, 220),
}


def attempts_on(upload: Path, engines: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """Return the code of each attempt by its description."""
    tcp = {f"connect to {name}": f"connect(socket.AF_INET, {address!r})" for name, address in engines.items()}
    return tcp | {
        "read its parent's environment": "open(f'/proc/{os.getppid()}/environ', 'rb').read()",
        "read its parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
        "read its own environment": "open('/proc/self/environ', 'rb').read()",
        "read a file of the machine": "open('/etc/passwd').read()",
        "list a folder": "os.listdir('/')",
        "read another tenant's upload": f"open({str(upload)!r}).read()",
        "learn of another tenant's upload": f"os.stat({str(upload)!r})",
        "cut another tenant's upload": f"os.truncate({str(upload)!r}, 0)",
        "rename another tenant's upload": f"os.rename({str(upload)!r}, {str(upload) + '-mine'!r})",
        "delete another tenant's upload": f"os.unlink({str(upload)!r})",
        "write a file": f"open({str(upload) + '-full'!r}, 'wb')",
        "make a folder": f"os.mkdir({str(upload) + '-folder'!r})",
        "fill the memory with a file": "os.memfd_create('full')",
        "fill shared memory": "mmap.mmap(-1, 4096, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)",
        "fill a growing stack": f"mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | {GROWS_DOWN})",
        "make a TCP socket": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
        "make a Unix socket": "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
        "make a pair of sockets": "socket.socketpair()",
        "fork": "fork()",
        "clone": f"call({NUMBERS['clone'][_SECOND]}, 17, 0, 0, 0, 0)",
        "start a program": "os.posix_spawn('/bin/true', ['true'], {})",
        "become a program": "os.execv('/bin/true ', ['true'])",
        "signal its parent": "os.kill(os.getppid(), 0)",
        "signal every process": "os.kill(-1, 0)",
        "trace its parent": f"call({NUMBERS['ptrace'][_SECOND]}, 16, os.getppid(), 0, 0)",
        "read its parent's memory by a call": f"call({NUMBERS['process_vm_readv'][_SECOND]}, os.getppid(), *[0] * 5)",
        "limit its parent": f"call({NUMBERS['prlimit64'][_SECOND]}, os.getppid(), 7, 0, 0)",
        "change its memory limit": f"call({NUMBERS['prlimit64'][_SECOND]}, 0, 2, 0, 0)",
        "outlive its parent": f"call({NUMBERS['prctl'][_SECOND]}, 1, 0, 0, 0, 0)",
        "load code": f"call({NUMBERS['mprotect'][_SECOND]}, 0, 4096, 5)",
        **{
            f"call {name}": f"call({NUMBERS[name][_SECOND]}, *[0] * 6)"
            for name in (
                *("io_uring_setup", "bpf", "userfaultfd", "mount", "unshare", "setns", "keyctl", "perf_event_open"),
            )
        },
    }


class TakenOver:
    """Runs code in a child and returns the results."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._modules = folder / "modules"
        self._page = folder / "page"
        self._modules.mkdir()
        monkeypatch.syspath_prepend(self._modules)
        self.without()

    def without(self, *means: str) -> None:
        """Make later children run as on a kernel that lacks some mechanisms."""
        (self._modules / "gcld3.py").write_text(TAKEN_OVER + "".join(WITHOUT[name] for name in means))

    async def tries_reading(self, attempts: Mapping[str, str], *means: str) -> dict[str, list[str]]:
        """Return the result of each attempt in a child that reads pages, on a kernel that lacks some mechanisms."""
        (self._modules / "gcld3.py").unlink()
        source = f"{TAKEN_OVER_READER}\nATTEMPTS = {list(attempts.values())!r}\n"
        (self._modules / "tesserocr.py").write_text(source + "".join(WITHOUT[name] for name in means))
        self._page.write_bytes(saved([picture("The harbour opens at six.")], "PNG"))
        async with ParsingSandbox() as sandbox:
            page = await sandbox.read_page(self._page, 1, languages=("eng",))
        return dict(zip(attempts, json.loads(page.text), strict=True))

    async def tries(self, attempts: Mapping[str, str], **options: timedelta) -> dict[str, list[str]]:
        """Return the result of each attempt, in a new thread and in an old one."""
        parsed = await self.parsed(attempts, **options)
        return dict(zip(attempts, json.loads(parsed.chunks[0].text), strict=True))

    async def parsed(self, attempts: Mapping[str, str], **options: Any) -> ParsedDocument:
        """Return the document that the worker receives from the child that makes the attempts."""
        async with ParsingSandbox(**options) as sandbox:
            try:
                return await self.parsed_in(sandbox, attempts)
            finally:
                self.children = sandbox.children

    async def parsed_in(self, sandbox: ParsingSandbox, attempts: Mapping[str, str]) -> ParsedDocument:
        self._page.write_text("<pre>" + json.dumps(list(attempts.values())))
        whole = ChunkingOptions(max_chars=100_000)
        return await sandbox.parse(self._page, filename="a.rst", media_type=None, options=whole)


@pytest.fixture
def taken_over(tmp_path, monkeypatch) -> TakenOver:
    return TakenOver(tmp_path, monkeypatch)


@pytest.fixture
def upload() -> Iterator[Path]:
    """Yield another tenant's file, which every user may read, write and delete.

    It is not below TMPDIR, whose parents may be closed to other users.
    """
    with tempfile.TemporaryDirectory(dir="/dev/shm") as above:
        folder = Path(above, "uploads")
        folder.mkdir()
        path = folder / "of-another-tenant"
        path.write_text("theirs")
        Path(above).chmod(0o755)
        folder.chmod(0o777)
        path.chmod(0o777)
        yield path


@pytest.fixture
def attempts(upload, settings) -> dict[str, str]:
    urls = {
        "PostgreSQL": settings.database_url.get_secret_value(),
        "Valkey": settings.redis_url.get_secret_value(),
        "Qdrant": settings.qdrant_url,
    }
    return attempts_on(upload, {name: (urlsplit(url).hostname, urlsplit(url).port) for name, url in urls.items()})


def refused(attempts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the results of a child in which every attempt is refused, in both threads."""
    return {name: ["refused", "refused"] for name in attempts}


async def test_compromised_child_reaches_nothing(taken_over, upload, attempts):
    results = await taken_over.tries(attempts)

    assert results == refused(attempts)
    assert [path.name for path in upload.parent.iterdir()] == [upload.name]
    assert upload.read_text() == "theirs"


async def test_seccomp_without_landlock_refuses_every_attempt(taken_over, attempts):
    taken_over.without("Landlock")

    assert await taken_over.tries(attempts) == refused(attempts)


async def test_landlock_without_seccomp_protects_files_ports_and_parent(taken_over, upload, attempts):
    taken_over.without("seccomp")
    closed = ("read", "list", "cut", "rename", "delete", "write", "make a folder", "connect", "signal its", "trace")
    tried = {name: code for name, code in attempts.items() if name.startswith(closed) and "by a call" not in name}

    assert await taken_over.tries(tried) == refused(tried)
    assert upload.read_text() == "theirs"


async def test_compromised_reader_of_pages_reaches_nothing(taken_over, upload, attempts):
    memory = {"fill the memory": f"bytearray({2**30})"}
    results = await taken_over.tries_reading(attempts | memory)

    assert results == refused(attempts) | {"fill the memory": ["", ""]}  # the message of a MemoryError
    assert [path.name for path in upload.parent.iterdir()] == [upload.name]
    assert upload.read_text() == "theirs"


async def test_reader_without_landlock_is_refused_every_attempt(taken_over, attempts):
    assert await taken_over.tries_reading(attempts, "Landlock") == refused(attempts)


async def test_reader_without_seccomp_reaches_no_file(taken_over, upload, attempts):
    closed = ("read", "list", "cut", "rename", "delete", "write", "make a folder", "connect", "signal its", "trace")
    tried = {name: code for name, code in attempts.items() if name.startswith(closed) and "by a call" not in name}

    assert await taken_over.tries_reading(tried, "seccomp") == refused(tried)
    assert upload.read_text() == "theirs"


async def test_forged_reply_of_reader_fails_only_its_page(taken_over):
    """Its text is longer than allowed; other wrong values are cases of `tests/unit/test_parse_replies.py`."""
    longer = orjson.loads(HEAD) | {"outcome": "text", "document": None, "parts": 0, "text": ["a" * 100_001, 1, 90.0]}

    with pytest.raises(Unreadable, match=r"page 1 crashed the parser \(invalid reply\)"):
        await taken_over.tries_reading({"answer": writing(framed([orjson.dumps(longer)]))})


async def test_unconfined_reader_can_read_uploads(taken_over, upload):
    possible = {"read another tenant's upload": f"open({str(upload)!r}).read()", "fork": "fork()"}
    results = await taken_over.tries_reading(possible, "seccomp", "Landlock")

    assert results == {name: ["done", "done"] for name in possible}


async def test_child_without_confinement_can_read_uploads_and_fork(taken_over, upload):
    taken_over.without("seccomp", "Landlock")
    possible = {"read another tenant's upload": f"open({str(upload)!r}).read()", "fork": "fork()"}

    assert await taken_over.tries(possible) == {name: ["done", "done"] for name in possible}


async def test_child_ignoring_signals_dies_at_time_limit(taken_over):
    numbers = "(signal.SIGTERM, signal.SIGXCPU)"
    endless = f"[signal.signal(number, signal.SIG_IGN) for number in {numbers}]\nthreading.Event().wait()"
    before = children_of(os.getpid())
    async with asyncio.timeout(TIMEOUT_SECONDS):
        with pytest.raises(Unreadable, match=r"the file took longer than 0\.3 s to read"):
            await taken_over.tries({"go on": endless}, timeout=timedelta(seconds=0.3))

    assert children_of(os.getpid()) <= before


def children_of(pid: int) -> set[str]:
    return {
        child for thread in Path(f"/proc/{pid}/task").iterdir() for child in (thread / "children").read_text().split()
    }


async def test_child_used_by_one_tenant_serves_no_other(tmp_path):
    page, text = tmp_path / "page.html", tmp_path / "text.md"
    page.write_text("<html><body>A page.</body></html>")
    text.write_text("A text.")
    async with ParsingSandbox() as sandbox:

        async def child_reading(path: Path, tenant: str) -> int:
            await sandbox.parse(path, filename=path.name, media_type=None, options=ChunkingOptions(), tenant=tenant)
            (child,) = sandbox._idle
            return child.process.pid

        first = await child_reading(text, "acme")
        second = await child_reading(text, "beta")
        assert first == second  # a child that has used no native library may serve another tenant
        assert await child_reading(page, "acme") == first
        assert await child_reading(text, "acme") == first
        assert await child_reading(text, "beta") != first


# The processes that contain the secrets

PROTECTED = """
import ctypes, os, sys
from shared.process import hardening
if os.geteuid() == 0:  # root can always read
    os.setresuid(65534, 65534, 65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # the initial state of every program
if sys.argv[1] == "closed":
    hardening.close_memory()
if (child := os.fork()) == 0:
    for name in ("environ", "mem"):
        try:
            open(f"/proc/{os.getppid()}/{name}", "rb")
            print(name)
        except PermissionError:
            pass
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize(("protection", "read"), [("open", ["environ", "mem"]), ("closed", [])])
def test_closed_worker_memory_is_unreadable_for_same_user(protection, read):
    """Without Landlock, a child or another process of the same user could read it."""
    command = [sys.executable, "-c", PROTECTED, protection]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == read


# Other wrong values are cases of `tests/unit/test_parse_replies.py`.
FORGED = {
    "no JSON": [b"{"],
    "a span beyond the text": messages_of(changed(("document", 5, 0, 1), [10**10, 10**10 + 1])),
}
INVALID = r"the file crashed the parser \(invalid reply\)"


def writing(data: bytes) -> str:
    """Return code that writes to the worker and stays alive."""
    channel = 3  # the first descriptor after the standard ones
    return f"os.write({channel}, {data!r})\ntime.sleep(600)"


def framed(messages: Sequence[bytes]) -> bytes:
    return b"".join(LENGTH.pack(len(message)) + message for message in messages)


@pytest.mark.parametrize("messages", FORGED.values(), ids=FORGED)
async def test_forged_parser_reply_fails_only_its_file(taken_over, messages):
    before = children_of(os.getpid())

    with pytest.raises(Unreadable, match=INVALID):
        await taken_over.parsed({"answer": writing(framed(messages))})
    assert taken_over.children == 0  # before the sandbox was closed
    assert children_of(os.getpid()) <= before


HEAD, PART = messages_of(document_reply())
TOO_LARGE = {
    "a first message of 131,073 bytes": LENGTH.pack(131_073),
    "a part of 2,000,001 bytes": framed([HEAD]) + LENGTH.pack(2_000_001),
}


@pytest.mark.parametrize("sent", TOO_LARGE.values(), ids=TOO_LARGE)
async def test_oversized_parser_message_is_refused_unread(taken_over, sent):
    with pytest.raises(Unreadable, match=INVALID) as caught:
        await taken_over.parsed({"answer": writing(sent)})

    assert re.fullmatch(r"a message of \d+ bytes", caught.value.detail)


async def test_parts_of_parser_reply_are_limited_together(taken_over):
    padded = PART[:-1] + b" " * 90_000 + b"]"  # all parts may have 16 bytes for each of 1,000 characters, and 131,072
    head = orjson.dumps(orjson.loads(HEAD) | {"parts": 2})

    with pytest.raises(Unreadable, match=INVALID) as caught:
        await taken_over.parsed({"answer": writing(framed([head, padded, padded]))}, max_text_chars=1_000)
    assert caught.value.detail == f"a message of {len(padded)} bytes"


SMALL_STACKS = "threading.stack_size(1 << 16)"  # the memory limit has room for few large ones


async def test_child_with_too_many_threads_is_killed(taken_over):
    before = children_of(os.getpid())
    start = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"

    with pytest.raises(Unreadable, match=r"the file crashed the parser \(too many threads\)"):
        await taken_over.parsed(
            {"start": f"{SMALL_STACKS}\nfor _ in range({MORE_THREADS} + 1): {start}\ntime.sleep(600)"}
        )
    assert children_of(os.getpid()) <= before


async def test_threads_started_while_worker_stalls_are_counted(taken_over):
    loop = asyncio.get_running_loop()

    def stall():  # runs at each step of the event loop, also right after a file has arrived at the child
        nonlocal stalling
        time.sleep(0.1)
        stalling = loop.call_soon(stall)

    stalling = loop.call_soon(stall)
    start = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    try:
        with pytest.raises(Unreadable, match=r"\(too many threads\)"):
            await taken_over.parsed(
                {"start": f"{SMALL_STACKS}\nfor _ in range({MORE_THREADS} + 1): {start}\ntime.sleep(600)"}
            )
    finally:
        stalling.cancel()


async def test_idle_child_with_too_many_threads_is_killed(taken_over):
    start = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    on_signal = f"signal.signal(signal.SIGUSR1, lambda *_: [{start} for _ in range({MORE_THREADS} + 1)])"
    async with ParsingSandbox() as sandbox:
        code = f"{SMALL_STACKS}\n{on_signal}\n{writing(framed(messages_of(document_reply())))}"
        assert await taken_over.parsed_in(sandbox, {"answer": code}) == SOUND  # forged replies differ in one value

        (idle,) = sandbox._idle
        os.kill(idle.process.pid, signal.SIGUSR1)
        await eventually(lambda: not idle.process.alive)


async def test_worker_requiring_isolation_does_not_start_without_it(settings, monkeypatch):
    monkeypatch.setattr(confinement, "landlock_version", lambda: 0)
    async with build("parse", settings, FEATURES):
        pass  # logs a warning

    required = settings.model_copy(update={"parse_isolation": "require"})
    with pytest.raises(InvalidInput, match=r"FOREASK_PARSE_ISOLATION is `require`\. This system lacks Landlock"):
        async with build("parse", required, FEATURES):
            pass
    monkeypatch.undo()
    async with build("parse", required, FEATURES):
        pass
