"""Commands about who reads documents: why a person reads one, the readers of one, and a review of all readers."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.connection import LOCAL, Key, Url, client_of, console_of

access_app = typer.Typer(help="Show and change who reads documents.", no_args_is_help=True)

Document = Annotated[str, typer.Argument(metavar="DOCUMENT", help="Id of the document.")]
User = Annotated[str, typer.Option("--user", help="Name of the user, as the identity provider names it.")]
Groups = Annotated[list[str] | None, typer.Option("--group", help="Group of the user; may be repeated.")]


def register(app: typer.Typer) -> None:
    app.add_typer(access_app, name="access")
    access_app.command("set")(set_)
    for command in (why, review):
        access_app.command()(command)


def why(document: Document, *, user: User, groups: Groups = None, url: Url = LOCAL, key: Key = None) -> None:
    """Print the reason why a person reads a document, or does not. Exits with 1 if the person does not."""
    with client_of(url, key) as client:
        checked = client.access_check(document, user, groups or ())
    console_of().print(checked.reason, highlight=False, markup=False, soft_wrap=True)
    if not checked.readable:
        raise typer.Exit(1)


def set_(
    document: Document,
    readers: Annotated[
        list[str] | None, typer.Argument(metavar="READER...", help="Readers: `everyone`, user:NAME or group:NAME.")
    ] = None,
    *,
    closed: Annotated[bool, typer.Option("--closed", help="No person reads it.")] = False,
    unset: Annotated[bool, typer.Option("--unset", help="It names no readers: the server's setting decides.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Replace the readers of a document: they hold for the next query, and cost no call of a model."""
    if [bool(readers), closed, unset].count(True) != 1:
        raise typer.BadParameter("Give readers, --closed or --unset.")
    with client_of(url, key) as client:
        changed = client.change_readers(document, None if unset else readers or [])
    named = "no readers" if changed.readable_by is None else ", ".join(changed.readable_by) or "no person"
    console_of().print(f"{changed.external_id}: {named}", highlight=False, markup=False, soft_wrap=True)


def review(
    *,
    collection: Annotated[str | None, typer.Option(help="Only documents of this collection.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Count documents by reader, and mark groups that no person has had for 90 days."""
    from cli import output

    with client_of(url, key) as client:
        found = client.access_review(collection)
    if as_json:
        output.print_json(found.items)
    else:
        output.print_readers(console_of(), found)
