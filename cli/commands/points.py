"""Commands for the points in Qdrant. They need the ledger and Qdrant, but no server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from features.verification.unowned_points import UnownedPoints

UNOWNED = 4  # exit code
_SHOWN = 20

points = typer.Typer(help="Maintain the points in Qdrant; needs the ledger and Qdrant, but no server.")


@points.callback()
def group() -> None:
    """Keep `check` a command of its own."""


def register(app: typer.Typer) -> None:
    app.add_typer(points, name="points", no_args_is_help=True)


@points.command()
def check(
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the points whose document is not in the ledger.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """List points whose document is not in the ledger, in all Qdrant collections of the ledger and the settings.

    `foreask verify` compares the points of the documents that the ledger has.

    Exit code: 0 if there are none or all were deleted, otherwise 4.
    """
    import asyncio

    if delete and not yes:
        typer.confirm("Delete all points that FOREASK_DATABASE_URL does not know?", abort=True)
    left = asyncio.run(_print_all(delete=delete))
    if left:
        raise typer.Exit(UNOWNED)


async def _print_all(*, delete: bool) -> int:
    """Print the points of each Qdrant collection, and return the number of unowned points that remain."""
    left = 0
    async for found in _checked(delete=delete):
        count = sum(found.unowned.values())
        for owner, number in sorted(found.unowned.items(), key=str)[:_SHOWN]:
            ids = f"tenant {owner.tenant}  collection {owner.collection_id}  document {owner.document_id}"
            print(f"{found.index_name}  {ids}  {number:,} points")
        if len(found.unowned) > _SHOWN:
            print(f"and points of {len(found.unowned) - _SHOWN:,} more documents")
        print(
            f"{found.index_name}: {found.points:,} points, {count:,} of them without a document;"
            f" {found.deleted:,} deleted"
        )
        left += count - found.deleted
    return left


async def _checked(*, delete: bool) -> AsyncIterator[UnownedPoints]:
    from contextlib import AsyncExitStack

    from features.verification.unowned_points import PointCheck
    from shared.ledger.documents.audit import Audit
    from shared.ledger.model.collections import Collections
    from shared.services.parts import Parts
    from shared.settings import load

    async with AsyncExitStack() as stack:
        parts = Parts(load(), stack)
        point_check = PointCheck(parts.index, parts.ledger[Audit])
        configured = {parts.index_names.for_embedding(name) for name in parts.embeddings}
        for name in sorted({*await parts.ledger[Collections].index_names(), *configured}):
            yield await point_check.run(name, delete=delete)
