"""The server as a child process."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import SecretStr

from embedded.environment import without_secrets
from embedded.health import http_ok
from embedded.secret import stored_password
from embedded.supervisor import Child

_KEY = "api-key"


def child(data_dir: Path, port: int, log: Path) -> Child:
    """Return the server over `data_dir`. Its key is in a file, because a key must not be an argument."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    key(data_dir)
    options = ["--data-dir", data_dir, "--port", port, "--key-file", data_dir / _KEY]
    return Child(
        name="qdrant",
        command=[sys.executable, "-m", "embedded.qdrant", *map(str, options)],
        log=log,
        environment=without_secrets(),
        inherits=False,
        healthy=lambda: http_ok(port, "/readyz"),
    )


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def key(data_dir: Path) -> SecretStr:
    """Return the key of the server over `data_dir`; the first call draws it."""
    return SecretStr(stored_password(data_dir / _KEY))
