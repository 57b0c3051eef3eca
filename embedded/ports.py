"""Ports for engines, the same at every start."""

from __future__ import annotations

import json
import random
import socket
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from embedded.health import LOOPBACK

# Below the ports that the kernel assigns to outgoing connections, which could take an engine's port between two starts.
PORTS = range(15_000, 32_000)


def stable_ports(path: Path, names: Iterable[str]) -> dict[str, int]:
    """Return a port for each name, and store them: the stored port if it is still free, otherwise a new one."""
    ports: dict[str, int] = {}
    with suppress(OSError, ValueError, AttributeError):
        ports = {str(name): int(port) for name, port in json.loads(path.read_text()).items()}
    for name in names:
        if not _is_free(ports.get(name, 0)):
            ports[name] = free_port(taken=ports.values())
    path.write_text(json.dumps(ports, indent=2) + "\n")
    return ports


def free_port(taken: Collection[int] = ()) -> int:
    """Return a port that no process listens on, and that this function has returned to no other process."""
    return next(
        port for port in random.sample(PORTS, len(PORTS)) if port not in taken and _is_free(port) and _reserve(port)
    )


def _reserve(port: int) -> bool:
    """Reserve a port for this process, which may listen on it only seconds later; return whether that succeeded.

    A name in the abstract namespace has one owner and leaves no file. Only Linux has that namespace.
    """
    if sys.platform != "linux":
        return True
    reservation = socket.socket(socket.AF_UNIX)
    try:
        reservation.bind(f"\0foreask-port-{port}")
    except OSError:
        reservation.close()
        return False
    reservation.detach()  # released when the process exits
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
