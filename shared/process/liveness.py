"""Liveness: whether the event loop of a process runs, reported by threads that need neither the loop nor an engine.

Only the standard library is imported, so that a health check costs little.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

LIVE_SECONDS = 30.0  # a loop that has not run for longer counts as blocked
_SOCKETS = Path("/proc/net/unix")
# Of a socket without a file: any process may read it, whatever its folders are.
_NAME = "foreask/{deployment}/{role}/{pid}-"
_TIMEOUT_SECONDS = 2.0
_PAUSE_SECONDS = 1.0  # after a failed accept


class LoopHeartbeat:
    """Records when the event loop has last run.

    Args:
        role: role of the process.
        now: clock in monotonic seconds.
    """

    def __init__(self, role: str, now: Callable[[], float] = time.monotonic) -> None:
        self.role = role
        self._now = now
        self._ran_at = now()

    def beat(self) -> None:
        """Record that the loop runs; the loop itself must call this."""
        self._ran_at = self._now()

    def silent_seconds(self) -> float:
        return self._now() - self._ran_at

    @property
    def is_live(self) -> bool:
        return self.silent_seconds() <= LIVE_SECONDS


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """A process of this machine.

    Args:
        pid: its process id.
        silent_seconds: time since its event loop has run; None if it does not answer.
    """

    pid: int
    silent_seconds: float | None

    @property
    def is_live(self) -> bool:
        return self.silent_seconds is not None and self.silent_seconds <= LIVE_SECONDS


@contextmanager
def answering(heartbeat: LoopHeartbeat) -> Iterator[None]:
    """Answer `local_processes` while the block runs; only on Linux, which has sockets without files."""
    if sys.platform != "linux":
        yield
        return
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(
            "\0" + _NAME.format(deployment=_deployment(), role=heartbeat.role, pid=os.getpid()) + os.urandom(4).hex()
        )
        listener.listen()
        closing = Event()
        thread = Thread(target=_answer_all, args=(listener, heartbeat, closing), name="liveness", daemon=True)
        thread.start()
        try:
            yield
        finally:
            closing.set()
            listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
            thread.join(_TIMEOUT_SECONDS)


def _answer_all(listener: socket.socket, heartbeat: LoopHeartbeat, closing: Event) -> None:
    while not closing.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:  # closing, or too many open files
            closing.wait(_PAUSE_SECONDS)
            continue
        with connection, suppress(OSError):
            connection.sendall(f"{heartbeat.silent_seconds():.1f}".encode())


def local_processes(role: str) -> Iterator[LocalProcess]:
    """Yield the processes of a role on this machine, or in this container, that use the ledger of this process."""
    prefix = "@" + _NAME.partition("{pid}")[0].format(deployment=_deployment(), role=role)
    try:
        sockets = _SOCKETS.read_text()
    except OSError:  # not Linux
        return
    for name in {line.split()[-1] for line in sockets.splitlines()}:
        if name.startswith(prefix):
            yield LocalProcess(int(name.removeprefix(prefix).partition("-")[0]), _ask("\0" + name[1:]))


def _deployment() -> str:
    """Return a name for the ledger in the environment, without credentials; a machine may run several deployments."""
    address = os.environ.get("FOREASK_DATABASE_URL", "").rpartition("@")[2]
    return hashlib.sha256(address.encode()).hexdigest()[:8]


def _ask(address: str) -> float | None:
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError, ValueError):
        connection.settimeout(_TIMEOUT_SECONDS)
        connection.connect(address)
        return float(connection.recv(32))
    return None
