"""Types of setting values."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator, Field

PositiveInt = Annotated[int, Field(gt=0)]


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return timedelta(seconds=float(value))
    except ValueError:
        return value


Duration = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta())]  # a number without a unit is seconds
