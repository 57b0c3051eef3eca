from datetime import timedelta

import pytest

from shared.domain.errors import BadReply, RateLimited, Transient, Unavailable
from shared.domain.retry import Dead, Retry, RetryPolicy, decide
from tests.support.planted import guards

SECOND = timedelta(seconds=1)
POLICY = RetryPolicy(max_attempts=4, base=SECOND, ceiling=timedelta(seconds=5))


@pytest.mark.parametrize(
    ("failed_before", "expected_seconds"), [(0, 1), (1, 2), (2, 4)], ids=["first", "second", "third"]
)
def test_wait_doubles_up_to_ceiling(failed_before, expected_seconds):
    decision = decide(Transient("unavailable"), failed_before, POLICY, lambda: 1.0)

    assert decision == Retry(after=SECOND * expected_seconds, reason="unavailable")


def test_ceiling_holds_for_any_number_of_attempts():
    decision = decide(RateLimited("slow down"), 10_000, POLICY, lambda: 1.0)

    assert isinstance(decision, Retry)
    assert decision.after == POLICY.ceiling


def test_jitter_spans_zero_to_full_wait():
    assert decide(Transient("unavailable"), 0, POLICY, lambda: 0.0) == Retry(after=timedelta(), reason="unavailable")


def test_wait_is_never_shorter_than_retry_after():
    decision = decide(Transient("unavailable", retry_after=timedelta(seconds=9)), 0, POLICY, lambda: 0.0)

    assert isinstance(decision, Retry)
    assert decision.after == timedelta(seconds=9)


@guards(
    "shared/domain/retry.py",
    "min(error.retry_after, MOST_REQUESTED)",
    "error.retry_after",
    means="a provider delays a chunk for months",
)
def test_absurd_retry_after_waits_an_hour():
    decision = decide(RateLimited("429", retry_after=timedelta(days=104)), 0, POLICY, lambda: 0.0)

    assert isinstance(decision, Retry)
    assert decision.after == timedelta(hours=1)


def test_failure_of_last_attempt_makes_work_dead():
    assert decide(Transient("unavailable"), 3, POLICY, lambda: 1.0) == Dead("gave up after 4 attempts: unavailable")


def test_permanent_error_is_never_retried():
    assert decide(BadReply("no JSON"), 0, POLICY, lambda: 1.0) == Dead("no JSON")


@pytest.mark.parametrize(
    "error",
    [
        RateLimited("429"),
        Unavailable("gone", component="llm"),
        Unavailable("500", component="qdrant", answered=True),
    ],
)
def test_external_failure_uses_no_attempt(error):
    decision = decide(error, 99, POLICY, lambda: 1.0)

    assert isinstance(decision, Retry)
    assert not decision.burns_attempt


def test_provider_failure_uses_attempt():
    assert isinstance(decide(Unavailable("500", component="llm", answered=True), 3, POLICY, lambda: 1.0), Dead)
