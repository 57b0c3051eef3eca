"""The commands that are a server, or a part of one."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

ONE = typer.Option(min=1, max=64)
DataDir = Annotated[Path | None, typer.Option(help="Where uploads, engines and logs keep their files.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Where the API listens; 0: any that is free.")]


class WorkerQueue(StrEnum):
    PARSE = "parse"
    GENERATE = "generate"
    INDEX = "index"


def register(app: typer.Typer) -> None:
    for command in (up, demo, api, worker, scheduler, health, schema, config):
        app.command()(command)


def up(
    data_dir: DataDir = None,
    port: Port = None,
    parse_workers: Annotated[int, ONE] = 1,
    generate_workers: Annotated[int, ONE] = 1,
    index_workers: Annotated[int, ONE] = 1,
) -> None:
    """Start everything on this machine: an embedded engine for each URL that is not set, the API and the workers."""
    from rich.console import Console

    from cli.launcher import Plan, in_data_dir
    from cli.launcher import up as run
    from cli.programs import Crew
    from shared.settings import load

    crew = Crew(parse=parse_workers, generate=generate_workers, index=index_workers)
    run(Plan(in_data_dir(load(), data_dir), crew, port), Console())


def demo(
    data_dir: Annotated[Path, typer.Option(help="Where the demo keeps its files.")] = Path(".foreask/demo"),
) -> None:
    """Start everything, ingest real documents, ask questions of them, and stop."""
    from rich.console import Console

    from cli.demo import run

    run(data_dir, Console())


def api() -> NoReturn:
    """Run the API alone; every URL must be set."""
    _become("api")


def worker(queue: WorkerQueue) -> NoReturn:
    """Run one worker of a queue; the URLs that it uses must be set."""
    _become("workers", queue.value)


def scheduler() -> NoReturn:
    """Run the scheduler, which wakes workers for due work; the URLs of the ledger, broker and Qdrant must be set."""
    _become("workers", "scheduler")


def health(role: Annotated[str, typer.Argument(help="parse, generate, index or scheduler.")]) -> None:
    """Exit with 0 while this machine's worker or scheduler lives, for the health check of a container.

    A ledger that is away says nothing about the worker: that is 0 too.
    """
    import asyncio
    import socket

    from cli.workers import beats

    if not asyncio.run(beats(role, socket.gethostname())):
        print(f"No {role} of this machine has said lately that it lives.", file=sys.stderr)
        raise typer.Exit(1)


def schema() -> NoReturn:
    """Bring the database's schema up to date; safe to run again, and at the same time as others."""
    _become("shared.ledger")


def config() -> None:
    """Print the settings of this machine's programs and where each comes from; no secret is shown."""
    from shared.settings import load

    for setting in load().described():
        print(f"{setting.variable}={setting.value}  # {setting.origin}")


def _become(module: str, *arguments: str) -> NoReturn:
    """Become `python -m module`: signals and the exit code are then its own."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606
