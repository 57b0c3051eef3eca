"""Commands for the store of uploads. They need the ledger and the store, but no server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shared.ledger.documents.documents import StoredVersion
    from shared.maintenance.orphans import StoreInventory

MISSING = 4  # exit code
_SHOWN = 20

uploads = typer.Typer(help="Maintain the store of uploads; needs the ledger and the store, but no server.")


def register(app: typer.Typer) -> None:
    app.add_typer(uploads, name="uploads", no_args_is_help=True)


@uploads.command()
def check(
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete all objects that are due, regardless of their number.")
    ] = False,
) -> None:
    """List objects that no document needs, and documents whose object is missing.

    The objects are deleted a day after the first check, unless there are too many. Upload the documents again: this
    stores their bytes, and changes nothing else.

    Exit code: 0 if no object is missing, otherwise 4.
    """
    import asyncio

    from shared.maintenance.orphans import APART

    inventory, lost = asyncio.run(_inventory(delete=delete))
    for name in sorted(inventory.orphans)[:_SHOWN]:
        due = "due" if name in inventory.due else f"due from {inventory.orphans[name] + APART:%Y-%m-%d %H:%M} UTC"
        print(f"{name}  {due}")
    if len(inventory.orphans) > _SHOWN:
        print(f"and {len(inventory.orphans) - _SHOWN:,} more")
    print(
        f"{inventory.files:,} files; {len(inventory.orphans):,} that no document needs,"
        f" {len(inventory.due):,} of them due; {inventory.deleted:,} deleted"
    )
    if inventory.too_many and not delete:
        print(
            "Too many are due, so the scheduler deletes none: does FOREASK_DATABASE_URL belong to this store?"
            " If so, `foreask uploads check --delete` deletes them."
        )
    for version in lost:
        print(f"missing  {version.tenant}  {version.collection}  {version.external_id}")
    if lost:
        print(f"{len(lost):,} documents have no file here: upload them again.")
        raise typer.Exit(MISSING)


@uploads.command()
def adopt() -> None:
    """Assign the store to this deployment, even if it is marked as another deployment's."""
    import asyncio

    asyncio.run(_adopt())
    print("The store of uploads belongs to the deployment of this ledger.")


async def _inventory(*, delete: bool) -> tuple[StoreInventory, list[StoredVersion]]:
    from contextlib import AsyncExitStack

    from shared.services.parts import Parts
    from shared.settings import load

    async with AsyncExitStack() as stack:
        orphans = Parts(load(), stack).orphans
        inventory = await (orphans.tidy(confirmed=True) if delete else orphans.count())
        return inventory, [version async for version in orphans.lost()]


async def _adopt() -> None:
    from contextlib import AsyncExitStack

    from shared.services.parts import Parts
    from shared.settings import load

    async with AsyncExitStack() as stack:
        await Parts(load(), stack).uploads.adopt()
