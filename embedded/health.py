"""Checks whether an engine can serve, over its protocol."""

from __future__ import annotations

import http.client
import socket
import subprocess
from pathlib import Path

from embedded.environment import without_secrets

TIMEOUT_SECONDS = 2.0
LOOPBACK = "127.0.0.1"


def http_ok(port: int, path: str) -> bool:
    """Return whether GET of the path answers 200; OSError while no process listens."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except http.client.HTTPException:
        return False
    finally:
        connection.close()


def redis_pong(port: int, password: str) -> bool:
    """Return whether PING is answered. It is not answered while the log is replayed."""
    with socket.create_connection((LOOPBACK, port), TIMEOUT_SECONDS) as connection:
        connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
        answer = b""
        while answer.count(b"\n") < 2:  # noqa: PLR2004
            received = connection.recv(256)
            if not received:
                return False
            answer += received
    return answer.endswith(b"+PONG\r\n")


def postgres_ready(pg_isready: Path, port: int) -> bool:
    """Return whether the server accepts connections. It does not during recovery or on an overloaded machine."""
    command = [str(pg_isready), "-q", "-h", LOOPBACK, "-p", str(port), "-d", "postgres"]
    try:
        done = subprocess.run(  # noqa: S603
            command, check=False, timeout=10, stdin=subprocess.DEVNULL, env=without_secrets()
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
