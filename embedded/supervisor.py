"""Child processes that are started together, restarted when they crash, and killed when this process dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Protocol, Self

import structlog

from embedded.guarded import guarded
from shared.domain.errors import Unavailable

POLL_SECONDS = 0.05
TAIL_LINES = 20
LOG_ROTATED_BYTES = 20 * 1024 * 1024

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RestartPolicy:
    """Delays before a child that exited by itself is started again.

    Args:
        base: delay after an exit that does not count, and after the first exit that does.
        ceiling: longest delay.
        early: an exit within this time after the start counts, because the next start will probably fail, too. A child
            that ran for longer was useful until it was killed or crashed.
        forgotten_after: useful running time after which earlier exits no longer count.
        first_attempts: number of starts in a row, none of them healthy, after which the child is abandoned.
    """

    base: timedelta = timedelta(milliseconds=250)
    ceiling: timedelta = timedelta(seconds=15)
    early: timedelta = timedelta(seconds=5)
    forgotten_after: timedelta = timedelta(seconds=60)
    first_attempts: int = 4


class Backoff:
    """The delays between the runs of one child."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._useful_seconds = 0.0  # since the last early exit
        self.failures = 0

    def after_exit(self, ran_seconds: float) -> float:
        """Return the seconds to wait before the next start.

        Args:
            ran_seconds: duration of the run that ended.
        """
        if ran_seconds < self._policy.early.total_seconds():
            self._useful_seconds = 0.0
            self.failures += 1
        else:
            self._useful_seconds += ran_seconds
            if self._useful_seconds >= self._policy.forgotten_after.total_seconds():
                self.failures = 0
        exponent = min(max(self.failures - 1, 0), 16)
        return min(self._policy.ceiling.total_seconds(), self._policy.base.total_seconds() * 2.0**exponent)


class Process(Protocol):
    """The part of `subprocess.Popen` that a supervisor uses."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def send_signal(self, number: int, /) -> None: ...


def execute(child: Child, output: IO[bytes]) -> Process:
    """Start the command of a child in a session of its own."""
    return subprocess.Popen(  # noqa: S603
        guarded(child.command, death_signal=child.death_signal, user=child.user),
        stdin=subprocess.DEVNULL if sys.platform == "linux" else subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=child.variables(),
        cwd=child.directory,
        start_new_session=True,
    )


@dataclass(frozen=True)
class Child:
    """A command to keep running.

    Args:
        name: its name in errors and in the log file.
        command: program (an absolute path) and arguments; no secrets, because every user can see them.
        log: the file that receives its output.
        healthy: true once it can serve; called from the supervisor's thread. An exception counts as false.
        environment: variables on top of the inherited ones.
        inherits: whether it inherits this process's variables; otherwise it receives only `environment`.
        directory: working directory; by default the one of this process.
        user: (uid, gid) to run as, for programs that refuse root.
        stop_signal: signal for a graceful exit.
        death_signal: the signal that the kernel sends it when this process dies.
        launch: function that starts it; it is called from a thread that lives as long as the child.
        modules: modules that it imports at its start, if it is a program of Python.
    """

    name: str
    command: Sequence[str]
    log: Path
    healthy: Callable[[], bool] = lambda: True
    environment: Mapping[str, str] = field(default_factory=dict)
    inherits: bool = True
    directory: Path | None = None
    user: tuple[int, int] | None = None
    stop_signal: int = signal.SIGTERM
    death_signal: int = signal.SIGKILL
    start_timeout: timedelta = timedelta(minutes=3)
    stop_timeout: timedelta = timedelta(seconds=15)
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    launch: Callable[[Child, IO[bytes]], Process] = execute
    modules: Sequence[str] = ()

    def variables(self) -> dict[str, str]:
        """Return its environment."""
        return {**(os.environ if self.inherits else {}), **self.environment}


class Supervisor:
    """Starts children in parallel, restarts children that exit, and stops all in reverse order.

    Args:
        children: commands in start order.
        on_failure: function that receives the error of a child that was healthy, exited and cannot be restarted; called
            from the child's own thread. The other children continue.
    """

    def __init__(self, children: Sequence[Child], on_failure: Callable[[Unavailable], None] = lambda _: None) -> None:
        self._watches = [_Watch(child, on_failure) for child in children]

    def start(self) -> None:
        """Start every child and wait until all are healthy.

        Raises:
            Unavailable: a child did not start; the message has the end of its log, and the others are stopped again.
        """
        for watch in self._watches:
            watch.start()
        try:
            for watch in self._watches:
                watch.await_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop every child, the last one first, with its own signal and, after its timeout, by force."""
        for watch in reversed(self._watches):
            watch.stop()

    def pids(self) -> dict[str, int]:
        """Return the process id of each running child."""
        return {watch.child.name: process.pid for watch in self._watches if (process := watch.process) is not None}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


