"""The first-run check of this machine's settings. It needs no server."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import NoReturn

import typer


def register(app: typer.Typer) -> None:
    app.command()(check)


def check() -> None:
    """Use every engine and every model of this machine's settings once, and print one line for each.

    The models receive a neutral text, with the options of the real calls; it costs a few tokens. Parts whose URL is not
    set are not checked, because `foreask up` starts them.

    Exit code: 0 if all checks passed, otherwise 1.
    """
    import asyncio

    import structlog

    structlog.configure(processors=[_drop])
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a provider's words may be in any language
    if not asyncio.run(_print_all()):
        raise typer.Exit(1)


async def _print_all() -> bool:
    """Print each result when it is known, and return whether all checks passed."""
    from contextlib import AsyncExitStack

    from shared.services.check import findings
    from shared.services.parts import Parts
    from shared.settings import load

    passed = True
    async with AsyncExitStack() as stack:
        async for finding in findings(Parts(load(), stack, pool_size=1)):
            print(finding.sentence, flush=True)
            passed = passed and finding.problem is None
    return passed


def _drop(*_: object) -> NoReturn:
    """Log nothing, because each problem is one printed line."""
    from structlog import DropEvent

    raise DropEvent
