"""Range requests: a part of a download, so that a client can continue one, or read only the parts that it shows."""

from __future__ import annotations

import re

from starlette.datastructures import Headers

from shared.http.problems import NoSuchRange

_RANGE = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


def requested(headers: Headers, size: int, tag: str) -> tuple[int, int] | None:
    """Return the start and the end of the requested bytes, half-open; None if all bytes must be sent.

    A header with several ranges or in an unknown form is ignored, as RFC 9110 allows. The range is also ignored if
    `If-Range` names another tag, because the client has a part of other bytes.

    Args:
        headers: headers of the request.
        size: size of the file in bytes.
        tag: entity tag of the file, with its quotation marks.

    Raises:
        NoSuchRange: the file has no byte in the range.
    """
    found = _RANGE.fullmatch(headers.get("range", "").strip())
    if found is None or headers.get("if-range", tag) != tag:
        return None
    first, last = found.groups()
    if not first and not last:
        return None
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
    if first and last and int(last) < start:
        return None
    if start >= end:
        raise NoSuchRange(size)
    return start, end
