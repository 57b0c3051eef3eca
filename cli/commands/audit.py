"""The command that lists recorded changes of settings."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.connection import LOCAL, Key, Url, client_of, console_of

audit_app = typer.Typer(help="List recorded changes of settings.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(audit_app, name="audit")
    audit_app.command("list")(list_)


def list_(
    *,
    kind: Annotated[
        str | None, typer.Option("--object", help="Only changes of these objects, such as key or collection.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only changes of objects of this name.")] = None,
    actor: Annotated[str | None, typer.Option(help="Only changes by the key of this name.")] = None,
    limit: Annotated[int, typer.Option(help="Maximum number to print.", min=1)] = 100,
    every: Annotated[
        bool, typer.Option("--all", help="Changes by operators for any tenant; needs an operator's key.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """List changes of keys, budgets, webhooks, collections, builds, sources and gaps, newest first."""
    from itertools import islice

    from cli import output

    with client_of(url, key) as client:
        listing = client.operator_audit if every else client.audit
        entries = list(islice(listing(object=kind, name=name, actor=actor), limit))
    if as_json:
        output.print_json(entries)
    else:
        output.print_audit(console_of(), entries)
