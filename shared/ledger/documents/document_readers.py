"""The readers of documents by their external ids: read and changed in slices, without versions or contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from shared.domain.access.persons import stored_readers
from shared.ledger.documents import build_sync, descriptions
from shared.ledger.model import states
from shared.ledger.model.collections import being_erased
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.database import Database

SQL = statements.load(__file__, states.FRAGMENTS)


async def read(
    database: Database, tenant: str, collection: str, external_ids: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return who reads the newest version of documents, as it is stored, by external id; without deleted documents."""
    if not external_ids:
        return {}
    parameters = {"tenant": tenant, "name": collection, "external_ids": list(external_ids)}
    return {row["external_id"]: tuple(row["readable_by"]) for row in await database.rows(SQL.read, parameters)}


async def change(
    connection: Connection, tenant: str, collection: str, readers: Mapping[str, Sequence[str]]
) -> Sequence[UUID]:
    """Change the readers of documents in every build, in the transaction of the caller.

    The live version of a document with a newer one, which is not complete, gets no reader that it did not have.

    Args:
        connection: transaction.
        tenant: tenant of the collection.
        collection: name of the collection.
        readers: new readers by external id; deleted documents are left out.

    Returns:
        The rows of the documents in all builds, whose points are outdated now.

    Raises:
        Conflict: the collection is being erased.
    """
    if not readers:
        return ()
    await build_sync.hold(connection, tenant, collection)
    builds = await build_sync.builds_of(connection, tenant, collection)
    if not builds or not builds[0]["is_live"]:
        raise being_erased(f"the collection '{collection}'")
    live, *others = (build["id"] for build in builds)
    locked = await connection.execute(SQL.lock, {"collection_id": live, "external_ids": list(readers)})
    groups = dict[tuple[str, ...], list[UUID]]()
    for row in locked.all():
        groups.setdefault(stored_readers(readers[row["external_id"]]), []).append(row["id"])
    changed = list[UUID]()
    for names, documents in groups.items():
        copies = [id_ for build in others for id_ in await build_sync.lock_copies(connection, build, documents)]
        await descriptions.restrict(connection, documents + copies, names, newest=True)
        changed += documents + copies
    return changed
