"""Errors of a full disk of temporary files."""

from __future__ import annotations

import errno

FULL = (
    "this machine's folder for temporary files is full: make /tmp (TMPDIR) of the parse and read workers larger, or"
    " sync fewer or smaller sources at a time"
)
_SQLITE_FULL = 13  # sqlite3.SQLITE_FULL, whose module most processes do not need


def is_full(error: BaseException) -> bool:
    """Return whether an error says that a file system, or the user's part of it, is full."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) == _SQLITE_FULL
