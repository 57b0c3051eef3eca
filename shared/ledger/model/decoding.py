"""Decoding of claimed rows: a row with a value that no release writes stops no other row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import structlog

from shared.ledger.postgres.connections import Row

T = TypeVar("T")
log = structlog.get_logger()


def decoded(stage: str, decode: Callable[[Row], T], claimed: Sequence[Row]) -> list[T]:
    """Decode rows in order; a row that raises is logged and skipped.

    It stays claimed, and another claim finds it later.
    """
    found: list[T] = []
    for row in claimed:
        try:
            found.append(decode(row))
        except Exception:  # a bug, or a value that was changed by hand
            log.exception("row.undecodable", stage=stage, id=str(row["id"]), tenant=row["tenant"])
    return found
