from datetime import UTC, datetime, timedelta

import pytest

from shared.providers.provider import retry_after

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after-ms": "250", "retry-after": "9"}, timedelta(milliseconds=250)),
        ({"retry-after": "9"}, timedelta(seconds=9)),
        ({"retry-after": "1.5"}, timedelta(seconds=1.5)),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, timedelta(seconds=30)),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, timedelta()),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "-3"}, None),
        ({}, None),
    ],
)
def test_the_providers_wish_is_understood_in_every_form(headers, expected):
    assert retry_after(headers, NOW) == expected
