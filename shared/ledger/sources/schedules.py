"""Schedules of syncs: cron expressions in a time zone."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from shared.domain.errors import InvalidInput


def next_time(schedule: str | None, time_zone: str, now: datetime) -> datetime | None:
    """Return the first time of a schedule after `now`; None without a schedule.

    Raises:
        InvalidInput: the expression or the time zone is invalid, or the schedule has no time within the next 50 years.
    """
    zone = _zone(time_zone)
    if not schedule:
        return None
    try:
        return next(CronSim(schedule, now.astimezone(zone)))
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
