"""Passwords of engines that only this machine can reach."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def stored_password(path: Path) -> str:
    """Return the password in the file; the first call generates it. Only its owner can read the file."""
    if path.exists():
        return path.read_text()
    password = secrets.token_urlsafe(24)
    write_private(path, password)
    return password


def write_private(path: Path, text: str) -> None:
    """Write a file atomically; only its owner can read it."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    part.replace(path)
