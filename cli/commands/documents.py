"""Commands of documents and collections on a server."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands import accepted, ask, builds, calibrate, dead_letters, verify
from cli.server import LOCAL, AnyCollection, Collection, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from cli.client import Client
    from cli.files import Selection
    from cli.ingestion import Until, UploadBatch

# Exit codes of `ingest`; 2 is a usage error.
NOT_TAKEN = 1
FAILED = 3
INTERRUPTED = 130

documents_app = typer.Typer(help="List documents; `show`, `retry` or `delete` one.", invoke_without_command=True)


class Lane(StrEnum):
    INTERACTIVE = "interactive"
    BULK = "bulk"


class WaitFor(StrEnum):
    READY = "ready"
    SEARCHABLE = "searchable"
    NO = "no"


def register(app: typer.Typer) -> None:
    app.command()(ingest)
    ask.register(app)
    app.command()(status)
    app.command()(collections)
    app.command()(declare)
    app.command()(reindex)
    app.add_typer(documents_app, name="documents")
    for command in (show, retry, delete):
        documents_app.command()(command)
    dead_letters.register(app)
    accepted.register(app)
    verify.register(app)
    calibrate.register(app)
    builds.register(app)


def ingest(
    paths: Annotated[list[str], typer.Argument(help="Files, folders (with everything in them) or globs.")],
    *,
    collection: Collection = "default",
    lane: Annotated[Lane | None, typer.Option(help="`bulk` waits behind `interactive`.")] = None,
    wait: Annotated[
        WaitFor, typer.Option(help="Stay until each document is found with its questions, or by its text.")
    ] = (WaitFor.READY),
    include: Annotated[list[str] | None, typer.Option(help="Take only files like this, e.g. '*.pdf'.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave out files like this.")] = None,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Hand in files and follow them until their questions are written and searchable, too.

    Documents are found by their texts long before that: `--wait searchable` stays until then.

    Hidden files in folders are left out. A file's path from here is its name. An unchanged file costs nothing, and a
    changed file replaces its document. Exit code: 0, 1 when a file was not taken, 3 when a document failed.
    """
    from cli import files, output
    from cli.ingestion import UploadBatch

    console = console_of()
    selection = files.select(paths, include=include or (), exclude=exclude or ())
    _print_selection(console, selection)
    batch = UploadBatch(len(selection.files))
    with client_of(url, key) as client:
        try:
            _ingest(client, console, selection, batch, collection=collection, lane=lane, wait=wait)
        except KeyboardInterrupt:
            output.print_batch(console, batch)
            output.say(console, "The server goes on with what it has: see `foreask status`.")
            raise typer.Exit(INTERRUPTED) from None
    output.print_batch(console, batch)
    if batch.refused:
        raise typer.Exit(NOT_TAKEN)
    if batch.states()["failed"]:
        raise typer.Exit(FAILED)


def _ingest(
    client: Client,
    console: Console,
    selection: Selection,
    batch: UploadBatch,
    *,
    collection: str,
    lane: Lane | None,
    wait: WaitFor,
) -> None:
    from cli.ingestion import follow, upload
    from cli.meter import Meter

    client.health()  # without a server this is one error, not one for each file
    until: Until = "searchable" if wait is WaitFor.SEARCHABLE else "ready"
    with Meter(console) as meter:
        for _ in upload(client, selection.files, collection, lane.value if lane else None, batch):
            meter.show(batch.count(until))
        if wait is not WaitFor.NO and batch.documents:
            for count in follow(client, batch, until):
                meter.show(count)


def _print_selection(console: Console, selection: Selection) -> None:
    from cli import output

    left_out = [
        f"{count} {reason}"
        for count, reason in ((selection.hidden, "hidden"), (selection.excluded, "by --include or --exclude"))
        if count
    ]
    note = f" (left out: {', '.join(left_out)})" if left_out else ""
    output.say(console, f"{len(selection.files)} files{note}")


def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show the status again every two seconds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Show health, open work and its rate, limits, and collections. Exit code 1 while the server is not ready."""
    from rich.live import Live

    from cli import output

    with client_of(url, key) as client:
        if as_json:
            health = client.health()
            output.print_json(health | {"work": client.status() if _serves(health) else None})
            raise typer.Exit(0 if health.get("status") == "ready" else 1)
        if not watch:
            state, tables = _status(client)
            console_of().print(tables)
            raise typer.Exit(0 if state == "ready" else 1)
        with Live(_status(client)[1], console=console_of(), auto_refresh=False) as live:
            try:
                while True:
                    time.sleep(2)
                    live.update(_status(client)[1], refresh=True)
            except KeyboardInterrupt:
                return


def _status(client: Client) -> tuple[str, RenderableType]:
    from cli import output

    health = client.health()
    if not _serves(health):
        return "unavailable", output.status(health, None, [])
    return str(health.get("status")), output.status(health, client.status(), client.collections())


def _serves(health: dict[str, object]) -> bool:
    return health.get("status") != "unavailable"


def collections(url: Url = LOCAL, key: Key = None) -> None:
    """List the collections, with their documents per state and their points."""
    from cli import output

    with client_of(url, key) as client:
        console_of().print(output.collections_table(client.collections()))


def declare(
    collection: str,
    fields: Annotated[list[str], typer.Argument(help="keyword, integer, float, bool or datetime, e.g. year=integer.")],
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Declare metadata fields that filters find by an index, before the collection's first document.

    Fields that are declared stay. A collection that is not there is made.
    """
    declared = dict(map(_field, fields))
    with client_of(url, key) as client:
        filterable = client.declare(collection, declared)["options"]["filterable"]
        print(f"{collection}: {', '.join(f'{name} ({kind})' for name, kind in filterable.items())}")


def _field(text: str) -> tuple[str, str]:
    name, _, kind = text.rpartition("=")
    if not name or not kind:
        raise typer.BadParameter(f"{text} is not FIELD=TYPE, such as year=integer", param_hint="FIELDS")
    return name, kind


def reindex(collection: str, url: Url = LOCAL, key: Key = None) -> None:
    """Parse a collection anew, generate its questions and index it; unchanged questions are not paid for again."""
    with client_of(url, key) as client:
        documents = client.reindex(collection)["documents"]
        print(f"{documents} documents begin anew; until each is done, queries see it as it was: foreask status")


@documents_app.callback()
def documents(
    context: typer.Context,
    *,
    collection: AnyCollection = None,
    state: Annotated[str | None, typer.Option(help="Only those in this state, e.g. failed.")] = None,
    limit: Annotated[int, typer.Option(help="The most to show, newest first.", min=1)] = 200,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """List documents; `show`, `retry` or `delete` one."""
    if context.invoked_subcommand is not None:
        return
    from itertools import islice

    from cli import output

    with client_of(url, key) as client:
        output.print_documents(console_of(), islice(client.documents(collection, state), limit))


def show(document_id: str, url: Url = LOCAL, key: Key = None) -> None:
    """Show a document, its chunks, and their questions; a dropped question has its reason."""
    from cli import output

    with client_of(url, key) as client:
        output.print_document(console_of(), client.document(document_id), client.chunks(document_id))


def retry(document_id: str, url: Url = LOCAL, key: Key = None) -> None:
    """Try a failed document, or a document's dead chunks, again."""
    with client_of(url, key) as client:
        print(client.retry(document_id)["state"])


def delete(document_id: str, url: Url = LOCAL, key: Key = None) -> None:
    """Delete a document with its chunks, questions and points."""
    with client_of(url, key) as client:
        client.delete(document_id)
        print("deleted")
