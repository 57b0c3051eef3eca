"""Work on rows in groups, in which one bad row delays no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from uuid import UUID

import structlog

from shared.domain.errors import ForeaskError, Unavailable
from shared.ledger.postgres.database import TransactionConflict

T = TypeVar("T")
_SHOWN = 10  # ids in the log
log = structlog.get_logger()


async def work_on(
    rows: Sequence[T], work: Callable[[Sequence[T]], Awaitable[object]], id_of: Callable[[T], UUID]
) -> list[T]:
    """Do the work on all rows together; if that fails, do the work on each row alone.

    Args:
        rows: rows.
        work: may be repeated for rows on which it was done.
        id_of: returns the id of a row for the log.

    Returns:
        The rows on which the work was done.

    Raises:
        Unavailable: an engine is unavailable, so that the work on every row fails.
    """
    if not rows or await _is_done(rows, work, id_of):
        return list(rows)
    return [row for row in rows if len(rows) > 1 and await _is_done([row], work, id_of)]


async def _is_done(
    rows: Sequence[T], work: Callable[[Sequence[T]], Awaitable[object]], id_of: Callable[[T], UUID]
) -> bool:
    try:
        await work(rows)
    except Exception as error:
        if isinstance(error, Unavailable) and not isinstance(error, TransactionConflict):
            raise
        is_expected = isinstance(error, ForeaskError)
        ids = [str(id_of(row)) for row in rows[:_SHOWN]]
        log.warning("rows.failed", rows=len(rows), ids=ids, reason=str(error), exc_info=not is_expected)
        return False
    return True