@contextmanager
def stopped_by_signal() -> Iterator[None]:
    """End the block gracefully at the first SIGTERM or SIGINT; later signals do not interrupt its cleanup.

    For the main thread of a launcher: `with stopped_by_signal(), Stack(…): signal.pause()`.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise _ChildStopped

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    except _ChildStopped:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _ChildStopped(BaseException):
    """A signal asked this process to stop; `except Exception` must not catch it as an error."""


class _Watch:
    """One child and the thread that spawns it.

    The kernel ties a parent-death signal to the spawning *thread*, so the thread lives as long as its child.
    """

    def __init__(self, child: Child, on_failure: Callable[[Unavailable], None]) -> None:
        self.child = child
        self._on_failure = on_failure
        self._healthy = False  # whether the running process was healthy once
        self.process: Process | None = None
        self._stopping = threading.Event()
        self._settled = threading.Event()
        self._failure: str | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"supervise-{child.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def await_ready(self) -> None:
        self._settled.wait()
        if self._failure is not None:
            raise Unavailable(self._failure, component=self.child.name)

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            process = self.process
            if process is not None:
                _signal(process, self.child.stop_signal)
        if not self._thread.ident:
            return
        self._thread.join(self.child.stop_timeout.total_seconds())
        if process is not None and self._thread.is_alive():
            log.warning("child killed: it did not stop in time", child=self.child.name)
            _signal_group(process, signal.SIGKILL)
        self._thread.join()

    def _run(self) -> None:
        backoff, unhealthy = Backoff(self.child.restart), 0
        while not self._stopping.is_set():
            started = time.monotonic()
            self._healthy = False
            end = self._attempt()
            self.process = None
            if self._stopping.is_set():
                break
            delay = backoff.after_exit(time.monotonic() - started)
            unhealthy = 0 if self._healthy else unhealthy + 1
            if unhealthy >= self.child.restart.first_attempts:
                self._fail(f"{self.child.name} {end} and did not start{_tail(self.child.log)}")
                break
            if self._settled.is_set():
                log.warning(
                    "child ended and will be restarted", child=self.child.name, end=end, early_exits=backoff.failures
                )
            self._stopping.wait(delay)
        self._settle(f"{self.child.name} was stopped before it was healthy")

    def _attempt(self) -> str:
        """Run the child until it exits, and return the exit as the end of a sentence."""
        try:
            process = self._spawn()
        except Exception as error:  # noqa: BLE001  the waiting caller must be notified, so the thread survives
            return f"could not be started ({type(error).__name__}: {error})"
        if process is None:
            return "was stopped"
        self._await_health(process)
        code = process.wait()
        _signal_group(process, signal.SIGKILL)  # its leftover processes would hold its port or its files
        return f"ended with code {code}"

    def _spawn(self) -> Process | None:
        with self._lock:
            if self._stopping.is_set():
                return None
            self.process = _spawn(self.child)
            return self.process

    def _await_health(self, process: Process) -> None:
        timeout = self.child.start_timeout.total_seconds()
        deadline = time.monotonic() + timeout
        while process.poll() is None and not self._stopping.is_set():
            if _is_healthy(self.child):
                self._healthy = True
                self._settle(None)
                return
            if time.monotonic() > deadline:
                self._fail(f"{self.child.name} was not healthy after {timeout:g} s{_tail(self.child.log)}")
                _signal_group(process, signal.SIGKILL)
                return
            time.sleep(POLL_SECONDS)

    def _fail(self, failure: str) -> None:
        """Report the failure to the waiting caller, or to `on_failure` after the start, and stop restarting."""
        self._stopping.set()
        if self._settled.is_set():
            log.error("child failed too often and is not restarted", child=self.child.name)
            self._on_failure(Unavailable(failure, component=self.child.name))
        self._settle(failure)

    def _settle(self, failure: str | None) -> None:
        if not self._settled.is_set():
            self._failure = failure
            self._settled.set()


def _spawn(child: Child) -> Process:
    child.log.parent.mkdir(parents=True, exist_ok=True)
    if child.log.exists() and child.log.stat().st_size > LOG_ROTATED_BYTES:
        child.log.replace(child.log.with_suffix(".log.1"))
    with child.log.open("ab") as output:
        return child.launch(child, output)


def _is_healthy(child: Child) -> bool:
    try:
        return child.healthy()
    except Exception:  # noqa: BLE001  usually the port is not open yet; and no check may end the thread of the child
        return False


def _signal(process: Process, number: int) -> None:
    if process.poll() is None:
        process.send_signal(number)


def _signal_group(process: Process, number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):  # the group is empty
        return


def _tail(path: Path) -> str:
    """Return the last lines of a log as the end of a sentence."""
    lines = path.read_text(errors="replace").splitlines()[-TAIL_LINES:] if path.exists() else []
    if not lines:
        return f" (its log {path} is empty)"
    return f"; the end of its log {path}:\n" + "\n".join(f"    {line}" for line in lines)
