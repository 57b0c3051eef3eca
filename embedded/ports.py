"""Ports for engines, the same from one start to the next."""

from __future__ import annotations

import json
import random
import socket
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from embedded.health import LOOPBACK

# Below the ports that the kernel hands to outgoing connections, which could take an engine's between two starts.
PORTS = range(15_000, 32_000)


def stable_ports(path: Path, names: Iterable[str]) -> dict[str, int]:
    """A port for each name: the one that the file remembers, where that is still free; the file is then rewritten."""
    ports: dict[str, int] = {}
    with suppress(OSError, ValueError, AttributeError):
        ports = {str(name): int(port) for name, port in json.loads(path.read_text()).items()}
    for name in names:
        if not _is_free(ports.get(name, 0)):
            ports[name] = free_port(taken=ports.values())
    path.write_text(json.dumps(ports, indent=2) + "\n")
    return ports


def free_port(taken: Collection[int] = ()) -> int:
    """A port that nobody listens on, and that no other process on this machine has been given by this function."""
    return next(
        port for port in random.sample(PORTS, len(PORTS)) if port not in taken and _is_free(port) and _reserve(port)
    )


def _reserve(port: int) -> bool:
    """Keep a port for this process, which may listen on it only seconds from now; return whether it was to be had.

    A name in the abstract namespace has one owner and leaves no file. Linux alone has that namespace.
    """
    if sys.platform != "linux":
        return True
    reservation = socket.socket(socket.AF_UNIX)
    try:
        reservation.bind(f"\0foreask-port-{port}")
    except OSError:
        reservation.close()
        return False
    reservation.detach()  # it ends with the process
    return True


def _is_free(port: int) -> bool:
    if port not in range(1, 65_536):
        return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
