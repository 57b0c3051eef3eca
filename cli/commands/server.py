"""Commands that run a server or a part of one."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from cli.connection import console_of

ONE = typer.Option(min=1, max=64)
DataDir = Annotated[Path | None, typer.Option(help="Folder for uploads, engines and logs.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the API; 0: any free port.")]


class WorkerRole(StrEnum):
    PARSE = "parse"
    READ = "read"
    GENERATE = "generate"
    INDEX = "index"
    INGEST = "ingest"


def register(app: typer.Typer) -> None:
    for command in (up, demo, api, worker, scheduler, health, schema, config, openapi):
        app.command()(command)


def up(
    data_dir: DataDir = None,
    port: Port = None,
    parse_workers: Annotated[int, ONE] = 1,
    read_workers: Annotated[int, ONE] = 1,
    ingest_workers: Annotated[int, ONE] = 1,
) -> None:
    """Start everything on this machine: embedded engines for all URLs that are not set, the API and the workers."""
    from cli.launcher import LaunchPlan, in_data_dir
    from cli.launcher import up as run
    from cli.programs import WorkerCounts
    from shared.settings import load

    worker_counts = WorkerCounts(parse=parse_workers, read=read_workers, ingest=ingest_workers)
    run(LaunchPlan(in_data_dir(load(), data_dir), worker_counts, port), console_of())


def demo(
    data_dir: Annotated[Path, typer.Option(help="Folder for the files of the demo.")] = Path(".foreask/demo"),
) -> None:
    """Start everything, ingest real documents, ask questions, and stop."""
    from cli.demo import run

    run(data_dir, console_of())


def api() -> NoReturn:
    """Run only the API. All URLs must be set."""
    _become("api")


def worker(role: WorkerRole) -> NoReturn:
    """Run one worker; `ingest` generates and indexes in one process. The URLs that it uses must be set."""
    _become("workers", role.value)


def scheduler() -> NoReturn:
    """Run the scheduler, which wakes workers for due work. The URLs of the ledger, broker and Qdrant must be set."""
    _become("workers", "scheduler")


def health(
    role: Annotated[str, typer.Argument(help="parse, read, generate, index, ingest, scheduler or api.")],
) -> None:
    """Exit with 0 if a worker or scheduler of this role is alive on this machine.

    The process itself is asked. If no process is found on this machine, the heartbeats in the ledger decide. The exit
    code is also 0 if the ledger is unavailable then, because the state of the worker is unknown.
    """
    from shared.process.liveness import local_processes

    found = list(local_processes(role))
    if any(process.is_live for process in found):
        return
    for process in found:
        silent = "" if process.silent_seconds is None else f" for {process.silent_seconds:.0f} s"
        print(f"The {role} process {process.pid} has not responded{silent}.", file=sys.stderr)
    if not found and _sends_heartbeats(role):
        return
    if not found:
        print(f"No {role} on this machine has sent a heartbeat recently.", file=sys.stderr)
    raise typer.Exit(1)


def _sends_heartbeats(role: str) -> bool:
    import asyncio
    import socket

    from cli.workers import is_alive

    return asyncio.run(is_alive(role, socket.gethostname()))


def schema(
    wait: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Change nothing, and wait for the schema that this release needs."),
    ] = None,
) -> NoReturn:
    """Update the database schema. The command may be repeated, and may run concurrently.

    With `--wait` it changes nothing: it exits with 0 when this release can run on the schema, with 1 after the timeout,
    and with 3 if the schema needs a newer release, so that waiting would not help.
    """
    _become("shared.ledger", *([] if wait is None else ["--wait", str(wait)]))


def config() -> None:
    """Print the settings of this machine's programs and their origins, without secrets."""
    from shared.settings import load

    for setting in load().described():
        print(f"{setting.variable}={setting.value}  # {setting.origin}")


def openapi() -> None:
    """Print the OpenAPI document of this release, from which generators make clients."""
    import json

    from api.app import described

    print(json.dumps(described(), indent=2))


def _become(module: str, *arguments: str) -> NoReturn:
    """Replace this process by `python -m module`, which then receives the signals and sets the exit code."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606
