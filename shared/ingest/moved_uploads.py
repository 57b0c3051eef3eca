"""The decision after a failure to read an upload, whose bytes may have been moved since the claim."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

from shared.domain.errors import ForeaskError, Unreadable
from shared.domain.retry import Decision, Retry, RetryPolicy, decide

_MOVED = Retry(timedelta(), "its bytes were moved to another object", burns_attempt=False)


async def decide_about_upload(
    error: ForeaskError, failed_before: int, policy: RetryPolicy, has_moved: Callable[[], Awaitable[bool]]
) -> Decision:
    """Decide as `decide` does, but try again at once if the bytes have another name: the next claim has the new name.

    Args:
        error: the error.
        failed_before: number of attempts that failed before this one.
        policy: limits.
        has_moved: returns whether the upload has another name than at the claim.
    """
    try:
        if isinstance(error, Unreadable) and await has_moved():
            return _MOVED
    except ForeaskError as unknown:
        error = unknown
    return decide(error, failed_before, policy, random.random)
