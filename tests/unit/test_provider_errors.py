from datetime import timedelta

import pytest

from shared.providers.answers import retry_after
from tests.support.planted import guards

SENT = "Thu, 01 Jan 2026 00:00:00 GMT"  # time of the reply by the provider's clock


@guards(
    "shared/providers/answers.py",
    "min(requested, MOST_REQUESTED)",
    "requested",
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
