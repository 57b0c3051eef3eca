"""The process that imports the modules of programs once, and forks itself for each program.

`python -m embedded.fork_server DESCRIPTOR` reads requests from a socket until it is closed. A program starts with the
modules that the server has imported, and shares their memory. The server has one thread, no event loop and no
connection, so that no lock is held and no connection is shared after a fork. It has no secrets either: a program reads
its own environment, from a file that the server does not read.

Programs are killed with the server, and the server exits when the process that started it has exited.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from shared.process import hardening, start

PR_SET_PDEATHSIG = 1
ROOM_FOR_TITLE = "." * 64  # last argument of the server; the commands of programs are written over its arguments
MOST_BYTES = 65_536  # of a request
MOST_DESCRIPTORS = 3
_ARGUMENTS_START = 45  # in the words after the name in /proc/PID/stat


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """A request to start a program.

    It is sent with three descriptors: the channel of the program, which receives its process id and later its exit
    code, the file of its environment, and its output.

    Args:
        command: arguments of `python -m`.
        modules: modules that the program imports at its start.
    """

    command: list[str]
    modules: list[str]

    def packed(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class ForkServer:
    """The server of one socket.

    Args:
        requests: socket that receives the requests.
    """

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._channels: dict[int, socket.socket] = {}  # of the running programs, by process id
        self._exits, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> list[str] | None:
        """Serve until the socket is closed; in a program, return its command."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_READ)
            selector.register(self._exits, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if self._exits in ready:
                    os.read(self._exits, MOST_BYTES)
                    self._report_exits()
                if self._requests.fileno() in ready:
                    data, descriptors, *_ = socket.recv_fds(self._requests, MOST_BYTES, MOST_DESCRIPTORS)
                    if not data:
                        return None
                    request = ForkRequest(**json.loads(data))
                    if self._fork(request, *descriptors):
                        return request.command

    def _fork(self, request: ForkRequest, channel: int, environment: int, output: int) -> bool:
        """Fork a program; return True in the program."""
        for module in request.modules:
            with suppress(Exception):  # the program imports it again, and has the error in its own log
                importlib.import_module(module)
        gc.freeze()  # a collection in a program would copy the pages that it shares
        server, pid = os.getpid(), None
        with suppress(OSError):  # too many processes, or no memory: the closed channel reports it
            pid = os.fork()
        if pid == 0:
            os.close(channel)
            self._become_program(server, request.command, environment, output)
            return True
        os.close(environment)
        os.close(output)
        if pid is None:
            os.close(channel)
        else:
            self._channels[pid] = socket.socket(fileno=channel)
            self._send(pid, pid)
        return False

    def _become_program(self, server: int, command: list[str], environment: int, output: int) -> None:
        _die_with(server)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self._exits)
        os.close(self._wakeup)
        self._requests.close()
        for channel in self._channels.values():
            channel.close()
        os.setsid()
        for standard in (1, 2):
            os.dup2(output, standard)
        os.close(output)
        with os.fdopen(environment, "rb") as file:
            file.seek(0)
            variables = json.load(file)
        os.environ.clear()
        os.environ.update(variables)
        show_command([sys.executable, "-m", *command])

    def _report_exits(self) -> None:
        for pid in list(self._channels):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._send(pid, os.waitstatus_to_exitcode(status))
                self._channels.pop(pid).close()

    def _send(self, pid: int, number: int) -> None:
        with suppress(OSError):  # its starter no longer waits for it
            self._channels[pid].send(str(number).encode())


def show_command(command: list[str]) -> None:
    """Show a command in the list of processes, as far as the arguments of this process have room for it."""
    words = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first, end = map(int, words[_ARGUMENTS_START : _ARGUMENTS_START + 2])
    # If the last byte is not 0, Linux shows the arguments only until the first 0.
    title = " ".join(command).encode()[: end - first - 2].ljust(end - first - 1, b"\0") + b"."
    ctypes.memmove(first, title, len(title))


def _die_with(server: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:  # it died before the kernel knew of the request
        os._exit(1)


def main() -> None:
    hardening.close_memory()
    with start.imports():
        command = ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()
    if command is not None:
        sys.argv[1:] = command[1:]
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
