"""The pause that a server requests in its reply. This is the only place that reads `Retry-After`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from shared.domain.retry import MOST_REQUESTED


def retry_after(headers: Mapping[str, str], *, most: timedelta = MOST_REQUESTED) -> timedelta | None:
    """Return the pause that a server requests: `retry-after-ms`, else `retry-after` in seconds or as a date.

    RFC 9110, 10.2.3. A date is relative to the reply's own `date`, because this machine's clock may be wrong.

    Args:
        headers: headers of the reply, whose names are in lower case or compared without case.
        most: the longest pause.

    Returns:
        At most `most`; None if the reply has no valid value, or a date without a `date` header. No value raises an
        error, because a server may send anything.
    """
    seconds = _requested_seconds(headers)
    return None if seconds is None else timedelta(seconds=min(seconds, most.total_seconds()))


def _requested_seconds(headers: Mapping[str, str]) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None:
        return seconds
    then, sent = date_of(value), date_of(headers.get("date"))
    return None if then is None or sent is None else max(0.0, (then - sent).total_seconds())


def date_of(value: str | None) -> datetime | None:
    """Return the date of a header; None if it has none that can be read."""
    try:
        date = parsedate_to_datetime(value or "")
    except (ValueError, OverflowError):  # the year may have any number of digits
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)  # the zone `-0000` is read as none


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if number >= 0 and math.isfinite(number) else None
