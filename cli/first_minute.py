"""The first minute of `foreask up`: print why something does not work, as soon as the API knows it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from shared.domain.errors import ForeaskError

if TYPE_CHECKING:
    from foreask_client.models import Json

_SECONDS = 60.0
_POLL_SECONDS = 2.0
_DIGITS = re.compile(r"\d+")


@contextmanager
def watched(url: str, console: Console) -> Iterator[None]:
    """Print each problem of the API's health once, during the first minute of the block."""
    from cli.client import CliClient

    stop, client = threading.Event(), CliClient(url)
    watching = threading.Thread(
        target=watch, args=(client.health, console, stop.wait), name="first-minute", daemon=True
    )
    watching.start()
    try:
        yield
    finally:
        stop.set()


def watch(
    health: Callable[[], Json],
    console: Console,
    wait: Callable[[float], bool],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Print each problem once until the minute is over.

    Args:
        health: reads the API's health.
        console: the terminal.
        wait: waits for so many seconds, and returns whether to stop.
        clock: clock in monotonic seconds.
    """
    shown, end = set[str](), clock() + _SECONDS
    while clock() < end and not wait(_POLL_SECONDS):
        try:
            found = problems(health())
        except ForeaskError:
            continue  # it is starting or stopping, which the supervisor reports
        for problem in found:
            kind = _DIGITS.sub("", problem)
            if kind not in shown:
                shown.add(kind)
                console.print(f"! {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def problems(health: Json) -> list[str]:
    """Return sentences about the unavailable components, and about providers that fail or pause."""
    reasons = health.get("reasons", {})
    return [*(f"{name}: {reason}" for name, reason in reasons.items()), *health.get("warnings", [])]
