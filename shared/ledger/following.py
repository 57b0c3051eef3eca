"""What changes in the live build of a collection changes in its other builds too, in the same transaction.

The rule of all writers: they lock the row of the live build (`FOR KEY SHARE`, as each new document does by its foreign
key), then read which others there are, and write the live build first. Whoever changes which builds there are locks
all rows `FOR UPDATE`, that of the live build first. So nobody writes who knows fewer builds than there are, two writers
of a document meet at its row in the live build, and writers before a switch never meet those behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger import states, versions

# List the builds of a collection that have what its owner handed in, the live one first.
_BUILDS = text(f"""
    SELECT *, {states.is_live()} AS is_live FROM collections
    WHERE tenant = :tenant AND name = :name AND NOT {states.is_dropping()}
    ORDER BY {states.is_live()} DESC, build
""")

# Keep the builds of a collection as they are until the transaction ends.
_HOLD = text(f"""
    SELECT 1 FROM collections WHERE tenant = :tenant AND name = :name ORDER BY {states.is_live()} DESC, build
    FOR KEY SHARE
""")

# The documents of the live build that are copied, with their newest versions.
_SOURCE = f"""
    SELECT d.id AS source_id, d.version AS source_version, d.public_id, d.tenant, d.external_id, d.created_at,
           v.upload, v.content_hash
    FROM documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {states.exists("d")}"""

_COPY_CONTENT = f"""
    INSERT INTO document_versions (document_id, version, {versions.CONTENT})
    SELECT b.id, b.version, {versions.CONTENT}
    FROM begun b JOIN (SELECT external_id, source_id, source_version FROM source) s ON s.external_id = b.external_id
    JOIN document_versions v ON v.document_id = s.source_id AND v.version = s.source_version"""

# Give a build the documents that it lacks. Its work on them is behind that of uploads.
_INSERT = text(f"""
    WITH source AS ({_SOURCE}), begun AS (
        INSERT INTO documents (id, public_id, tenant, collection_id, external_id, version, lane, state, created_at)
        SELECT gen_random_uuid(), public_id, tenant, CAST(:build AS uuid), external_id, source_version, 1,
               {states.SUBMIT.target()}, created_at
        FROM source ORDER BY external_id
        ON CONFLICT (collection_id, external_id) WHERE {states.exists()} DO NOTHING
        RETURNING id, version, external_id
    )
    {_COPY_CONTENT}
""")

# Lock the documents of a build whose newest version has other content than that of the live one.
_LOCK_STALE = text(f"""
    WITH source AS ({_SOURCE})
    SELECT d.id FROM source s JOIN documents d ON d.external_id = s.external_id AND d.collection_id = :build
    JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    WHERE {states.exists("d")} AND (v.upload, v.content_hash, d.public_id) <> (s.upload, s.content_hash, s.public_id)
    ORDER BY d.id FOR UPDATE OF d
""")

# Begin the next version of these documents with the content that the live build's have.
_REPLACE = text(f"""
    WITH source AS ({_SOURCE}), begun AS (
        UPDATE documents d
        SET {states.REPLACE.sets()}, {versions.NEXT}, public_id = s.public_id, lane = 1, {versions.DUE_ANEW}
        FROM source s
        WHERE d.id = ANY(CAST(:stale AS uuid[])) AND d.external_id = s.external_id
        RETURNING d.id, d.version, d.external_id
    )
    {_COPY_CONTENT}
""")


# Find the other builds of the documents of live ones.
_FOLLOWERS = text(f"""
    SELECT b.id AS build, array_agg(d.id) AS ids
    FROM documents d JOIN collections l ON l.id = d.collection_id
    JOIN collections b ON b.tenant = l.tenant AND b.name = l.name
    WHERE d.id = ANY(CAST(:ids AS uuid[])) AND {states.build_is_in(states.FOLLOWERS, "b")}
    GROUP BY b.id, b.build ORDER BY b.build
""")

# Delete what other builds have of documents that the live one deletes. A version rises: a late writer of the last one
# is refused.
_DELETE = text(f"""
    UPDATE documents d SET {states.DELETE.sets()}, {versions.NEXT}, {versions.DUE_ANEW}
    FROM documents g
    WHERE g.id = ANY(CAST(:ids AS uuid[])) AND NOT ({states.exists("g")})
      AND d.public_id = g.public_id AND {states.exists("d")}
    RETURNING d.id
""")

# Delete the accepted questions of documents that are being deleted.
DELETE_ACCEPTED = text("DELETE FROM accepted_questions WHERE document_id = ANY(CAST(:ids AS uuid[]))")


async def follow_everywhere(connection: AsyncConnection, document_ids: Sequence[UUID]) -> None:
    """Make documents in every other build what these locked documents of live ones are: some may be deleted."""
    builds = (await connection.execute(_FOLLOWERS, {"ids": list(document_ids)})).all()
    for row in builds:
        await follow(connection, row.build, row.ids)
    if builds:
        deleted = (await connection.execute(_DELETE, {"ids": list(document_ids)})).scalars().all()
        await versions.supersede(connection, deleted)
        await connection.execute(DELETE_ACCEPTED, {"ids": deleted})


async def hold(connection: AsyncConnection, tenant: str, name: str) -> None:
    """Keep the builds of a collection as they are until the transaction ends."""
    await connection.execute(_HOLD, {"tenant": tenant, "name": name})


async def builds_of(connection: AsyncConnection, tenant: str, name: str) -> list[RowMapping]:
    """Return the builds of a collection that have its documents, the live one first.

    A lock on a row of the collection must be held: else one more may be there already.
    """
    return list((await connection.execute(_BUILDS, {"tenant": tenant, "name": name})).mappings())


async def follow(connection: AsyncConnection, build_id: UUID, document_ids: Sequence[UUID]) -> None:
    """Make documents of a build what these locked documents of the live one are; the build may lack them."""
    parameters = {"build": build_id, "ids": list(document_ids)}
    await connection.execute(_INSERT, parameters)
    stale = (await connection.execute(_LOCK_STALE, parameters)).scalars().all()
    if stale:
        await connection.execute(_REPLACE, parameters | {"stale": stale})
        await versions.supersede(connection, stale)
