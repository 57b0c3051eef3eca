"""Preferences of a request (RFC 7240): the time that its client waits."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from fastapi import Header
from pydantic import WithJsonSchema

LONGEST_WAIT = timedelta(seconds=60)  # many proxies time out then
_WAIT = re.compile(r"\s*wait\s*=\s*\"?(\d{1,9})\"?\s*(;.*)?", re.IGNORECASE)


# A client may repeat the header. The schema says one text, because generators have no lists of headers.
Preferences = Annotated[
    list[str] | None,
    WithJsonSchema({"type": "string"}),
    Header(alias="prefer", description="`wait=30`: reply when the work is finished, or after 30 seconds"),
]


def wait_of(preferences: Preferences) -> timedelta | None:
    """Return the time that the client waits for the work of its request, at most a minute; None if it does not wait.

    Invalid preferences are ignored, as the RFC requires.
    """
    every = ",".join(preferences or ()).split(",")
    waits = [int(match[1]) for preference in every if (match := _WAIT.fullmatch(preference))]
    return min(timedelta(seconds=waits[0]), LONGEST_WAIT) if waits else None


def applied(wait: timedelta | None) -> dict[str, str]:
    """Return the header that reports the applied preference."""
    return {} if wait is None else {"preference-applied": f"wait={int(wait.total_seconds())}"}
