"""Changes of the live build are applied to the collection's other builds in the same transaction.

The rule of all writers: lock the row of the live build (`FOR KEY SHARE`, as each new document does through its foreign
key), then read the other builds, and write to the live build first. A process that changes the set of builds locks all
rows `FOR UPDATE`, the live build's row first. Every writer therefore sees all builds, two writers of a document meet at
its row in the live build, and writers before a switch never meet writers after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.documents import versions
from shared.ledger.model import states

# List the builds of a collection that contain its submitted documents, the live one first.
_BUILDS = text(f"""
    SELECT *, {states.is_live()} AS is_live FROM collections
    WHERE tenant = :tenant AND name = :name AND NOT {states.is_dropping()}
    ORDER BY {states.is_live()} DESC, build
""")

_OF_NAME = "SELECT 1 FROM collections WHERE tenant = :tenant AND name = :name"

# Find a collection, unless it is being erased: then none of its builds is live, nor will be.
_EXISTS = text(f"{_OF_NAME} AND {states.is_live()}")

# Lock the live build of a collection for a change of the set of builds; return no row if it was replaced meanwhile.
_LOCK_LIVE = text(f"{_OF_NAME} AND {states.is_live()} FOR UPDATE")

# Lock all builds of a collection.
_LOCK_ALL = text(f"{_OF_NAME} ORDER BY build FOR UPDATE")

# Keep the live build of a collection as it is; return none if it was replaced meanwhile.
_HOLD_LIVE = text(f"{_OF_NAME} AND {states.is_live()} FOR KEY SHARE")

# Keep all builds of a collection as they are.
_HOLD_ALL = text(f"{_OF_NAME} ORDER BY build FOR KEY SHARE")

# Insert the documents that a build lacks, in the version that queries see, because the newest one may fail. The build's
# work on them comes after uploads.
_INSERT = text(f"""
    WITH source AS (
        SELECT *, coalesce(live_version, version) AS source_version FROM documents
        WHERE id = ANY(CAST(:ids AS uuid[])) AND {states.exists()}
    ), begun AS (
        INSERT INTO documents (id, public_id, tenant, collection_id, external_id, version, lane, state, created_at)
        SELECT gen_random_uuid(), public_id, tenant, CAST(:build AS uuid), external_id, source_version, 1,
               {states.SUBMIT.target()}, created_at
        FROM source ORDER BY external_id
        ON CONFLICT (collection_id, external_id) WHERE {states.exists()} DO NOTHING
        RETURNING id, version, external_id
    )
    INSERT INTO document_versions (document_id, version, {versions.CONTENT})
    SELECT b.id, b.version, {versions.CONTENT}
    FROM begun b JOIN (SELECT id, external_id, source_version FROM source) s ON s.external_id = b.external_id
    JOIN document_versions v ON v.document_id = s.id AND v.version = s.source_version
""")

# Lock a build's copies of documents of the live one.
_LOCK_COPIES = text(f"""
    SELECT o.id FROM documents d JOIN documents o ON o.external_id = d.external_id AND o.collection_id = :build
    WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {states.exists("d")} AND {states.exists("o")}
    ORDER BY o.id FOR UPDATE OF o
""")

# Find the next versions of documents of other builds, if these differ from their newest ones: first the version that
# queries see in the live build, unless they have shown it or failed at it, then the newest version; or the newest
# version at once.
_BEHIND = text(f"""
    SELECT o.id, d.id AS source, d.public_id, w.version, w.version = d.version AS newest
    FROM documents o JOIN collections b ON b.id = o.collection_id
    JOIN collections l ON l.tenant = b.tenant AND l.name = b.name
    JOIN documents d ON d.collection_id = l.id AND d.external_id = o.external_id
    JOIN document_versions ov ON ov.document_id = o.id AND ov.version = o.version
    LEFT JOIN document_versions ol ON ol.document_id = o.id AND ol.version = o.live_version
    LEFT JOIN document_versions dl ON dl.document_id = d.id AND dl.version = d.live_version
    CROSS JOIN LATERAL (
        SELECT CASE WHEN NOT CAST(:newest AS boolean) AND dl.upload IS NOT NULL AND ol.upload IS DISTINCT FROM dl.upload
                         AND NOT ({states.has_failed("o")} AND ov.upload = dl.upload)
               THEN d.live_version ELSE d.version END AS version) w
    JOIN document_versions v ON v.document_id = d.id AND v.version = w.version
    WHERE o.id = ANY(CAST(:copies AS uuid[])) AND {states.exists("o")} AND {states.exists("d")}
      AND {states.build_is_in(states.FOLLOWERS, "b")} AND {states.is_live("l")}
      AND (v.upload, d.public_id) <> (ov.upload, o.public_id)
""")

# List documents in progress of a build whose newest content differs from the live build's.
_LAGGING = text(f"""
    SELECT o.id
    FROM documents o JOIN document_versions ov ON ov.document_id = o.id AND ov.version = o.version
    JOIN collections b ON b.id = o.collection_id
    JOIN collections l ON l.tenant = b.tenant AND l.name = b.name AND {states.is_live("l")}
    JOIN documents d ON d.collection_id = l.id AND d.external_id = o.external_id
    JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    WHERE o.collection_id = :build AND {states.is_in((*states.TO_PARSE, *states.OPEN_DOCUMENTS), "o")}
      AND {states.exists("d")} AND (v.upload, d.public_id) <> (ov.upload, o.public_id)
