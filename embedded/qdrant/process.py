"""The server as a child process."""

from __future__ import annotations

import sys
from pathlib import Path

from embedded.environment import without_secrets
from embedded.health import http_ok
from embedded.supervisor import Child


def child(data_dir: Path, port: int, log: Path) -> Child:
    return Child(
        name="qdrant",
        command=[sys.executable, "-m", "embedded.qdrant", "--data-dir", str(data_dir), "--port", str(port)],
        log=log,
        environment=without_secrets(),
        inherits=False,
        healthy=lambda: http_ok(port, "/readyz"),
    )


def url(port: int) -> str:
    return f"http://127.0.0.1:{port}"
