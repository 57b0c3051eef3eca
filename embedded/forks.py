"""Programs that are forks of one process with all imports. Only on Linux: elsewhere a fork is unsafe."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from embedded.environment import without_secrets
from embedded.fork_server import ROOM_FOR_TITLE, ForkRequest
from embedded.supervisor import Child, Process

# A library with threads could hold a lock at the moment of a fork.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_NUMBER_BYTES = 32


class Forks:
    """The process that forks programs, which is started for the first of them, and again if it has died.

    Args:
        log: the file that receives its output; the programs have their own.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        return None if self._server is None else self._server.pid

    def launch(self, child: Child, output: IO[bytes]) -> Process:
        """Start a child whose command is `python -m MODULE ARGUMENTS`, as a process of this user.

        Raises:
            OSError: it could not be started.
        """
        request = ForkRequest(list(child.command[2:]), list(child.modules))
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        try:
            with theirs, open(os.memfd_create("environment"), "w+b") as file:  # noqa: PTH123
                file.write(json.dumps(child.variables()).encode())
                file.flush()
                descriptors = [theirs.fileno(), file.fileno(), output.fileno()]
                with self._lock:
                    socket.send_fds(self._running_server(), [request.packed()], descriptors)
            return ForkedProcess(ours)
        except BaseException:
            ours.close()
            raise

    def close(self) -> None:
        """End the process, which has no programs any more."""
        with self._lock:
            self._end()

    def _running_server(self) -> socket.socket:
        if self._requests is not None and self._server is not None and self._server.poll() is None:
            return self._requests
        self._end()
        self._requests, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with theirs, self._log.open("ab") as output:
            self._server = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "embedded.fork_server", str(theirs.fileno()), ROOM_FOR_TITLE],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=without_secrets() | _ONE_THREAD,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        return self._requests

    def _end(self) -> None:
        if self._requests is not None:
            self._requests.close()  # it exits
            self._requests = None
        if self._server is not None:
            self._server.wait()
            self._server = None


class ForkedProcess:
    """A program that another process has forked.

    Args:
        channel: socket that receives its process id, and later its exit code.

    Raises:
        ChildProcessError: it was not started.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._exit_code: int | None = None
        number = channel.recv(_NUMBER_BYTES)
        if not number:
            raise ChildProcessError("no process was forked")
        self.pid = int(number)

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        with self._lock:
            if self._exit_code is None:
                with suppress(BlockingIOError):
                    number = self._channel.recv(_NUMBER_BYTES, socket.MSG_DONTWAIT)
                    # Without a number the server has died, and the kernel has killed its programs.
                    self._exit_code = int(number or -signal.SIGKILL)
            return self._exit_code

    def wait(self) -> int:
        """Wait until it exits, and return its exit code."""
        while (exit_code := self.poll()) is None:
            self._channel.recv(_NUMBER_BYTES, socket.MSG_PEEK)
        self._channel.close()
        return exit_code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has exited, but the server has not reported this yet
                os.kill(self.pid, number)
