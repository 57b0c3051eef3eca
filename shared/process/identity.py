"""The name and the version of this process, by which PostgreSQL, Valkey, metrics and traces show it."""

from __future__ import annotations

import os
import socket
from importlib.metadata import version


class _Process:
    """The role of this process, which the program sets at its start."""

    role = "command"


def become(role: str) -> None:
    """Set the role of this process: `api`, `scheduler`, `schema`, or a worker's; without one it is a command."""
    _Process.role = role


def version_of_code() -> str:
    """Return the version of the installed package."""
    return version("foreask")


def instance() -> str:
    """Return `HOST:PID`, which no other process has; after a fork it is another one."""
    return f"{socket.gethostname()}:{os.getpid()}"


def connection_name(purpose: str = "") -> str:
    """Return the name of a connection to an engine, such as `foreask-api-HOST:PID` or `foreask-api-limits-HOST:PID`.

    PostgreSQL shows its first 63 bytes. Valkey accepts no blanks.
    """
    parts = filter(None, ("foreask", _Process.role, purpose, instance()))
    return "-".join(parts).encode("ascii", "replace").decode().replace(" ", "_")
