"""Contents of sites: they are read in a confined process, and its messages are validated here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from shared.confined.reading import Reader
from shared.domain.errors import Unreadable
from shared.sources.pages.reading.robots import MOST_PATTERN_CHARS, MOST_RULES, MOST_SITEMAPS, Robots
from shared.sources.source import MOST_KEY_BYTES

T = TypeVar("T")
_MODULE = "shared.sources.pages.reading.readers"
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_Address = Annotated[str, Field(max_length=MOST_KEY_BYTES, pattern="^https?://[!-~]+$")]
_Rule = tuple[bool, Annotated[str, Field(max_length=MOST_PATTERN_CHARS + 1, pattern="^[!-~]+$")]]
_ROBOTS = TypeAdapter(
    tuple[
        Annotated[list[_Rule], Field(max_length=MOST_RULES + 1, fail_fast=True)],
        Annotated[float, Field(ge=0)],
        Annotated[list[_Address], Field(max_length=MOST_SITEMAPS, fail_fast=True)],
    ],
    config=_STRICT,
)


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """Rules of a host for this robot.

    Args:
        robots: decides which addresses it may request.
        delay: pause between requests, in seconds; 0 if the host demands none.
        sitemaps: normal addresses of sitemaps.
    """

    robots: Robots = field(default_factory=lambda: Robots([]))
    delay: float = 0.0
    sitemaps: tuple[str, ...] = ()


async def read_robots(reader: Reader, content: bytes, address: str) -> RobotsRules:
    """Return the rules in a robots.txt.

    Raises:
        Unreadable: reading it took too much time or memory, or crashed.
        Transient: no process could be started.
    """
    if not content.strip():
        return RobotsRules()
    message = await reader.message(_MODULE, "robots", {"address": address}, content, subject=address)
    rules, delay, sitemaps = _valid(_ROBOTS, message, address)
    return RobotsRules(Robots(rules), delay, tuple(sitemaps))


def _valid(adapter: TypeAdapter[T], message: bytes, subject: str) -> T:
    try:
        return adapter.validate_json(message)
    except ValidationError as error:
        first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise Unreadable(f"{subject} crashed the parser (invalid reply)", detail=str(first["type"])) from None
