"""Commands for gaps: questions that the documents do not answer, grouped by meaning."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.connection import LOCAL, Collection, Key, Url, client_of, console_of

gaps_app = typer.Typer(help="List, assign and resolve gaps: questions without an answer.", no_args_is_help=True)

GapId = Annotated[str, typer.Argument(metavar="ID")]


def register(app: typer.Typer) -> None:
    app.add_typer(gaps_app, name="gaps")
    gaps_app.command("list")(list_)
    gaps_app.command()(assign)
    gaps_app.command()(resolve)
    gaps_app.command()(reopen)


def list_(
    *,
    collection: Collection = "default",
    state: Annotated[str | None, typer.Option(help="Only gaps in this state: open, assigned or resolved.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number to print.", min=1)] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """List gaps, most often asked first."""
    from itertools import islice

    from cli import output

    with client_of(url, key) as client:
        gaps = list(islice(client.gaps(collection, state=state), limit))
    if as_json:
        output.print_json(gaps)
    else:
        output.print_gaps(console_of(), gaps)


def assign(
    gap_id: GapId,
    to: Annotated[str, typer.Argument(metavar="NAME", help="The person or team; an empty name removes it.")],
    *,
    collection: Collection = "default",
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Assign a gap."""
    with client_of(url, key) as client:
        client.assign_gap(collection, gap_id, to or None)


def resolve(
    gap_id: GapId,
    document_id: Annotated[str, typer.Argument(metavar="DOCUMENT", help="Id of the document with the answer.")],
    *,
    collection: Collection = "default",
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Resolve a gap by a document. It opens again if one of its questions is not answered."""
    with client_of(url, key) as client:
        client.resolve_gap(collection, gap_id, document_id)


def reopen(gap_id: GapId, *, collection: Collection = "default", url: Url = LOCAL, key: Key = None) -> None:
    """Open a resolved gap again."""
    with client_of(url, key) as client:
        client.resolve_gap(collection, gap_id, None)
