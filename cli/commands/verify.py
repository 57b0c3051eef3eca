"""The command that compares Qdrant with the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.server import LOCAL, AnyCollection, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from rich.console import Console

    from cli.client import Client

DIFFERS = 4  # exit code


def register(app: typer.Typer) -> None:
    app.command()(verify)


def verify(
    *,
    collection: AnyCollection = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what differs; the language model is not called.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print counts and findings as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Compare the points in Qdrant with the ledger, in one collection or all.

    Exit code: 0 when nothing differs or everything was repaired, 4 when something differs.
    """
    from cli import output

    console = console_of()
    with client_of(url, key) as client:
        names = [collection] if collection else [each["name"] for each in client.collections()]
        verified = {name: _verify(client, console, name, repair=repair, quiet=as_json) for name in names}
    if as_json:
        output.print_json(verified)
    else:
        console.print(output.verification_table(verified))
    if any(
        counts["missing"] + counts["stale"] + counts["orphaned"] > counts["repaired"] for counts in verified.values()
    ):
        raise typer.Exit(DIFFERS)


def _verify(client: Client, console: Console, name: str, *, repair: bool, quiet: bool) -> dict[str, Any]:
    """Follow one comparison to its end, and return its counts with its findings."""
    from contextlib import nullcontext

    from cli.output import say
    from shared.domain.errors import Unavailable

    findings: list[dict[str, Any]] = []
    with nullcontext() if quiet else console.status(f"{name}: comparing") as status:
        for event in client.verify_events(name, repair=repair):
            if event.name == "finding":
                findings.append(event.data)
                if not quiet:
                    say(console, _line(event.data))
            elif event.name == "progress" and status:
                status.update(f"{name}: {event.data['documents']:,} documents, {event.data['points']:,} points")
            elif event.name == "error":
                raise Unavailable(str(event.data.get("detail", "The comparison broke off.")), component="api")
            elif event.name == "done":
                return event.data | {"findings": findings}
    raise Unavailable("The comparison broke off: the server closed the connection.", component="api")


def _line(finding: dict[str, Any]) -> str:
    repaired = ", repaired" if finding["repaired"] else ""
    place = f"point {finding['point_id']}  document {finding['document_id']}"
    return f"{finding['kind']:<8}  {place}  {finding['why']}{repaired}"
