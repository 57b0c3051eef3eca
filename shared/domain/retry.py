"""The decision after a failed attempt, as a pure function, so that its test is a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from shared.domain.errors import ForeaskError, Stopping, Transient


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    max_attempts: int = 8
    base: timedelta = timedelta(seconds=1)
    ceiling: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after this time; `burns_attempt` is False if the work did not cause the failure."""

    after: timedelta
    reason: str
    burns_attempt: bool = True


@dataclass(frozen=True, slots=True)
class Dead:
    """No further attempt; `kind` is the class of the error, and the reason is a sentence."""

    reason: str
    kind: str = field(default="Permanent", compare=False)


Decision = Retry | Dead

MOST_REQUESTED = timedelta(hours=1)  # of a provider's `retry_after`, as in the limiter


def decide(error: ForeaskError, failed_before: int, policy: RetryPolicy, random: Callable[[], float]) -> Decision:
    """Decide when to try again, or why not to.

    Full jitter under an exponential ceiling (M. Brooker, "Exponential Backoff and Jitter", 2015), never earlier than
    the provider's own `retry_after`, of which at most an hour counts: a quota may be raised meanwhile.

    Args:
        error: the error.
        failed_before: number of attempts that failed before this one.
        policy: limits.
        random: uniform in [0, 1).
    """
    if not isinstance(error, Transient):
        return Dead(reason=error.message, kind=type(error).__name__)
    if isinstance(error, Stopping):
        return Retry(after=timedelta(), reason=error.message, burns_attempt=False)
    attempt = failed_before + 1
    if attempt >= policy.max_attempts and error.burns_attempt:
        return Dead(reason=f"gave up after {attempt} attempts: {error.message}", kind=type(error).__name__)
    ceiling = min(policy.ceiling, policy.base * 2 ** min(attempt - 1, 30))
    wait = ceiling * random()
    if error.retry_after is not None:
        wait += min(error.retry_after, MOST_REQUESTED)
    return Retry(after=wait, reason=error.message, burns_attempt=error.burns_attempt)
