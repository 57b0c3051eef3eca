"""Builds: another one of a collection is filled beside the live one, follows it and takes its place.

A build is a row of `collections` with documents of its own, so all that is done for a collection is done for it. Its
documents are copies of the live build's rows: their bytes are there, and their questions are paid for where prompt and
chunk are the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Row, RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.builds import Build, BuildDifferences, BuildProgress, BuildState
from shared.domain.errors import Conflict, NotFound
from shared.domain.records import CollectionOptions, DocumentState
from shared.ledger import following, states, tallies
from shared.ledger.collections import Collections, options_json, options_of
from shared.ledger.database import Database, again_after_collision

_SLICE = 500  # documents of one transaction: a twentieth of a second
_MOST_OPEN = 2_000  # documents of a build in work: others of the tenant must not wait behind a whole corpus
_MOST_BUILDS = 3  # beside those that are being dropped: the live one, one before it and one to come

# Lock the builds of a collection, for who changes which there are.
_LOCK = text(f"""
    SELECT 1 FROM collections WHERE tenant = :tenant AND name = :name ORDER BY {states.is_live()} DESC, build FOR UPDATE
""")

# List the builds of a collection in order of their numbers.
_LIST = text("SELECT * FROM collections WHERE tenant = :tenant AND name = :name ORDER BY build")

# Read one build.
_GET = text("SELECT * FROM collections WHERE tenant = :tenant AND name = :name AND build = :number")

# Make a build, which has no document yet.
_BEGIN = text(f"""
    INSERT INTO collections
        (id, tenant, name, build, build_state, filled_until, options, embedding_model, index_name)
    VALUES (:id, :tenant, :name, :number, {states.BEGIN_BUILD.target()}, '', CAST(:options AS jsonb), :embedding_model,
            :index_name)
    RETURNING *
""")

# Stop the fill of a build.
_PAUSE = text(f"UPDATE collections SET {states.PAUSE_FILL.sets()} WHERE id = :id RETURNING *")

# Go on with the fill of a build.
_RESUME = text(f"UPDATE collections SET {states.RESUME_FILL.sets()} WHERE id = :id RETURNING *")

# Find a build that is being filled.
_FIND_FILLING = text(f"""
    SELECT id, tenant, name FROM collections WHERE {states.END_FILL.applies()} ORDER BY random() LIMIT 1
""")

# Lock a build that is still being filled, if no other process fills it.
_LOCK_FILLING = text(f"""
    SELECT filled_until FROM collections WHERE id = :id AND {states.END_FILL.applies()} FOR NO KEY UPDATE SKIP LOCKED
""")

# Lock the next documents of the live build. Nobody edits or deletes them until their copies are there.
_LOCK_SOURCE = text(f"""
    SELECT d.id, d.external_id FROM documents d
    WHERE d.collection_id = :live AND {states.exists("d")} AND d.external_id > :after
    ORDER BY d.external_id LIMIT :limit FOR SHARE
""")

# Write down how far the fill of a build has come.
_FILLED_UNTIL = text("UPDATE collections SET filled_until = :until WHERE id = :id")

# End the fill of a build: it has every document.
_END_FILL = text(f"UPDATE collections SET filled_until = NULL, {states.END_FILL.sets()} WHERE id = :id")

# Say how many documents of each state some builds of a tenant have.
_COUNTS = text(f"""
    SELECT part, state, sum(rows)::bigint AS rows FROM {tallies.of_tenant("documents")} t
    WHERE part = ANY(CAST(:ids AS text[])) AND {states.exists()} GROUP BY part, state HAVING sum(rows) <> 0
""")

_IN_WORK = frozenset((*states.TO_PARSE, *states.OPEN_DOCUMENTS))

_NEWEST = f"""
    SELECT d.external_id, d.public_id, v.upload, v.content_hash
    FROM documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    WHERE {states.exists("d")}"""

# List documents that one build has and the other lacks.
_LACKED = text(f"""
    SELECT d.external_id FROM documents d
    WHERE d.collection_id = :one AND {states.exists("d")}
      AND NOT EXISTS (SELECT 1 FROM documents o WHERE o.collection_id = :other AND o.external_id = d.external_id
                                                  AND {states.exists("o")})
    ORDER BY d.external_id LIMIT :limit
