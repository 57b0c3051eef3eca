"""Contents of sites: they are read in a confined process, and its messages are validated here."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from features.sources.web.reading.robots import MOST_PATTERN_CHARS, MOST_RULES, MOST_SITEMAPS, Robots
from shared.confined.reading import Reader, as_file
from shared.domain.corpus.document_fields import MOST_KEY_BYTES
from shared.domain.errors import Unreadable

T = TypeVar("T")
AddressesKind = Literal["list", "sitemap", "feed"]
_MODULE = "features.sources.web.reading.readers"
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_Address = Annotated[str, Field(max_length=MOST_KEY_BYTES, pattern="^https?://[!-~]+$")]
_Rule = tuple[bool, Annotated[str, Field(max_length=MOST_PATTERN_CHARS + 1, pattern="^[!-~]+$")]]
_Batch = Annotated[list[_Address], Field(max_length=1_000, fail_fast=True)]
_ADDRESSES = TypeAdapter(tuple[_Batch, _Batch], config=_STRICT)
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


async def read_addresses(
    reader: Reader, kind: AddressesKind, content: bytes, base: str, most: int
) -> AsyncGenerator[tuple[list[str], list[str]], None]:
    """Yield batches of the normal addresses of pages and of sitemaps.

    Args:
        reader: reads the content.
        kind: format of the content.
        content: the content; it may be packed.
        base: its address.
        most: maximum number of addresses; the rest is not read.

    Raises:
        Unreadable: it cannot be read; the message is a clause.
        Transient: no process could be started.
    """
    left = most
    options = {"kind": kind, "base": base, "most": most}
    with as_file(content) as file:
        async with aclosing(reader.read(_MODULE, "addresses", options, [file], subject="it")) as messages:
            async for message in messages:
                pages, sitemaps = _valid(_ADDRESSES, message, "it")
                left -= len(pages) + len(sitemaps)
                if left < 0:
                    raise Unreadable("it crashed the parser (invalid reply)")
                yield pages, sitemaps


def _valid(adapter: TypeAdapter[T], message: bytes, subject: str) -> T:
    try:
        return adapter.validate_json(message)
    except ValidationError as error:
        first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise Unreadable(f"{subject} crashed the parser (invalid reply)", detail=str(first["type"])) from None
