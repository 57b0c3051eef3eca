"""Commands of an operator about Qdrant itself. They need Qdrant, but no server and no ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from shared.vectors.administration import StoredCollection

qdrant = typer.Typer(
    help="Show the collections of Qdrant, and make snapshots; needs Qdrant, but no server.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    app.add_typer(qdrant, name="qdrant")


@qdrant.command("list")
def list_(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON, with all names.")] = False
) -> None:
    """List this deployment's collections in Qdrant, with their status, points, shards, aliases and snapshots.

    Aliases and snapshots are counted on the first address of FOREASK_QDRANT_URL. A dash: the server lacks this
    function, as the embedded engine does.
    """
    import asyncio
    from dataclasses import asdict

    from cli.connection import console_of
    from cli.output import print_json
    from cli.tables import Table

    found = asyncio.run(_collections())
    if as_json:
        print_json([asdict(each) for each in found])
        return
    table = Table("collection", "status", "points", "segments", "shards", "aliases", "snapshots", whole=("collection",))
    for each in found:
        named = ("-" if names is None else f"{len(names):,}" for names in (each.aliases, each.snapshots))
        shards = "-" if each.shards is None else f"{each.shards:,}"
        table.add_row(each.name, each.status, f"{each.points:,}", f"{each.segments:,}", shards, *named)
    console_of().print(table)


@qdrant.command()
def snapshot() -> None:
    """Make a snapshot of each of this deployment's collections, on every address of FOREASK_QDRANT_URL.

    A node's snapshot has the shards of that node. Qdrant stores it in its own folder of snapshots.
    """
    import asyncio

    asyncio.run(_snapshot_all())


async def _collections() -> list[StoredCollection]:
    from contextlib import aclosing

    from shared.settings import load
    from shared.vectors.administration import QdrantNode

    settings = load()
    async with aclosing(QdrantNode(settings.qdrant_addresses()[0], settings.qdrant_api_key)) as node:
        return await node.collections(f"{settings.qdrant_prefix}-")


async def _snapshot_all() -> None:
    from contextlib import aclosing

    from shared.settings import load
    from shared.vectors.administration import QdrantNode

    settings = load()
    for url in settings.qdrant_addresses():
        async with aclosing(QdrantNode(url, settings.qdrant_api_key)) as node:
            for each in await node.collections(f"{settings.qdrant_prefix}-"):
                made = await node.snapshot(each.name)
                print(f"{url}  {each.name}  {made.name}  {made.size_bytes:,} bytes", flush=True)
