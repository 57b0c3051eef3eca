"""Schedules: the next time of a cron expression in a time zone, also when clocks change."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from features.sources.ledger.schedules import next_time
from shared.domain.errors import InvalidInput


def times(schedule, time_zone, start, count):
    """Return the next times of a schedule, each after the one before, as texts with their offsets."""
    now, found = datetime.fromisoformat(start), []
    for _ in range(count):
        now = next_time(schedule, time_zone, now)
        found.append(now.isoformat(timespec="minutes"))
    return found


def test_schedule_is_in_its_own_time_zone():
    now = datetime(2026, 7, 1, 12, tzinfo=UTC)

    assert next_time("0 3 * * *", "Europe/Berlin", now) == datetime(2026, 7, 2, 1, tzinfo=UTC)
    assert next_time("0 3 * * *", "UTC", now) == datetime(2026, 7, 2, 3, tzinfo=UTC)
    assert next_time(None, "Europe/Berlin", now) is None


def test_time_at_its_own_instant_is_over():
    now = datetime(2026, 7, 1, 3, tzinfo=UTC)

    assert next_time("0 3 * * *", "UTC", now) == now + timedelta(days=1)
    assert next_time("0 3 * * *", "UTC", now - timedelta(microseconds=1)) == now


def test_skipped_hour_runs_once_after_the_change():
    assert times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]


def test_repeated_hour_runs_once():
    assert times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00+02:00", 2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]


def test_repeated_hour_has_no_time_in_the_past():
    now = datetime.fromisoformat("2026-10-25T02:10+01:00")  # 02:30 summer time was 40 minutes ago

    assert next_time("30 2 * * *", "Europe/Berlin", now).isoformat() == "2026-10-26T02:30:00+01:00"


@pytest.mark.parametrize("start", ["2026-03-29T00:00+01:00", "2026-10-25T00:00+02:00"])
def test_frequent_schedule_keeps_its_pace_when_clocks_change(start):
    found = [datetime.fromisoformat(each) for each in times("*/20 * * * *", "Europe/Berlin", start, 18)]

    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=20)}


def test_leap_day_is_found():
    now = datetime(2096, 3, 1, tzinfo=UTC)

    assert next_time("0 0 29 2 *", "UTC", now) == datetime(2104, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        ("hourly", "is not a cron expression"),
        ("@daily", "is not a cron expression"),
        ("61 * * * *", "is not a cron expression"),
        ("* * * *", "five fields"),
        ("*/5 * * * * *", "five fields"),
        ("0 0 30 2 *", "day-of-month"),
        ("0 0 31 2,4,6,9,11 *", "day-of-month"),
    ],
)
def test_schedule_without_times_is_refused(schedule, sentence):
    with pytest.raises(InvalidInput, match=sentence) as refused:
        next_time(schedule, "UTC", datetime(2026, 7, 1, tzinfo=UTC))
    assert refused.value.field == "schedule"


@pytest.mark.parametrize("zone", ["Berlin", "Europe", "", "../UTC", "/etc/localtime", "Europe/Berlin\0"])
def test_unknown_time_zone_is_refused(zone):
    with pytest.raises(InvalidInput, match="time zone") as refused:
        next_time("0 3 * * *", zone, datetime(2026, 7, 1, tzinfo=UTC))
    assert refused.value.field == "time_zone"
