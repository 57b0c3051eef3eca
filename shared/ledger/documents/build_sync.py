"""Changes of the live build are applied to the collection's other builds in the same transaction.

The rule of all writers: lock the row of the live build (`FOR KEY SHARE`, as each new document does through its foreign
key), then read the other builds, and write to the live build first. A process that changes the set of builds locks all
rows `FOR UPDATE`, the live build's row first. Every writer therefore sees all builds, two writers of a document wait
for each other at its row in the live build, and no writer from before a switch runs concurrently with writers after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from shared.ledger.documents import versions
from shared.ledger.model import states
from shared.ledger.model.collections import no_collection
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.statements import Statement

SQL = statements.load(
    __file__, states.FRAGMENTS, content=versions.CONTENT, next_version=versions.NEXT, due_again=versions.DUE_AGAIN
)


async def follow_everywhere(connection: Connection, document_ids: Sequence[UUID]) -> None:
    """Update the copies of locked live documents in every other build; some of the documents may be deleted."""
    builds = (await connection.execute(SQL.other_builds, {"ids": list(document_ids)})).all()
    for row in builds:
        await follow(connection, row.build, row.ids)
    if builds:
        deleted = (await connection.execute(SQL.delete_copies, {"ids": list(document_ids)})).scalars()
        await versions.supersede(connection, deleted)
        await delete_questions(connection, deleted)


async def delete_questions(connection: Connection, documents: Sequence[UUID]) -> None:
    """Delete the accepted and the disabled questions of documents that are being deleted."""
    await connection.execute(SQL.delete_accepted, {"ids": list(documents)})
    await connection.execute(SQL.delete_disabled, {"ids": list(documents)})


async def lock(connection: Connection, tenant: str, name: str) -> None:
    """Lock the builds of a collection until the transaction ends, so that no document is written concurrently."""
    await _live_first(connection, SQL.lock_live, SQL.lock_all, {"tenant": tenant, "name": name})


async def hold(connection: Connection, tenant: str, name: str) -> None:
    """Keep the builds of a collection unchanged until the transaction ends."""
    await _live_first(connection, SQL.share_live, SQL.share_all, {"tenant": tenant, "name": name})


async def hold_live(connection: Connection, tenant: str, name: str) -> None:
    """Keep the builds of a collection unchanged, as `hold`, so that a concurrent erasure finds the written rows.

    Raises:
        NoCollection: there is no such collection.
    """
    await hold(connection, tenant, name)
    builds = await builds_of(connection, tenant, name)
    if not builds or not builds[0]["is_live"]:
        raise no_collection(tenant, name)


async def _live_first(connection: Connection, live: Statement, every: Statement, parameters: Mapping[str, str]) -> None:
    """Lock the live build of a collection, then the others.

    If a switch replaces the build while this waits for its lock, the lock is released. Otherwise two processes that
    wait for a lock, each holding a former live build, would deadlock.
    """
    while True:
        async with connection.savepoint() as undo:
            if (await connection.execute(live, parameters)).all():
                break
            await undo()
        if not (await connection.execute(SQL.find_live, parameters)).all():
            return
    await connection.execute(every, parameters)


async def builds_of(connection: Connection, tenant: str, name: str) -> list[Row]:
    """Return the builds of a collection that contain its documents, the live one first.

    A lock on a row of the collection must be held; otherwise another build may exist already.
    """
    return list(await connection.execute(SQL.builds, {"tenant": tenant, "name": name}))


async def live_of(connection: Connection, tenant: str, name: str) -> Row | None:
    """Return the live build of a collection, as `builds_of`; None if the collection is being erased."""
    builds = await builds_of(connection, tenant, name)
    return builds[0] if builds and builds[0]["is_live"] else None


async def follow(connection: Connection, build_id: UUID, document_ids: Sequence[UUID]) -> None:
    """Update a build's copies of these locked live documents; the build may lack some of them."""
    await connection.execute(SQL.insert_copies, {"build": build_id, "ids": list(document_ids)})
    await catch_up(connection, await lock_copies(connection, build_id, document_ids))


async def lock_copies(connection: Connection, build_id: UUID, document_ids: Sequence[UUID]) -> Sequence[UUID]:
    """Lock a build's copies of these locked live documents; return their ids."""
    return (await connection.execute(SQL.lock_copies, {"build": build_id, "ids": list(document_ids)})).scalars()


async def start_newest(connection: Connection, build_id: UUID) -> None:
    """Start the newest versions of documents of a build that is about to be live; all builds must be locked.

    Documents that first had to show the visible version continue with the newest at once, because a live build follows
    no other.
    """
    lagging = (await connection.execute(SQL.lagging, {"build": build_id})).scalars()
    if lagging:
        await connection.execute(SQL.lock_documents, {"ids": lagging})
        await catch_up(connection, lagging, newest=True)


async def catch_up(
    connection: Connection, copies: Sequence[UUID], *, failed: bool = False, newest: bool = False
) -> None:
    """Start the next versions of locked documents of other builds, if they need one.

    A document reaches the newest version through the version that queries see: if the newest one fails, both builds
    show the same. With `newest` it continues with the newest at once. `failed` documents have just failed: they
    continue with the newest version only.
    """
    lagging = (await connection.execute(SQL.next_versions, {"copies": list(copies), "newest": newest})).all()
    if failed:
        lagging = [row for row in lagging if row.newest]
    if not lagging:
        return
    ids = [row.id for row in lagging]
    parameters = {
        "copies": ids,
        "public_ids": [row.public_id for row in lagging],
        "sources": [row.source for row in lagging],
        "versions": [row.version for row in lagging],
    }
    await connection.execute(SQL.replace_copies, parameters)
    await versions.supersede(connection, ids)
