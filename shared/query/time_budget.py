"""Time budgets of optional stages: if one fails or is late, the query continues and reports it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from shared.domain.errors import ForeaskError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SkippedStep:
    """A stage that failed or was late; `reason` is for a person."""

    reason: str


async def within(budget: timedelta, work: Awaitable[T]) -> T | SkippedStep:
    """Await optional work of a query, and cancel it when it is late.

    Returns:
        The result of the work, or the reason why there is none.
    """
    seconds = budget.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return SkippedStep(f"no reply within its budget of {seconds:g} s")
    except ForeaskError as error:
        return SkippedStep(error.message)
