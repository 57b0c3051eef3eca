"""API keys as texts: only their hashes are stored."""

from __future__ import annotations

import hashlib
import secrets

OPERATOR = ""  # used instead of a tenant's name
_BYTES = 32
_PREFIX_CHARS = 7  # `fa_` and four random characters


def draw() -> str:
    """Draw a key of 256 random bits."""
    return f"fa_{secrets.token_urlsafe(_BYTES)}"


def prefix_of(key: str) -> str:
    """Return the first characters of a key, by which its holder recognizes it; 232 random bits stay unknown."""
    return key[:_PREFIX_CHARS]


def hash_of(key: str) -> bytes:
    """Return the SHA-256 of a key. Keys are random, so that no slower hash is needed."""
    return hashlib.sha256(key.encode()).digest()
