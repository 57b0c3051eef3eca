"""Runs a command that is killed when the process that started it ends for any reason.

Run as a script (`python -I -S guard.py PARENT SIGNAL UID GID COMMAND…`), never imported: it must start in
milliseconds and before any thread exists, which `preexec_fn` cannot guarantee. On Linux the kernel sends the signal
(PR_SET_PDEATHSIG) and this process becomes the command. A change of user clears the setting, so the user is changed
first. On other systems this process keeps running, and treats the end of its standard input as the parent's death.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    parent, death_signal, uid, gid = (int(argument) for argument in arguments[:4])
    command = arguments[4:]
    if uid >= 0:
        _become(uid, gid)
    if sys.platform == "linux":
        _exec_bound_to(parent, death_signal, command)
    return _watch_stdin(death_signal, command)


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _exec_bound_to(parent: int, death_signal: int, command: list[str]) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the kernel knew of the request
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606


def _watch_stdin(death_signal: int, command: list[str]) -> int:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, lambda received, _frame: process.send_signal(received))

    def watch() -> None:
        while sys.stdin.buffer.read(1):
            pass
        process.send_signal(death_signal)

    threading.Thread(target=watch, daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
