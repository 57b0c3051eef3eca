"""Schedules of syncs: cron expressions in a time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from shared.domain.errors import InvalidInput

_FIELDS = 5  # minute, hour, day of the month, month, day of the week


def next_time(schedule: str | None, time_zone: str, now: datetime) -> datetime | None:
    """Return the first time of a schedule after `now`; None without a schedule.

    Raises:
        InvalidInput: the expression or the time zone is invalid, or the schedule has no time within the next 50 years.
    """
    zone = _zone(time_zone)
    if not schedule:
        return None
    try:
        if len(schedule.split()) != _FIELDS:
            raise CronSimError("it needs five fields")
        start = now.astimezone(UTC)  # times of one zone would be compared without their offsets
        # When a clock repeats an hour, a time in this hour may be over already.
        return next(time for time in CronSim(schedule, start.astimezone(zone)) if time > start)
    except CronSimError as error:
        raise InvalidInput(
            f"The schedule '{schedule}' is not a cron expression such as `0 * * * *`: {error}.", field="schedule"
        ) from None
    except StopIteration:
        raise InvalidInput(
            f"The schedule '{schedule}' has no time: choose an existing day.", field="schedule"
        ) from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a name with slashes may be a folder
        raise InvalidInput(
            f"There is no time zone '{name}': use a name such as `Europe/Berlin`.", field="time_zone"
        ) from None
