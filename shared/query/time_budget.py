"""Stages that a query can do without: they have a time budget, and where they fail the query goes on and says so."""

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
    """A stage that brought nothing; `reason` is for a person."""

    reason: str


async def within(budget: timedelta, work: Awaitable[T]) -> T | SkippedStep:
    """Do what a query can do without, in its time.

    Returns:
        What the work returns; where it is late or fails, why. Late work is cancelled.
    """
    seconds = budget.total_seconds()
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        return SkippedStep(f"no reply within its budget of {seconds:g} s")
    except ForeaskError as error:
        return SkippedStep(error.message)
