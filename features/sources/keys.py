"""Keys of entries, also of names that cannot be keys."""

from __future__ import annotations

import hashlib

from shared.domain.corpus.document_fields import MOST_KEY_BYTES, problem_of_key, problem_of_size

_DIGEST = 12  # hexadecimal digits


def problem_of(key: str) -> str | None:
    """Return why a text cannot be a key, as a sentence; None if it can."""
    return problem_of_key(key, MOST_KEY_BYTES)


def too_long(size_bytes: int) -> str | None:
    """Return why a text of this size cannot be a key, as a sentence; None if it can."""
    return problem_of_size(size_bytes, MOST_KEY_BYTES)


def substitute_key(name: str, prefix: str = "", suffix: str = "", *, digest: str | None = None) -> str:
    """Return a key for an entry whose name cannot be a key, so that the entry can be reported.

    Names that differ have different keys, except by chance or if the prefix leaves no space.

    Args:
        name: the name, with surrogate escapes if it is not UTF-8.
        prefix: first part of the key, such as a folder.
        suffix: last part of the key.
        digest: SHA-256 of the name in hexadecimal digits, if the name is cut.
    """
    raw = name.encode(errors="surrogateescape")
    label = "~" + (digest or hashlib.sha256(raw).hexdigest())[:_DIGEST] + suffix
    space = MOST_KEY_BYTES - len(prefix.encode())
    shown = raw.decode(errors="replace").replace("\0", "\ufffd").encode()[: max(0, space - len(label))]
    return prefix + shown.decode(errors="ignore") + label[:space]
