"""The confined process.

It is started as `python -m shared.confined.child MEMORY_BYTES CPU_SECONDS FOLDER KIND [ARGUMENTS]`. KIND is a module
with a function `prepare(folder, *arguments)`, which imports libraries, and returns a function that loads their
data. This function is called after files can no longer be opened, and returns the function that answers requests. A
module with `CONNECTS = True` is only limited, because its libraries need sockets and files.

It reads requests from the socket on descriptor 0 and replies there, one at a time, until the parent closes the socket.
Each request passes open descriptors of its files, because this process opens none. Output of native libraries is
written to descriptors 1 and 2, a small scratch file that the parent reads if the process dies.
"""

from __future__ import annotations

import ctypes
import encodings
import os
import pkgutil
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from shared.confined import confinement, usage
from shared.confined.protocol import LENGTH, MOST_FILES, READY, Load, ProcessMustExit, framed
from shared.process import priority

SCRATCH_BYTES = 1024 * 1024
MAPPED_BYTES = 2 * 1024 * 1024 * 1024
"""Address space on top of the memory limit, because mapped libraries and files do not count as used memory."""

MAX_OPEN_FILES = 64
"""The runtime of the extractor has about ten, and a request brings up to 48."""

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_UNPRIVILEGED = 65534


def main() -> None:
    """Load the kind's libraries, confine this process, then answer until the parent closes the socket."""
    memory_bytes, cpu_seconds, folder, kind = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    priority.lower(os.nice(0))  # as its worker
    channel = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is needed
        os.dup2(nothing.fileno(), 0)
    usage.open_figures()
    die_with_parent()
    load_codecs()
    module = import_module(kind)
    load: Load = module.prepare(folder, *sys.argv[5:])
    if getattr(module, "CONNECTS", False):
        work = load()
        limit(memory_bytes, cpu_seconds)
    else:
        confinement.close_files(folder)
        work = load()
        limit(memory_bytes, cpu_seconds)
        confine()
    channel.sendall(READY)
    with channel, channel.makefile("rb") as bodies, suppress(ProcessMustExit):
        while received := _received_request(channel):
            length, files = received
            for message in work(bodies.read(length), files):
                channel.sendall(framed(message))


def die_with_parent() -> None:
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


def limit(memory_bytes: int, cpu_seconds: int) -> None:
    """Set limits that the kernel enforces on any parser.

    RLIMIT_DATA counts private writable memory, which approximates the parser's allocations. RLIMIT_AS also counts 0.4
    GB that the extractor's threads reserve without using, so it is only an outer limit.
    """
    os.chdir("/")
    for name, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, SCRATCH_BYTES),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_DATA, memory_bytes),
        (resource.RLIMIT_AS, memory_bytes + MAPPED_BYTES),
    ):
        with suppress(ValueError, OSError):  # macOS refuses some of them
            resource.setrlimit(name, (value, value))


def confine() -> None:
    """Abandon privileges, and all system calls that parsing does not need."""
    drop_root()
    confinement.allow_calls_of_parsing()


def drop_root() -> None:
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


def _received_request(channel: socket.socket) -> tuple[int, Sequence[int]] | None:
    """Wait for a request; return its length and its files' descriptors, or None after the last one."""
    header, descriptors, _, _ = socket.recv_fds(channel, LENGTH.size, MOST_FILES)
    return (LENGTH.unpack(header)[0], descriptors) if header else None


if __name__ == "__main__":
    main()