""")

# Lock documents in the lock order of all writers.
_LOCK_DOCUMENTS = text("SELECT id FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR UPDATE")

# Start the next versions of documents with the content of these versions of the live build.
_REPLACE = text(f"""
    WITH next AS (
        SELECT * FROM unnest(CAST(:copies AS uuid[]), CAST(:public_ids AS uuid[]), CAST(:sources AS uuid[]),
                             CAST(:versions AS int[])) AS n(id, public_id, source, source_version)
    ), begun AS (
        UPDATE documents d
        SET {states.REPLACE.sets()}, {versions.NEXT}, public_id = n.public_id, lane = 1, {versions.DUE_AGAIN}
        FROM next n WHERE d.id = n.id
        RETURNING d.id, d.version, n.source, n.source_version
    )
    INSERT INTO document_versions (document_id, version, {versions.CONTENT})
    SELECT b.id, b.version, {versions.CONTENT}
    FROM begun b JOIN document_versions v ON v.document_id = b.source AND v.version = b.source_version
""")

# Find the other builds of the documents of live ones.
_FOLLOWERS = text(f"""
    SELECT b.id AS build, array_agg(d.id) AS ids
    FROM documents d JOIN collections l ON l.id = d.collection_id
    JOIN collections b ON b.tenant = l.tenant AND b.name = l.name
    WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {states.build_is_in(states.FOLLOWERS, "b")}
    GROUP BY b.id, b.build ORDER BY b.build
""")

# Delete the copies in other builds of documents that the live one deletes. The version number rises, so that late
# writers are rejected.
_DELETE = text(f"""
    UPDATE documents d SET {states.DELETE.sets()}, {versions.NEXT}, {versions.DUE_AGAIN}
    FROM documents g
    WHERE g.id = ANY(CAST(:ids AS uuid[])) AND NOT ({states.exists("g")})
      AND d.public_id = g.public_id AND {states.exists("d")}
    RETURNING d.id
""")

# Delete the accepted questions of documents that are being deleted.
DELETE_ACCEPTED = text("DELETE FROM accepted_questions WHERE document_id = ANY(CAST(:ids AS uuid[]))")


async def follow_everywhere(connection: AsyncConnection, document_ids: Sequence[UUID]) -> None:
    """Bring the copies of locked live documents in every other build in line; some may be deleted."""
    builds = (await connection.execute(_FOLLOWERS, {"ids": list(document_ids)})).all()
    for row in builds:
        await follow(connection, row.build, row.ids)
    if builds:
        deleted = (await connection.execute(_DELETE, {"ids": list(document_ids)})).scalars().all()
        await versions.supersede(connection, deleted)
        await connection.execute(DELETE_ACCEPTED, {"ids": deleted})


async def lock(connection: AsyncConnection, tenant: str, name: str) -> None:
    """Lock the builds of a collection until the transaction ends, so that no document is written concurrently."""
    await _live_first(connection, _LOCK_LIVE, _LOCK_ALL, {"tenant": tenant, "name": name})


async def hold(connection: AsyncConnection, tenant: str, name: str) -> None:
    """Keep the builds of a collection unchanged until the transaction ends."""
    await _live_first(connection, _HOLD_LIVE, _HOLD_ALL, {"tenant": tenant, "name": name})


async def _live_first(
    connection: AsyncConnection, live: TextClause, every: TextClause, parameters: Mapping[str, str]
) -> None:
    """Lock the live build of a collection, then the others.

    If a switch replaces the build while this waits for its lock, the lock is released. Otherwise two processes that
    wait for a lock, each holding a former live build, would deadlock.
    """
    while True:
        async with connection.begin_nested() as savepoint:
            if (await connection.execute(live, parameters)).all():
                break
            await savepoint.rollback()
        if not (await connection.execute(_EXISTS, parameters)).all():
            return
    await connection.execute(every, parameters)


async def builds_of(connection: AsyncConnection, tenant: str, name: str) -> list[RowMapping]:
    """Return the builds of a collection that contain its documents, the live one first.

    A lock on a row of the collection must be held; otherwise another build may exist already.
    """
    return list((await connection.execute(_BUILDS, {"tenant": tenant, "name": name})).mappings())


async def follow(connection: AsyncConnection, build_id: UUID, document_ids: Sequence[UUID]) -> None:
    """Bring a build's copies of these locked live documents in line; the build may lack some of them."""
    parameters = {"build": build_id, "ids": list(document_ids)}
    await connection.execute(_INSERT, parameters)
    await catch_up(connection, (await connection.execute(_LOCK_COPIES, parameters)).scalars().all())


async def come_to_newest(connection: AsyncConnection, build_id: UUID) -> None:
    """Start the newest versions of documents of a build that is about to be live; all builds must be locked.

    Documents that first had to show the visible version continue with the newest at once, because a live build follows
    no other.
    """
    lagging = (await connection.execute(_LAGGING, {"build": build_id})).scalars().all()
    if lagging:
        await connection.execute(_LOCK_DOCUMENTS, {"ids": lagging})
        await catch_up(connection, lagging, newest=True)


async def catch_up(
    connection: AsyncConnection, copies: Sequence[UUID], *, failed: bool = False, newest: bool = False
) -> None:
    """Start the next versions of locked documents of other builds, if they need one.

    A document reaches the newest version through the version that queries see: if the newest one fails, both builds
    show the same. With `newest` it continues with the newest at once. `failed` documents have just failed: they
    continue with the newest version only.
    """
    behind = (await connection.execute(_BEHIND, {"copies": list(copies), "newest": newest})).all()
    if failed:
        behind = [row for row in behind if row.newest]
    if not behind:
        return
    ids = [row.id for row in behind]
    parameters = {
        "copies": ids,
        "public_ids": [row.public_id for row in behind],
        "sources": [row.source for row in behind],
        "versions": [row.version for row in behind],
    }
    await connection.execute(_REPLACE, parameters)
    await versions.supersede(connection, ids)
