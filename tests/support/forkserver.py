"""A fork server: starts foreask's processes without the seconds that their imports take.

`python -m tests.support.forkserver [MODULE]` imports the product, or another module, once. It reads requests from its
standard input, one JSON object per line, and writes events to its standard output. Each child runs `python -m MODULE
ARGUMENTS` with its own session, signals, environment and output. The children are killed when the server's input ends.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson
import psutil

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ("python", "mcp", "evaluation")  # folders of the packages that the product imports
_START_SECONDS = 120  # includes the server's imports on a busy machine
_READ_BYTES = 65_536


class Forked:
    """A child of the server, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, args: Sequence[str]) -> None:
        self.args = list(args)
        self.pid = 0
        self.returncode: int | None = None
        self._has_started = threading.Event()
        self._has_exited = threading.Event()

    def started(self, pid: int) -> None:
        self.pid = pid
        self._has_started.set()

    def exited(self, returncode: int) -> None:
        self.returncode = returncode
        self._has_started.set()
        self._has_exited.set()

    def await_pid(self) -> None:
        if not self._has_started.wait(_START_SECONDS) or not self.pid:
            raise RuntimeError(f"the fork server did not start {self.args}")

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._has_exited.wait(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has exited, but the server has not reported this yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The server as a process; a context manager that starts and stops it.

    Args:
        root: folder of the code that the server imports and its children run.
        imports: module that the server imports; by default the modules of the API and the workers.
    """

    def __init__(self, root: Path = ROOT, *, imports: str | None = None) -> None:
        self._import_path = _import_path(root)
        # A library with threads could hold a lock at the moment of a fork.
        environment = os.environ | self._import_path | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forkserver", *([imports] if imports else [])],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._children: list[Forked] = []
        self._request_lock = threading.Lock()
        self._events = threading.Thread(target=self._read_events, name="forkserver", daemon=True)
        self._events.start()

    def launch(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked:
        """Run `PYTHON -m MODULE ARGUMENTS`; its output is appended to a file."""
        assert list(command[:2]) == [sys.executable, "-m"], command
        child = Forked(command)
        with self._request_lock:
            number = len(self._children)
            self._children.append(child)
            request = SpawnRequest(number, list(command[2:]), {**environment, **self._import_path}, str(log))
            assert self._process.stdin is not None
            self._process.stdin.write(orjson.dumps(request) + b"\n")
            self._process.stdin.flush()
        child.await_pid()
        return child

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._events.join()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = orjson.loads(line)
            child = self._children[event["number"]]
            if "pid" in event:
                child.started(event["pid"])
            else:
                child.exited(event["returncode"])
        for child in self._children:
            if child.returncode is None:  # the server died
                child.kill()
                child.exited(-signal.SIGKILL)


def _import_path(root: Path) -> dict[str, str]:
    """Return the variable that makes Python import a tree's own packages instead of installed ones."""
    if root == ROOT:
        return {}
    folders = (root, *(root / "clients" / name for name in CLIENTS))
    return {"PYTHONPATH": os.pathsep.join(map(str, folders))}


@dataclass(frozen=True)
class SpawnRequest:
    """The command of a child; `number` identifies the child in events."""

    number: int
    arguments: list[str]
    environment: dict[str, str]
    log: str


class Forks:
    """Forks a child for each request and reports each exit. It has one thread, so no lock is held at a fork."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}  # request numbers of the running children by process id
        self._unread = b""
        self._child_exited, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(self._wakeup)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def serve(self) -> SpawnRequest | None:
        """Serve until the input ends; in a child, return its request."""
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            selector.register(self._child_exited, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == self._child_exited:
                        os.read(self._child_exited, _READ_BYTES)
                        self._reap()
                        continue
                    requests = self._requests()
                    if requests is None:
                        return self._kill_children()
                    for request in requests:
                        if self._fork(request):
                            return request

    def _requests(self) -> list[SpawnRequest] | None:
        """Return the complete requests that have arrived, or None at the end of the input."""
        data = os.read(sys.stdin.fileno(), _READ_BYTES)
        if not data:
            return None
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [SpawnRequest(**orjson.loads(line)) for line in lines]

    def _fork(self, request: SpawnRequest) -> bool:
        """Fork a child; return True in the child."""
        pid = os.fork()
        if pid == 0:
            self._become(request)
            return True
        self._numbers[pid] = request.number
        _send_event(number=request.number, pid=pid)
        return False

    def _become(self, request: SpawnRequest) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self._child_exited)
        os.close(self._wakeup)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        os.environ.clear()
        os.environ.update(request.environment)
        tempfile.tempdir = None  # Python caches the server's TMPDIR
        log = os.open(request.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for ours, standard in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(ours, standard)
        os.close(log)
        os.close(nothing)

    def _reap(self) -> None:
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._report_exit(pid, status)

    def _kill_children(self) -> None:
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        while self._numbers:
            self._report_exit(*os.waitpid(-1, 0))

    def _report_exit(self, pid: int, status: int) -> None:
        _send_event(number=self._numbers.pop(pid), returncode=os.waitstatus_to_exitcode(status))


def _send_event(**event: Any) -> None:
    os.write(sys.stdout.fileno(), orjson.dumps(event) + b"\n")


def _import_the_product() -> None:
    """Import the modules of the API and the workers, including the late imports of libraries."""
    import celery.app.amqp
    import celery.apps.worker
    import celery.bin.celery
    import celery.concurrency.thread
    import celery.worker.consumer  # noqa: F401
    import httpx
    import openai
    import uvicorn.lifespan.on
    import uvicorn.loops.uvloop
    import uvicorn.protocols.http.httptools_impl  # noqa: F401

    from api.app import create  # noqa: F401
    from shared.broker.transport import Transport  # noqa: F401
    from shared.ledger.postgres.schema import migrate  # noqa: F401
    from shared.services import all as every_role  # noqa: F401
    from workers import scheduler, tasks  # noqa: F401

    for client in (httpx.Client(), openai.OpenAI(api_key="none")):
        client.close()


def main() -> None:
    if sys.argv[1:]:
        importlib.import_module(sys.argv[1])
    else:
        _import_the_product()
    assert psutil.Process().num_threads() == 1
    gc.collect()
    gc.freeze()  # a garbage collection in a child would copy the pages shared with the server
    request = Forks().serve()
    if request is not None:
        module, *arguments = request.arguments
        sys.argv[1:] = arguments
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
