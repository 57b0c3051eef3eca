"""Durations as text: 43 min, 2 h 5 min."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a duration in the largest suitable units: 40 s, 43 min, 2 h 5 min, 3 d 4 h."""
    minutes, hours = int(seconds / 60 + 0.5), int(seconds / 3600 + 0.5)  # a half is rounded up, as on the page
    if seconds < 90:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    if minutes < 90:  # noqa: PLR2004
        return f"{minutes} min"
    if hours < 48:  # noqa: PLR2004
        return _two_units(minutes, 60, "h", "min")
    return _two_units(hours, 24, "d", "h")


def _two_units(count: int, size: int, large: str, small: str) -> str:
    """Return a number of small units in both units, without zeros."""
    rest = count % size
    return f"{count // size} {large} {rest} {small}" if rest else f"{count // size} {large}"
