"""The pause that a server requests is read from any value, and never longer than the caller allows."""

from datetime import timedelta

import pytest

from shared.domain.retry_after import retry_after
from tests.support.planted import guards

SENT = "Thu, 01 Jan 2026 00:00:00 GMT"  # time of the reply by the provider's clock


@guards(
    "shared/domain/retry_after.py",
    "min(seconds, most.total_seconds())",
    "seconds",
    means="clients and chunks wait for months because a provider asks for it",
)
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after-ms": "250", "retry-after": "9"}, timedelta(milliseconds=250)),
        ({"retry-after": "9"}, timedelta(seconds=9)),
        ({"retry-after": "1.5"}, timedelta(seconds=1.5)),
        ({"date": SENT, "retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, timedelta(seconds=30)),
        ({"date": SENT, "retry-after": "Thu, 01 Jan 2026 00:00:30 -0000"}, timedelta(seconds=30)),
        ({"date": SENT, "retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, timedelta()),
        ({"retry-after": "9000000"}, timedelta(hours=1)),
        ({"retry-after": "9" * 300}, timedelta(hours=1)),
        ({"date": SENT, "retry-after": "Fri, 01 Jan 2027 00:00:00 GMT"}, timedelta(hours=1)),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, None),
        ({"date": "now", "retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-3"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_parsed_in_every_form(headers, expected):
    assert retry_after(headers) == expected


@guards(
    "shared/domain/retry_after.py",
    "(ValueError, OverflowError)",
    "ValueError",
    means="a server ends a run by a date with a long year",
    case="year of 11 digits",
)
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("\u00b2", id="digit that is not decimal"),
        pytest.param("9" * 5_000, id="5,000 digits"),
        pytest.param("-1", id="negative"),
        pytest.param("nan", id="no number"),
        pytest.param("-inf", id="infinite"),
        pytest.param("Fri, 01 Jan 99999999999 00:00:00 GMT", id="year of 11 digits"),
        pytest.param("Fri, 01 Jan " + "9" * 5_000 + " 00:00:00 GMT", id="year of 5,000 digits"),
        pytest.param("Fri, 01 Jan 9999 00:00:00 +9999", id="zone of four days"),
        pytest.param("\x00", id="control character"),
    ],
)
def test_unusable_retry_after_requests_no_pause(value):
    assert retry_after({"date": SENT, "retry-after": value}) is None


def test_requested_pause_ends_at_callers_maximum():
    assert retry_after({"retry-after": "7200"}, most=timedelta(minutes=5)) == timedelta(minutes=5)
