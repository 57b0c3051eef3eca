"""The first minute of `foreask up`: print why something does not work, as soon as the API knows it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

from shared.domain.errors import Forbidden, ForeaskError, Unauthorized

if TYPE_CHECKING:
    from foreask_client.models import Json

    from cli.client import CliClient

_SECONDS = 60.0
_POLL_SECONDS = 2.0
_DIGITS = re.compile(r"\d+")


@contextmanager
def watched(url: str, console: Console) -> Iterator[None]:
    """Print each problem of the API's health and each notice of a collection once, in the block's first minute."""
    from cli.client import CliClient

    stop, client = threading.Event(), CliClient(url)
    watching = threading.Thread(
        target=watch, args=(lambda: found(client), console, stop.wait), name="first-minute", daemon=True
    )
    watching.start()
    try:
        yield
    finally:
        stop.set()


def watch(
    problems: Callable[[], list[str]],
    console: Console,
    wait: Callable[[float], bool],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Print each problem once until the minute is over.

    Args:
        problems: reads the problems from the API.
        console: the terminal.
        wait: waits for so many seconds, and returns whether to stop.
        clock: clock in monotonic seconds.
    """
    shown, end = set[str](), clock() + _SECONDS
    while clock() < end and not wait(_POLL_SECONDS):
        try:
            read = problems()
        except ForeaskError:
            continue  # it is starting or stopping, which the supervisor reports
        for problem in read:
            kind = _DIGITS.sub("", problem)
            if kind not in shown:
                shown.add(kind)
                console.print(f"! {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def found(client: CliClient) -> list[str]:
    """Return the problems of the API's health, and the notices of collections, such as about their language."""
    return [*problems_of(client.health()), *notices(client)]


def notices(client: CliClient) -> list[str]:
    """Return the notices of collections; none if the API requires a key, because `foreask up` sends none."""
    from foreask_client.requests import get_items

    try:
        collections = client.send(get_items("/v1/collections", dict[str, Any]))
    except (Unauthorized, Forbidden):
        return []
    return [f"{each['name']}: {each['notice']}" for each in collections if each["notice"]]


def problems_of(health: Json) -> list[str]:
    """Return sentences about the unavailable components, and about providers that fail or pause."""
    reasons = health.get("reasons", {})
    return [*(f"{name}: {reason}" for name, reason in reasons.items()), *health.get("warnings", [])]
