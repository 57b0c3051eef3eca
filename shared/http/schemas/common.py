"""Base classes, names and examples of requests and replies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from shared.settings import Settings

DOCUMENT_ID = "0b4f7c1e-8d0a-4f0e-9d55-3c7a1f6f2b11"
CHUNK_ID = "5d4c9f0a-6f0e-5d7a-9a53-000000000000"
POINT_ID = "5d4c9f0a-6f0e-5d7a-9a53-000001000003"
ACCEPTED_ID = "5d4c9f0a-6f0e-5d7a-9a53-00000094c1b7"
QUERY_ID = "3f0f3c5e-7d2b-4c1f-8a69-5b0e2d9c4f77"

QUESTION_CHARS = 10_000
MESSAGE_CHARS = 100_000

# Patterns are a part of the API's description, so every language must read their syntax: no `\P{Cc}`, no `\u001f`.
CONTROLS = r"\x00-\x1f\x7f-\x9f"
ONE_LINE = f"^[^{CONTROLS}]+$"
"""The pattern of a text without control characters."""

CollectionName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="Lower-case letters, digits, - and _; at most 63 characters",
        examples=["default"],
    ),
]

TenantName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", examples=["name-of-a-tenant"])]

# A time is converted to UTC and to the zones of others, which overflows on the first and the last day of the calendar.
_DAY = timedelta(days=1)
Moment = Annotated[
    AwareDatetime,
    Field(strict=False, ge=datetime.min.replace(tzinfo=UTC) + _DAY, le=datetime.max.replace(tzinfo=UTC) - _DAY),
]
"""A time with a time zone, as a client sends it."""


class BodyModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class ReplyModel(BaseModel):
    # A field with a `validation_alias` is read from an attribute of another name, or of a nested value.
    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    @classmethod
    def of(cls, value: object, settings: Settings | None = None, **others: object) -> Self:
        """Return the reply with the attributes of a value that have the names of its fields.

        Args:
            value: a domain object; its nested objects become nested replies in the same way.
            settings: prices for the costs in the reply.
            others: more fields; they replace attributes of the same name.
        """
        source = _WithAttributes(value, others) if others else value
        return cls.model_validate(source, from_attributes=True, context=settings)


class _WithAttributes:
    """A value with more attributes."""

    def __init__(self, value: object, others: dict[str, object]) -> None:
        self._value = value
        self.__dict__ |= others

    def __getattr__(self, name: str) -> object:
        return getattr(self._value, name)


Share = Annotated[float, AfterValidator(lambda share: round(share, 4))]
"""A share or a similarity in four digits."""


def rounded_seconds(time: object) -> object:
    """Return a time as a number of seconds with one decimal; other values stay as they are."""
    return round(time.total_seconds(), 1) if isinstance(time, timedelta) else time


def whole_seconds(time: object) -> object:
    """Return a time as a whole number of seconds; other values stay as they are."""
    return round(time.total_seconds()) if isinstance(time, timedelta) else time


Seconds = Annotated[float, BeforeValidator(rounded_seconds)]
"""A number of seconds, from a `timedelta`."""


def example(**values: Any) -> ConfigDict:
    """Return the configuration that shows an example of the model in the OpenAPI document."""
    return ConfigDict(json_schema_extra={"example": values})


def example_of(model: type[BaseModel]) -> Any:
    """Return the example of a model, for use in the example of another one."""
    extra = model.model_config["json_schema_extra"]
    assert isinstance(extra, dict)
    return extra["example"]
