"""Commands for documents and collections on a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands import (
    accepted_questions,
    ask,
    audit,
    batches,
    builds,
    calibrate,
    dead_letters,
    estimate,
    gaps,
    ingest,
    jobs,
    mcp,
    verify,
)
from cli.connection import LOCAL, AnyCollection, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cli.client import CliClient

documents_app = typer.Typer(help="List documents; show, retry or delete one.", no_args_is_help=True)
collections_app = typer.Typer(help="List the collections.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    ingest.register(app)
    estimate.register(app)
    ask.register(app)
    mcp.register(app)
    app.command()(status)
    app.command()(resume)
    app.add_typer(collections_app, name="collections")
    collections_app.command("list")(list_collections)
    app.command()(declare)
    app.command()(reindex)
    app.command()(reread)
    app.add_typer(documents_app, name="documents")
    documents_app.command("list")(list_documents)
    for command in (show, retry, delete):
        documents_app.command()(command)
    dead_letters.register(app)
    accepted_questions.register(app)
    gaps.register(app)
    audit.register(app)
    verify.register(app)
    calibrate.register(app)
    builds.register(app)
    jobs.register(app)
    batches.register(app)


def resume(url: Url = LOCAL, key: Key = None) -> None:
    """Resume a load that is paused because most of the language model's replies could not be used."""
    with client_of(url, key) as client:
        was_paused = client.resume()
    console_of().print("The load continues." if was_paused else "The load was not paused for this reason.")


def status(  # noqa: PLR0917 - all are options
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update every two seconds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All tenants; needs an operator's key.")] = False,
    workers: Annotated[bool, typer.Option(help="Show the workers instead, from the ledger of the settings.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Show health, open work, its rate, limits and collections. Exit code: 0; 1 if the server is not ready."""
    from rich.live import Live

    from cli import output

    if workers:
        _show_workers(as_json=as_json)
        return
    with client_of(url, key) as client:
        if every:
            _print_deployment(client, as_json=as_json)
            return
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


def _print_deployment(client: CliClient, *, as_json: bool) -> None:
    from cli import output

    deployment, tenants = client.deployment_status(), list(client.tenants())
    if as_json:
        output.print_json(deployment | {"each": tenants})
    else:
        console_of().print(output.deployment_tables(deployment, tenants))


def _show_workers(*, as_json: bool) -> None:
    import asyncio

    from cli import output
    from cli.workers import recent_processes, table

    processes = asyncio.run(recent_processes())
    if as_json:
        output.print_json({"workers": processes})
    else:
        console_of().print(table(processes))


def _status(client: CliClient) -> tuple[str, RenderableType]:
    from cli import output

    health = client.health()
    if not _serves(health):
        return "unavailable", output.status(health, None, [])
    return str(health.get("status")), output.status(health, client.status(), list(client.collections()))


def _serves(health: dict[str, object]) -> bool:
    return health.get("status") != "unavailable"


def list_collections(url: Url = LOCAL, key: Key = None) -> None:
    """List the collections, with their documents per state and their points."""
    from cli import output

    with client_of(url, key) as client:
        console_of().print(output.collections_table(client.collections()))


def declare(
    collection: str,
    fields: Annotated[
        list[str], typer.Argument(help="FIELD=TYPE, e.g. year=integer; types: keyword, integer, float, bool, datetime.")
    ],
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Declare indexed metadata fields for filters, before the collection's first document.

    Fields that were declared before are kept. The collection is created if it does not exist.
    """
    declared = dict(map(_field, fields))
    with client_of(url, key) as client:
        filterable = _declare(client, collection, declared)
        print(f"{collection}: {', '.join(f'{name} ({kind})' for name, kind in filterable.items())}")


def _declare(client: CliClient, collection: str, fields: dict[str, str]) -> dict[str, str]:
    """Add filterable fields to a collection, keep its other options, and return all its filterable fields."""
    from shared.domain.errors import NotFound

    try:
        options = client.collection(collection).options.model_dump(mode="json", exclude_unset=True)
    except NotFound:
        options = {}
    options["filterable"] = fields
    return client.put_collection(collection, **options).options.filterable


def _field(text: str) -> tuple[str, str]:
    name, _, kind = text.rpartition("=")
    if not name or not kind:
        raise typer.BadParameter(f"{text} is not FIELD=TYPE, such as year=integer", param_hint="FIELDS")
    return name, kind


def reindex(collection: str, url: Url = LOCAL, key: Key = None) -> None:
    """Parse a collection again, generate its questions and index it. Unchanged questions are not paid for again."""
    with client_of(url, key) as client:
        started = client.reindex(collection)
        print(
            f"{started['documents']} documents are processed again; queries see their current versions until then:"
            f" foreask jobs watch {started['job_id']}"
        )


def reread(
    collection: Annotated[str | None, typer.Argument(help="Default: every collection with such documents.")] = None,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Read the documents again that an older reader has read. Only chunks whose text changed are paid for."""
    with client_of(url, key) as client:
        names = [name for name in client.status()["outdated"] if collection in (None, name)]
        if not names:
            print("No document was read by an older reader.")
        for name in names:
            started = client.reindex(name, outdated=True)
            print(
                f"{name}: {started['documents']} documents are read again; queries see their current versions until"
                f" then: foreask jobs watch {started['job_id']}"
            )


def list_documents(
    *,
    collection: AnyCollection = None,
    state: Annotated[str | None, typer.Option(help="Only documents in this state, e.g. failed.")] = None,
    outdated: Annotated[bool, typer.Option("--outdated", help="Only documents that an older reader has read.")] = False,
    job: Annotated[str | None, typer.Option(help="Only documents that this job changed last.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number to print.", min=1)] = 200,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """List documents, newest first."""
    from itertools import islice

    from cli import output

    with client_of(url, key) as client:
        listed = client.documents(collection=collection, state=state, outdated=outdated or None, job=job)
        output.print_documents(console_of(), islice(listed, limit))


def show(document_id: str, url: Url = LOCAL, key: Key = None) -> None:
    """Show a document, its chunks and their questions, with the reasons of dropped questions."""
    from cli import output

    with client_of(url, key) as client:
        output.print_document(console_of(), client.document(document_id), client.chunks(document_id))


def retry(document_id: str, url: Url = LOCAL, key: Key = None) -> None:
    """Retry a failed document, or the dead chunks of a document."""
    with client_of(url, key) as client:
        print(client.retry_document(document_id).state)


def delete(document_id: str, url: Url = LOCAL, key: Key = None) -> None:
    """Delete a document with its chunks, questions and points."""
    with client_of(url, key) as client:
        client.delete_document(document_id)
        print("deleted")
