"""The commands that erase, and prove it. They need the ledger, the engines and the store, and no server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.domain.erasures import Erasure
    from shared.ledger.erasure.erasures import Erasures
    from shared.maintenance.erasure_check import Finding, Scope

REMAINS = 1  # exit code

erase_app = typer.Typer(help="Delete with everything that was derived; needs the ledger, and no server.")

Tenant = Annotated[str, typer.Option("--tenant", help="Whose it is.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Ask nobody.")]


def register(app: typer.Typer) -> None:
    app.add_typer(erase_app, name="erase")


@erase_app.callback(invoke_without_command=True)
def check(
    context: typer.Context,
    *,
    check: Annotated[bool, typer.Option("--check", help="Say what is left, and delete nothing.")] = False,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Whose it was.")] = None,
    collection: Annotated[str | None, typer.Option("--collection", help="Of this tenant.")] = None,
    document: Annotated[UUID | None, typer.Option("--document", help="The id of a document.")] = None,
) -> None:
    """Delete a tenant, a collection or a document with everything that was derived, or say what is left of one.

    With `--check` the exit code is 1 where anything is left. It looks into PostgreSQL, Qdrant, Valkey and the store of
    uploads, not into backups.
    """
    if context.invoked_subcommand is not None:
        return
    if not check:
        raise typer.BadParameter("Name what to erase (tenant, collection, document), or --check.")
    import asyncio

    from shared.maintenance.erasure_check import Scope

    findings = asyncio.run(_checked(Scope(tenant, collection, document)))
    for finding in findings:
        print(f"{finding.engine:12}{finding.part:40}{finding.count:>10,}")
    left = sum(finding.count for finding in findings)
    print(f"{left:,} found. Backups were not looked at.")
    if left:
        raise typer.Exit(REMAINS)


@erase_app.command("tenant")
def erase_tenant(name: Annotated[str, typer.Argument(help="The tenant.")], *, yes: Yes = False) -> None:
    """Delete all that a tenant has, with what it has cost. Until then its uploads are refused."""
    _confirm(f"Erase all that {name} has?", yes=yes)
    _begin(tenant=name)


@erase_app.command("collection")
def erase_collection(
    name: Annotated[str, typer.Argument(help="The collection.")], *, tenant: Tenant = "default", yes: Yes = False
) -> None:
    """Delete a collection. Until then uploads to that name are refused."""
    _confirm(f"Erase the collection {name} of {tenant}?", yes=yes)
    _begin(tenant=tenant, collection=name)


@erase_app.command("document")
def erase_document(
    document_id: Annotated[UUID, typer.Argument(help="The document's id.")], *, yes: Yes = False
) -> None:
    """Delete a document; the same content may be handed in again at once, and is paid for again."""
    _confirm(f"Erase the document {document_id}?", yes=yes)
    _begin(document=document_id)


def _confirm(question: str, *, yes: bool) -> None:
    if not yes:
        typer.confirm(question, abort=True)


def _begin(*, tenant: str = "", collection: str | None = None, document: UUID | None = None) -> None:
    import asyncio

    erasure = asyncio.run(_begun(tenant, collection, document))
    count = erasure.deleted.get("documents", 0)
    print(f"erasure {erasure.id}: {count:,} documents are being deleted by the scheduler, in a minute at the earliest")


async def _begun(tenant: str, collection: str | None, document: UUID | None) -> Erasure:
    from contextlib import AsyncExitStack

    from shared.services.parts import Parts
    from shared.settings import load

    async with AsyncExitStack() as stack:
        erasures: Erasures = Parts(load(), stack).ledger.erasures
        return await (erasures.begin(tenant, collection) if document is None else erasures.begin_document(document))


async def _checked(scope: Scope) -> Sequence[Finding]:
    from contextlib import AsyncExitStack

    from shared.services.parts import Parts
    from shared.settings import load

    async with AsyncExitStack() as stack:
        return await Parts(load(), stack).erasure_check.run(scope)
