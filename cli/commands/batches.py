"""Commands for batches: list, show and cancel them."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.connection import LOCAL, Key, Url, client_of, console_of

batches_app = typer.Typer(
    help="List batches of the lane `batch`, which the provider answers within a day; show or cancel one.",
    no_args_is_help=True,
)

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="Id of the batch.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.add_typer(batches_app, name="batches")
    batches_app.command("list")(list_batches)
    for command in (show, cancel):
        batches_app.command()(command)


def list_batches(
    *,
    state: Annotated[
        str | None,
        typer.Option(
            help="Only batches in this state: planning, planned, creating, running, collecting, done or failed."
        ),
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only batches with chunks of the job with this id.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number to print.", min=1)] = 50,
    as_json: AsJson = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """List the batches of the last 30 days, newest first."""
    from itertools import islice

    from cli import output

    with client_of(url, key) as client:
        batches = list(islice(client.batches(state=state, job=job), limit))
    if as_json:
        output.print_json(batches)
    else:
        console_of().print(output.batches_table(batches))


def show(batch: BatchId, *, as_json: AsJson = False, url: Url = LOCAL, key: Key = None) -> None:
    """Show a batch with its progress and its next step."""
    from cli import output

    with client_of(url, key) as client:
        shown = client.batch(batch)
    if as_json:
        output.print_json(shown)
    else:
        output.print_provider_batch(console_of(), shown)


def cancel(
    batch: BatchId,
    *,
    live: Annotated[
        bool,
        typer.Option("--live", help="Generate the questions of its unanswered requests now, at the usual price."),
    ] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Cancel a batch. Results that the provider has are stored; other requests go to the next batch."""
    from cli import output

    with client_of(url, key) as client:
        cancelled = client.cancel_batch(batch, lane="bulk" if live else "batch")
    output.print_provider_batch(console_of(), cancelled)
