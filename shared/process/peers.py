"""The user at the other end of a loopback connection.

The kernel of Linux knows the user that created each socket, and reports it for the sockets of all users: as an answer
to one question about one connection (`NETLINK_SOCK_DIAG`, 2 µs), or, if it does not answer that, as a table of all
connections (`/proc/net/tcp`). macOS has neither.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Protocol

_DIAG_PROTOCOL = 4  # NETLINK_SOCK_DIAG
_DIAG_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_REQUEST = 1  # NLM_F_REQUEST
_ALL_STATES = 0xFFF
_NO_COOKIE = 0xFFFF_FFFF
_HEAD = struct.Struct("=IHHII")
_KIND = struct.Struct("=BBBxI")
_ENDS = struct.Struct("!HH16s16s")
_LINK = struct.Struct("=III")  # interface and cookie
_OWNER = struct.Struct("=IIIII")  # the last two are the user and the inode
_STATE_AT = _HEAD.size + 1
_ENDS_AT = _HEAD.size + 4
_OWNER_AT = _ENDS_AT + _ENDS.size + _LINK.size
_BYTES_OF_IPV4 = 4
_WITHIN_IPV6 = bytes(10) + b"\xff\xff"
TABLES = {4: Path("/proc/net/tcp"), 16: Path("/proc/net/tcp6")}  # by the bytes of an address
_OWN_NAMESPACE = Path("/proc/self/uid_map")
_OTHER_USERS = Path("/proc/sys/kernel/overflowuid")
_EVERY_USER = ["0", "0", "4294967295"]
# ESTABLISHED, FIN_WAIT1, FIN_WAIT2 and CLOSE_WAIT. A socket that is being connected may get the ports of an old one.
_CONNECTED = {1, 4, 5, 8}


@dataclass(frozen=True, slots=True)
class End:
    """One end of a connection: the bytes of an address of IPv4 or IPv6, and a port."""

    address: bytes
    port: int

    @classmethod
    def of(cls, name: tuple[str, int, int, int] | tuple[str, int]) -> End:
        """Return the end with a name as sockets report it; an IPv4 address within IPv6 is an IPv4 address."""
        address = ip_address(name[0].partition("%")[0])
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return cls((mapped or address).packed, name[1])


# Returns the user of the socket with this end, connected to that one; None if no process has the socket.
Means = Callable[[End, End], int | None]


class ConnectedSocket(Protocol):
    """The part of a socket that is used here, which a transport's socket has, too."""

    def getpeername(self) -> tuple[str, int]: ...
    def getsockname(self) -> tuple[str, int]: ...
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


class Peer:
    """The other end of a connection to this process; the kernel is asked once, when it is first needed."""

    def __init__(self, connection: ConnectedSocket) -> None:
        self._connection = connection

    @cached_property
    def is_own_user(self) -> bool:
        """Whether a process of this process's user has opened the connection; false if that is unknown."""
        means = _means()
        return means is not None and user_of(self._connection, means) == os.geteuid()


class ThisProcess:
    """The other end of a request that this process sends to itself."""

    is_own_user = True


def are_known() -> bool:
    """Return whether this system reports which user has opened a connection."""
    return _means() is not None


def user_of(connection: ConnectedSocket, means: Means) -> int | None:
    """Return the user that has opened a connection to this process; None if the connection is closed or not local."""
    with suppress(OSError, ValueError):
        user = means(End.of(connection.getpeername()), End.of(connection.getsockname()))
        # As long as this end exists, no other connection can have the same two ends. Therefore the user has opened this
        # connection, and not a later one with the same port.
        if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _CONNECTED:
            return user
    return None


@cache
def _means() -> Means | None:
    """Return the means by which the kernel names the user of a connection of this process; None without any."""
    if sys.platform != "linux" or _stands_for_others(os.geteuid()):
        return None
    return next((means for means in (user_by_question, user_by_table) if _works(means)), None)


def _works(means: Means) -> bool:
    with (
        suppress(OSError),
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        return means(End.of(client.getsockname()), End.of(client.getpeername())) == os.geteuid()
    return False


def _stands_for_others(user: int) -> bool:
    """Return whether the kernel also reports this number for users that are unknown in this container."""
    with suppress(OSError):
        return user == int(_OTHER_USERS.read_text()) and _OWN_NAMESPACE.read_text().split() != _EVERY_USER
    return False


def user_by_question(end: End, other: End) -> int | None:
    """Ask the kernel for the socket of a connection.

    Raises:
        OSError: the kernel does not answer such questions.
    """
    family = socket.AF_INET if len(end.address) == _BYTES_OF_IPV4 else socket.AF_INET6
    ends = [_ENDS.pack(here.port, there.port, here.address, there.address) for here, there in _spellings(end, other)]
    asked = _KIND.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES) + ends[0] + _LINK.pack(0, _NO_COOKIE, _NO_COOKIE)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _DIAG_PROTOCOL) as kernel:
        kernel.connect((0, 0))  # to receive from the kernel only
        kernel.send(_HEAD.pack(_HEAD.size + len(asked), _DIAG_BY_FAMILY, _REQUEST, 0, 0) + asked)
        reply = kernel.recv(4096, socket.MSG_DONTWAIT)
    # Without such a connection the kernel may name a socket that listens on the same port, whose ends differ.
    is_found = _HEAD.unpack_from(reply)[1] == _DIAG_BY_FAMILY and reply[_ENDS_AT : _ENDS_AT + _ENDS.size] in ends
    if not is_found or reply[_STATE_AT] not in _CONNECTED:
        return None
    *_, user, inode = _OWNER.unpack_from(reply, _OWNER_AT)
    return user if inode else None  # a socket that its process has closed counts as one of root's


def user_by_table(end: End, other: End, tables: Mapping[int, Path] = TABLES) -> int | None:
    """Search the kernel's tables for the socket of a connection.

    Args:
        end: the end of the socket.
        other: the end to which it is connected.
        tables: files of the tables, by the bytes of an address.

    Raises:
        OSError: the kernel has no such tables.
    """
    for here, there in _spellings(end, other):
        for line in tables[len(here.address)].read_text().splitlines():
            fields = line.split()
            if (
                fields[1:3] == [_written(here), _written(there)]
                and int(fields[3], 16) in _CONNECTED
                and fields[9] != "0"
            ):
                return int(fields[7])
    return None


def _spellings(end: End, other: End) -> list[tuple[End, End]]:
    """Return the ends as a socket of IPv4 and as one of IPv6 has them, which may connect to an address of IPv4, too."""
    if len(end.address) != _BYTES_OF_IPV4:
        return [(end, other)]
    return [(end, other), (End(_WITHIN_IPV6 + end.address, end.port), End(_WITHIN_IPV6 + other.address, other.port))]


def _written(end: End) -> str:
    """Return an end as the kernel's tables contain it."""
    words = struct.unpack(f"={len(end.address) // 4}I", end.address)
    return "".join(f"{word:08X}" for word in words) + f":{end.port:04X}"
