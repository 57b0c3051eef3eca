"""Commands for users' questions that were accepted from feedback."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.connection import LOCAL, Collection, Key, Url, client_of, console_of

accepted_app = typer.Typer(
    help="List or remove users' questions that became questions of chunks.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    app.add_typer(accepted_app, name="accepted-questions")
    accepted_app.command("list")(list_)
    accepted_app.command()(remove)


def list_(
    *,
    collection: Collection = "default",
    limit: Annotated[int, typer.Option(help="Maximum number to print.", min=1)] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """List accepted questions, newest first."""
    from itertools import islice

    from cli import output

    with client_of(url, key) as client:
        questions = list(islice(client.accepted_questions(collection), limit))
    if as_json:
        output.print_json(questions)
    else:
        output.print_accepted(console_of(), questions)


def remove(accepted_id: str, *, collection: Collection = "default", url: Url = LOCAL, key: Key = None) -> None:
    """Remove an accepted question from its chunk."""
    with client_of(url, key) as client:
        client.remove_accepted_question(collection, accepted_id)
