"""Names of hosts that only a test resolves."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest


def resolving(monkeypatch: pytest.MonkeyPatch, names: dict[str, Sequence[str]]) -> list[str]:
    """Resolve names to addresses, and addresses to themselves; return the names that are looked up from now on."""
    real: Callable[..., Any] = socket.getaddrinfo
    looked_up = list[str]()

    def find(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in names:
            return real(host, port, *rest, **more)
        looked_up.append(name)
        return [found for address in names[name] for found in real(address, port, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    return looked_up
