"""The command that compares Qdrant with the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.connection import LOCAL, AnyCollection, Key, Url, client_of, console_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreask_client import Event
    from rich.console import Console

    from cli.client import CliClient

DIFFERS = 4  # exit code


def register(app: typer.Typer) -> None:
    app.command()(verify)


def verify(
    *,
    collection: AnyCollection = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair differences, without calls of the language model.")
    ] = False,
    cursor: Annotated[
        str | None, typer.Option("--cursor", help="Continue a failed comparison of the collection.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Tenant of the collections; needs an operator's key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print counts and findings as JSON.")] = False,
    url: Url = LOCAL,
    key: Key = None,
) -> None:
    """Compare the points in Qdrant with the ledger, in one collection or all.

    A worker compares. If the connection is lost, the same command follows the comparison again; Ctrl-C cancels it.
    Exit code: 0 if there are no differences or all were repaired, otherwise 4.
    """
    from cli import output

    if cursor is not None and collection is None:
        raise typer.BadParameter("--cursor needs the --collection of the failed comparison.")
    if cursor is not None and tenant is not None:
        raise typer.BadParameter("--cursor needs the tenant's own key: an operator's comparison always starts over.")
    console = console_of()
    with client_of(url, key) as client:
        names = [collection] if collection else _names(client, tenant)
        verified = {}
        for name in names:
            if tenant is None:
                events = client.verify(name, repair=repair, cursor=cursor)
            else:
                events = client.verify_tenant(tenant, name, repair=repair)
            try:
                verified[name] = _followed(console, name, events, tenant=tenant, cursor=cursor, quiet=as_json)
            except KeyboardInterrupt:
                _cancel(client, name, tenant)
                raise
    if as_json:
        output.print_json(verified)
    else:
        console.print(output.verification_table(verified))
    if any(
        counts["missing"] + counts["stale"] + counts["orphaned"] > counts["repaired"] for counts in verified.values()
    ):
        raise typer.Exit(DIFFERS)


def _cancel(client: CliClient, name: str, tenant: str | None) -> None:
    """Cancel a comparison, as its owner."""
    from contextlib import suppress

    from shared.domain.errors import ForeaskError

    if tenant is None:
        with suppress(ForeaskError):
            client.cancel_verification(name)


def _names(client: CliClient, tenant: str | None) -> list[str]:
    if tenant is None:
        return [each.name for each in client.collections()]
    return [each["name"] for each in client.tenant_collections(tenant)]


def _followed(
    console: Console, name: str, events: Iterator[Event], *, tenant: str | None, cursor: str | None, quiet: bool
) -> dict[str, Any]:
    """Follow one comparison until it is done, and return its counts and findings."""
    from contextlib import nullcontext

    from cli.output import say
    from shared.domain.errors import Unavailable

    findings: list[dict[str, Any]] = []
    with nullcontext() if quiet else console.status(f"{name}: comparing") as status:
        for event in events:
            if event.name == "finding":
                findings.append(event.data)
                if not quiet:
                    say(console, _line(event.data))
            elif event.name == "progress":
                cursor = event.data.get("cursor")
                if status:
                    status.update(f"{name}: {_progress(event.data)}")
            elif event.name == "error":
                failed = event.data.get("component") == "worker"
                again = _again(name, tenant, cursor if failed else None)
                raise Unavailable(f"{event.data.get('detail', '')} {again}".strip(), component="api")
            elif event.name == "done":
                return event.data | {"findings": findings}
    raise Unavailable(f"The server closed the connection. {_again(name, tenant, None)}", component="api")


def _progress(data: dict[str, Any]) -> str:
    if data.get("state") == "queued":
        return "queued: it waits for an index worker"
    return f"{data['documents']:,} documents, {data['points']:,} points"


def _again(name: str, tenant: str | None, cursor: str | None) -> str:
    position = "" if cursor is None else f" --cursor {cursor}"
    owner = "" if tenant is None else f" --tenant {tenant}"
    return f"Continue with the same options: foreask verify -c {name}{owner}{position}"


def _line(finding: dict[str, Any]) -> str:
    repaired = ", repaired" if finding["repaired"] else ""
    finding_text = f"point {finding['point_id']}  document {finding['document_id']}"
    return f"{finding['kind']:<8}  {finding_text}  {finding['reason']}{repaired}"