""")

# List documents of which two builds have other content.
_STALE = text(f"""
    SELECT b.external_id
    FROM ({_NEWEST} AND d.collection_id = :one) b JOIN ({_NEWEST} AND d.collection_id = :other) l
      ON l.external_id = b.external_id
    WHERE (b.upload, b.content_hash, b.public_id) <> (l.upload, l.content_hash, l.public_id)
    ORDER BY b.external_id LIMIT :limit
""")


class Builds:
    """The builds of all collections; `collections` names their indexes."""

    def __init__(self, database: Database, collections: Collections) -> None:
        self._database = database
        self._collections = collections

    @again_after_collision
    async def begin(self, tenant: str, name: str, *, options: CollectionOptions, embedding_model: str) -> Build:
        """Make a build beside the live one. From now on it follows what changes; `fill` copies what is there.

        Raises:
            NotFound: the tenant has no collection of that name.
            Conflict: another build is to take the live one's place, or there are too many.
        """
        async with self._database.begin() as connection:
            rows = await _locked(connection, tenant, name)
            _require_room(rows)
            parameters = {
                "id": uuid4(),
                "tenant": tenant,
                "name": name,
                "number": max(row["build"] for row in rows) + 1,
                "options": json.dumps(options_json(options)),
                "embedding_model": embedding_model,
                "index_name": self._collections.index_name(embedding_model),
            }
            return build_of((await connection.execute(_BEGIN, parameters)).mappings().one())

    async def list(self, tenant: str, name: str) -> list[Build]:
        """Return the builds of a collection in order of their numbers.

        Raises:
            NotFound: the tenant has no collection of that name.
        """
        async with self._database.begin() as connection:
            rows = (await connection.execute(_LIST, {"tenant": tenant, "name": name})).mappings().all()
        if not rows:
            raise _no_collection(name)
        return [build_of(row) for row in rows]

    async def get(self, tenant: str, name: str, number: int) -> Build:
        """Return one build.

        Raises:
            NotFound: the collection has no build of that number.
        """
        async with self._database.begin() as connection:
            parameters = {"tenant": tenant, "name": name, "number": number}
            row = (await connection.execute(_GET, parameters)).mappings().one_or_none()
        if row is None:
            raise _no_build(name, number)
        return build_of(row)

    @again_after_collision
    async def pause(self, tenant: str, name: str, number: int) -> Build:
        """Copy nothing to a build until it is resumed; it follows what changes all the same.

        Raises:
            NotFound: the collection has no build of that number.
            Conflict: the build is not being filled.
        """
        async with self._database.begin() as connection:
            row = _require(await _locked(connection, tenant, name), number, BuildState.FILLING, BuildState.PAUSED)
            if row["build_state"] != BuildState.PAUSED:
                row = (await connection.execute(_PAUSE, {"id": row["id"]})).mappings().one()
            return build_of(row)

    @again_after_collision
    async def resume(self, tenant: str, name: str, number: int) -> Build:
        """Go on with the fill of a build that was paused.

        Raises:
            NotFound: the collection has no build of that number.
            Conflict: the build is not paused.
        """
        async with self._database.begin() as connection:
            row = _require(await _locked(connection, tenant, name), number, BuildState.FILLING, BuildState.PAUSED)
            if row["build_state"] != BuildState.FILLING:
                row = (await connection.execute(_RESUME, {"id": row["id"]})).mappings().one()
            return build_of(row)

    async def progress(self, build: Build) -> BuildProgress:
        """Return how many documents a build has, in which states, and how many the live one has."""
        async with self._database.begin() as connection:
            parameters = {"tenant": build.tenant, "name": build.name}
            rows = (await connection.execute(_LIST, parameters)).mappings().all()
            live = next(row["id"] for row in rows if row["build_state"] == BuildState.LIVE)
            counts = await _counts(connection, build.tenant, [build.id, live])
        documents = {DocumentState(state): count for state, count in counts[build.id].items()}
        return BuildProgress(sum(documents.values()), documents, sum(counts[live].values()))

    async def differences(self, build: Build, limit: int = 100) -> BuildDifferences:
        """Compare the documents of a build with those of the live one.

        Returns:
            At most `limit` external ids of each kind; none where the build can take the live one's place.
        """
        async with self._database.begin() as connection:
            rows = await connection.execute(_LIST, {"tenant": build.tenant, "name": build.name})
            live = next(row["id"] for row in rows.mappings() if row["build_state"] == BuildState.LIVE)
            this = {"one": build.id, "other": live, "limit": limit}
            missing = (await connection.execute(_LACKED, this | {"one": live, "other": build.id})).scalars().all()
            stale = (await connection.execute(_STALE, this)).scalars().all()
            orphaned = (await connection.execute(_LACKED, this)).scalars().all()
        return BuildDifferences(missing, stale, orphaned)

    @again_after_collision
    async def fill(self) -> bool:
        """Copy some documents of a live build to one that is being filled; return whether more may wait.

        A build whose documents are in work waits until most of them have ended.
        """
        async with self._database.begin() as connection:
            build = (await connection.execute(_FIND_FILLING)).one_or_none()
            if build is None:
                return False
            counts = (await _counts(connection, build.tenant, [build.id]))[build.id]
            room = _MOST_OPEN - sum(count for state, count in counts.items() if state in _IN_WORK)
            return room > 0 and await _fill_slice(connection, build, min(_SLICE, room))


async def _fill_slice(connection: AsyncConnection, build: Row[Any], limit: int) -> bool:
    await following.hold(connection, build.tenant, build.name)
    after = (await connection.execute(_LOCK_FILLING, {"id": build.id})).scalar_one_or_none()
    if after is None:
        return False
    live, *_ = await following.builds_of(connection, build.tenant, build.name)
    parameters = {"live": live["id"], "after": after, "limit": limit}
    locked = (await connection.execute(_LOCK_SOURCE, parameters)).all()
    if locked:
        await following.follow(connection, build.id, [row.id for row in locked])
    if len(locked) == limit:
        await connection.execute(_FILLED_UNTIL, {"id": build.id, "until": locked[-1].external_id})
    else:
        await connection.execute(_END_FILL, {"id": build.id})
    return True


def build_of(row: RowMapping) -> Build:
    return Build(
        id=row["id"],
        tenant=row["tenant"],
        name=row["name"],
        number=row["build"],
        state=BuildState(row["build_state"]),
        options=options_of(row["options"]),
        embedding_model=row["embedding_model"],
        index_name=row["index_name"],
        created_at=row["created_at"],
        live_until=row["live_until"],
    )


async def _locked(connection: AsyncConnection, tenant: str, name: str) -> Sequence[RowMapping]:
    """Lock the builds of a collection, so that nobody writes a document meanwhile."""
    parameters = {"tenant": tenant, "name": name}
    await connection.execute(_LOCK, parameters)
    rows = (await connection.execute(_LIST, parameters)).mappings().all()  # one may have begun while this waited
    if not rows:
        raise _no_collection(name)
    return rows


async def _counts(connection: AsyncConnection, tenant: str, ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    counts: dict[UUID, dict[str, int]] = {i: {} for i in ids}
    parameters: dict[str, Any] = {"tenant": tenant, "ids": list(map(str, ids))}
    for row in await connection.execute(_COUNTS, parameters):
        counts[UUID(row.part)][row.state] = row.rows
    return counts


def _require_room(rows: Sequence[RowMapping]) -> None:
    """Raise `Conflict` where a collection may not have another build."""
    others = [row for row in rows if row["build_state"] in states.FOLLOWERS]
    for row in others:
        if row["live_until"] is None:
            raise Conflict(f"The build {row['build']} is {row['build_state']}: switch to it or drop it first.")
    if len(others) >= _MOST_BUILDS - 1:
        numbers = ", ".join(str(row["build"]) for row in others)
        raise Conflict(f"The collection has as many builds as it may have: drop one of {numbers} first.")


def _require(rows: Sequence[RowMapping], number: int, *wanted: BuildState) -> RowMapping:
    """Return the build of a number, in one of these states.

    Raises:
        NotFound: there is no such build.
        Conflict: it is in another state.
    """
    row = next((row for row in rows if row["build"] == number), None)
    if row is None:
        raise _no_build(rows[0]["name"], number)
    if row["build_state"] not in wanted:
        raise Conflict(f"The build {number} is {row['build_state']}, and not {' or '.join(wanted)}.")
    return row


def _no_collection(name: str) -> NotFound:
    return NotFound(f"There is no collection '{name}'. GET /v1/collections lists those that exist.")


def _no_build(name: str, number: int) -> NotFound:
    return NotFound(
        f"There is no build {number} of '{name}'. GET /v1/collections/{name}/builds lists those that exist."
    )
