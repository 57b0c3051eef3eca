"""Kernel confinement of a child against its own code: Landlock blocks files, seccomp all but a few system calls.

Both are features of Linux, need no privileges and cannot be undone. No maintained Python package fits: `landlock` lacks
network and signals, `pyseccomp` needs libseccomp, which the image does not contain. So both are called directly.

Landlock applies to threads started after it, so it precedes the extractor's threads. They can then access only one
folder, which is deleted afterwards. seccomp applies to all threads and comes last, because loading needs more system
calls than parsing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every machine
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_EXECUTE = 1
# The kinds of access that each version of Landlock knows, as a mask: to files, to TCP, and to other processes.
_FILES = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 5: 0xFFFF}
_TCP = {4: 0b11}  # listen, connect
_OTHERS = {6: 0b11}  # abstract Unix sockets, signals

_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_ALL_THREADS = 1
_KILL_PROCESS, _ERRNO, _ALLOW = 0x8000_0000, 0x0005_0000, 0x7FFF_0000
_LOAD, _AND, _IF_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16

_MACHINES = {"x86_64": (0, 0xC000_003E, 317), "aarch64": (1, 0xC000_00B7, 277)}
"""By the machine's name: the column in the tables below, its name in the kernel, and the number of `seccomp`."""

# The calls that parsing needs, by their numbers on x86-64 and on ARM. None opens a file, a socket or a process.
_CALLS: Mapping[str, tuple[int, int]] = {
    "read": (0, 63),
    "readv": (19, 65),
    "pread64": (17, 67),
    "write": (1, 64),
    "writev": (20, 66),
    "lseek": (8, 62),
    "ftruncate": (77, 46),
    "close": (3, 57),
    "fstat": (5, 80),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "poll": (7, 73),
    "ppoll": (271, 73),
    "epoll_wait": (232, 22),
    "epoll_pwait": (281, 22),
    "epoll_ctl": (233, 21),
    "brk": (12, 214),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "futex": (202, 98),
    "membarrier": (324, 283),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "getrandom": (318, 278),
    "getrusage": (98, 165),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "sysinfo": (99, 179),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
_NEW_THREADS, _THREAD = 0x7E03_0080, 0x0001_0000  # no process, and nothing of its own but a stack
_EXECUTABLE = 0x4
_UNCOUNTED = 0x101  # shared memory, and stacks that grow: RLIMIT_DATA counts neither
_RLIMIT_CPU = 0
_CLONE3 = 435

_Instruction = tuple[int, int, int, int]


class ConfinementRefused(OSError):
    """The kernel rejected a confinement that it supports."""


def lacking() -> list[str]:
    """Return the names of the mechanisms that this kernel, or this process's container, does not provide."""
    return [name for name, given in (("seccomp", _has_seccomp()), ("Landlock", landlock_version() > 0)) if not given]


def sentence(lacking: Iterable[str]) -> str:
    """Return a sentence with the consequences of a kernel without these features."""
    return (
        f"This system lacks {' and '.join(lacking)}: a file that takes control of the process that parses it is"
        " confined less than on Linux with both."
    )


def landlock_version() -> int:
    """Return the version of Landlock; 0 if unavailable."""
    return max(0, _call(_CREATE_RULESET, None, 0, _VERSION_FLAG)) if sys.platform == "linux" else 0


def _has_seccomp() -> bool:
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    action = ctypes.c_uint32(_ERRNO)
    return _call(_MACHINES[platform.machine()][2], _GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0


def close_files(folder: Path) -> None:
    """Allow this thread and its future threads to open only files in `folder`; open files stay open.

    They also lose TCP, abstract Unix sockets, signals to other processes and access to their memory, as far as the
    kernel supports it. Does nothing without Landlock.

    Raises:
        Refused: the kernel rejected the rules.
    """
    version = landlock_version()
    if not version:
        return
    kinds = (_rights(_FILES, version), _rights(_TCP, version), _rights(_OTHERS, version))
    supported = kinds[: 3 if version >= min(_OTHERS) else 2 if version >= min(_TCP) else 1]
    attributes = (ctypes.c_uint64 * len(supported))(*supported)
    rules = _require(_call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0))
    directory = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        beneath = _PathBeneathAttribute(kinds[0] & ~_EXECUTE, directory)
        _require(_call(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(beneath), 0))
        _require(_call(_RESTRICT_SELF, rules, 0))
    finally:
        os.close(directory)
        os.close(rules)


def _rights(kinds: Mapping[int, int], version: int) -> int:
    """Return the access rights that a version of Landlock can handle."""
    return max((mask for since, mask in kinds.items() if since <= version), default=0)


def allow_calls_of_parsing() -> None:
    """Allow all threads of this process only the system calls that parsing needs.

    Does nothing without seccomp.

    Raises:
        Refused: the kernel rejected the filter.
    """
    if not _has_seccomp():
        return
    column, machine, seccomp = _MACHINES[platform.machine()]
    instructions = [_Filter(*step) for step in _program(column, machine, os.getpid())]
    program = _Program(len(instructions), (_Filter * len(instructions))(*instructions))
    _require(_call(seccomp, _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(program)))


def _program(column: int, machine: int, process: int) -> list[_Instruction]:
    """Return the filter: a system call of another architecture ends the process, an unlisted one is not permitted."""
    checked = {
        (56, 220): ((0, _NEW_THREADS, _THREAD),),  # clone
        (62, 129): ((0, 0xFFFF_FFFF, process),),  # kill
        (234, 131): ((0, 0xFFFF_FFFF, process),),  # tgkill: a library that aborts does so
        (302, 261): ((0, 0xFFFF_FFFF, 0), (1, 0xFFFF_FFFF, _RLIMIT_CPU)),  # prlimit64: the clock of each file
        (9, 222): ((2, _EXECUTABLE, 0), (3, _UNCOUNTED, 0)),  # mmap
        (10, 226): ((2, _EXECUTABLE, 0),),  # mprotect
    }
    steps: list[_Instruction] = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_IF_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    for number in sorted({numbers[column] for numbers in _CALLS.values()}):
        steps += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    for numbers, checks in checked.items():
        steps += _when(numbers[column], [*_checks(checks), (_RETURN, 0, 0, _ALLOW)])
    steps += _when(_CLONE3, [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)])  # its flags cannot be read: libraries take clone
    return [*steps, (_RETURN, 0, 0, _ERRNO | errno.EPERM)]


def _when(number: int, steps: list[_Instruction]) -> list[_Instruction]:
    return [(_IF_EQUAL, 0, len(steps), number), *steps]


def _checks(checks: Iterable[tuple[int, int, int]]) -> Iterable[_Instruction]:
    """Yield the steps that refuse a call unless, for each (argument, mask, value), the masked argument has it."""
    for argument, mask, value in checks:
        yield (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)  # the lower half: both machines are little-endian
        yield (_AND, 0, 0, mask)
        yield (_IF_EQUAL, 1, 0, value)
        yield (_RETURN, 0, 0, _ERRNO | errno.EPERM)


class _PathBeneathAttribute(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("directory", ctypes.c_int32))


class _Filter(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.POINTER(_Filter)))


def _call(number: int, *arguments: Any) -> int:
    """Make a system call, and return its result; -1 if the kernel refuses it."""
    wide = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result: int = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *wide)
    return result


def _require(result: int) -> int:
    if result < 0:
        raise ConfinementRefused(ctypes.get_errno(), "the kernel refuses to confine this process")
    return result
