"""Commands for dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.connection import LOCAL, AnyCollection, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from foreask_client.models import DeadLettersResolved

dead_letters_app = typer.Typer(
    help="Dead letters are failed documents, unread pages and dead chunks; list, show, retry or discard them.",
    no_args_is_help=True,
)

Letter = Annotated[str | None, typer.Argument(help="Id of a dead letter.", show_default=False)]
AnyDocument = Annotated[str | None, typer.Option("--document", help="Only dead letters of the document with this id.")]
AnyReason = Annotated[str | None, typer.Option(help="Only dead letters with exactly this reason.")]
All = Annotated[bool, typer.Option("--all", help="All dead letters.")]


def register(app: typer.Typer) -> None:
    app.add_typer(dead_letters_app, name="dead-letters")
    dead_letters_app.command("list")(list_)
    for command in (show, retry, discard):
        dead_letters_app.command()(command)


def list_(
    *,
    collection: AnyCollection = None,
    document: AnyDocument = None,
    reason: AnyReason = None,
    limit: Annotated[int, typer.Option(help="Maximum number to print.", min=1)] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print letters and counts as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """List failed documents, unread pages and dead chunks, newest first, then their numbers by reason."""
    from itertools import islice

    from cli import output

    filters = _filters_of(collection=collection, document_id=document, reason=reason)
    with client_of(url, key) as client:
        letters, reasons = list(islice(client.dead_letters(**filters), limit)), client.dead_reasons(**filters)
    if as_json:
        output.print_json({"letters": letters, "reasons": reasons})
    else:
        output.print_dead(console_of(), letters, reasons)


def show(letter_id: str, url: Url = LOCAL, key: Key = None) -> None:
    """Show a dead letter and its failed attempts."""
    from cli import output

    with client_of(url, key) as client:
        output.print_dead_letter(console_of(), client.dead_letter(letter_id))


def retry(
    letter_id: Letter = None,
    *,
    collection: AnyCollection = None,
    document: AnyDocument = None,
    reason: AnyReason = None,
    every: All = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Retry dead letters: one by its id, all of a document, collection or reason, or --all."""
    filters = _filters_of(letter_id=letter_id, collection=collection, document_id=document, reason=reason)
    _require_choice(filters, every=every)
    with client_of(url, key) as client:
        _print_resolved("retried", client.retry_dead_letters(**_selection(filters)))


def discard(
    letter_id: Letter = None,
    *,
    collection: AnyCollection = None,
    document: AnyDocument = None,
    reason: AnyReason = None,
    every: All = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Discard dead letters permanently. A document that was never searchable is deleted."""
    filters = _filters_of(letter_id=letter_id, collection=collection, document_id=document, reason=reason)
    _require_choice(filters, every=every)
    if not yes:
        typer.confirm("Discard these permanently?", abort=True)
    with client_of(url, key) as client:
        _print_resolved("discarded", client.discard_dead_letters(**_selection(filters)))


def _filters_of(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def _selection(filters: dict[str, str]) -> dict[str, Any]:
    return dict(filters) or {"all": True}


def _require_choice(filters: dict[str, str], *, every: bool) -> None:
    if bool(filters) == every:
        raise typer.BadParameter("Select dead letters: an id, --document, --collection, --reason, or --all alone.")


def _print_resolved(action: str, counts: DeadLettersResolved) -> None:
    from cli import output

    print(f"{action}: {output.letter_counts(counts.documents, counts.pages, counts.chunks)}")
    if counts.in_progress:
        print(f"skipped because their documents are being processed: {counts.in_progress} chunks")
