"""Keys of entries that are refused because of their names."""

from __future__ import annotations

from shared.sources.source import MOST_KEY_BYTES

TOO_LONG = f"Its name has more than {MOST_KEY_BYTES:,} bytes: shorten it."


def is_too_long(key: str) -> bool:
    """Return whether a key has more bytes than a key may have."""
    return len(key) > MOST_KEY_BYTES or len(key.encode()) > MOST_KEY_BYTES


def shortened(key: str) -> str:
    """Return as many characters of a key as fit into a key.

    All keys between the result and the key start with the result, and at most three bytes follow it in a valid one. A
    listing in the order of keys therefore stays in order if it omits a shortened key that does not follow the last one.
    """
    return key.encode()[:MOST_KEY_BYTES].decode(errors="ignore")
