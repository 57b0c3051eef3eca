"""Commands for jobs: list, follow, pause, resume and cancel them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.connection import LOCAL, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from foreask_client import Job
    from rich.console import Console

    from cli.client import CliClient

FAILED = 3  # exit code: the job ended, but not all of its documents are ready
WITHHELD = 4  # exit code: deletions of a source need approval
INTERRUPTED = 130

jobs_app = typer.Typer(
    help="List loads, syncs, reindexes and other long work; follow, pause, resume or cancel it.", no_args_is_help=True
)

JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.add_typer(jobs_app, name="jobs")
    jobs_app.command("list")(list_jobs)
    for command in (show, watch, pause, resume, close, cancel):
        jobs_app.command()(command)


def list_jobs(
    *,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Only jobs of this kind: load, sync, reindex, build, evaluation, gate, verification or erasure."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number to print.", min=1)] = 50,
    as_json: AsJson = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """List jobs, newest first."""
    from itertools import islice

    from cli import output

    with client_of(url, key) as client:
        jobs = list(islice(client.jobs(kind=kind), limit))
    if as_json:
        output.print_json(jobs)
    else:
        console_of().print(output.jobs_table(jobs))


def show(job: JobId, *, as_json: AsJson = False, url: Url = LOCAL, key: Key = None) -> None:
    """Show a job with its progress."""
    from cli import output

    with client_of(url, key) as client:
        shown = client.job(job)
    if as_json:
        output.print_json(shown)
    else:
        output.print_job(console_of(), shown)


def watch(job: JobId, *, url: Url = LOCAL, key: Key = None) -> None:
    """Follow a job until it ends, or until its deletions need approval.

    Exit code: 0; 3 if it failed, was cancelled, or ended with errors; 4 if deletions are withheld.
    """
    from cli import output

    console = console_of()
    with client_of(url, key) as client:
        try:
            ended = follow(client, console, job)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    output.print_job(console, ended)
    if ended.pause_reason == "approval":
        raise typer.Exit(WITHHELD)
    if ended.state != "done":
        raise typer.Exit(FAILED)


def follow(client: CliClient, console: Console, job_id: str) -> Job:
    """Show the progress of a job until it ends or needs approval; return it."""
    from foreask_client import Job

    from cli import output
    from cli.meter import Stages
    from shared.domain.errors import Unavailable

    job = client.job(job_id)
    said = None
    with Stages(console) as stages:
        for event in client.job_events(job_id):
            if event.name == "error":
                raise Unavailable(str(event.data.get("detail", "")), component="api")
            job = Job.model_validate(event.data)
            stages.show(job.kind, job.done, job.total, job.eta_seconds)
            if job.message and job.message != said:
                output.say(console, job.message)
            said = job.message
            if job.pause_reason == "approval":
                break
    return job


def pause(job: JobId, *, url: Url = LOCAL, key: Key = None) -> None:
    """Pause a load, a sync or a reindex. Work in progress is finished."""
    with client_of(url, key) as client:
        _print_state(client.pause_job(job))


def resume(job: JobId, *, url: Url = LOCAL, key: Key = None) -> None:
    """Resume a paused load, sync or reindex. A sync that waits for approval ends, and nothing is deleted."""
    with client_of(url, key) as client:
        _print_state(client.resume_job(job))


def close(job: JobId, *, url: Url = LOCAL, key: Key = None) -> None:
    """Close a load whose client does not close it: it ends when its documents are finished."""
    with client_of(url, key) as client:
        _print_state(client.close_job(job))


def cancel(job: JobId, *, url: Url = LOCAL, key: Key = None) -> None:
    """Cancel a load, a sync or a reindex. Its queued documents are discarded; paid questions are kept."""
    with client_of(url, key) as client:
        _print_state(client.cancel_job(job))


def _print_state(job: Job) -> None:
    console_of().print(f"job {job.id} is {job.state}")
