"""Builds: a second build of a collection is filled next to the live one, follows it and can replace it.

A build is a row of `collections` with its own documents, so every operation on a collection works on a build. Its
documents are copies of the live build's rows: their bytes exist already, and their questions are paid if prompt and
chunk are the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Row, RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.builds import Build, BuildDifferences, BuildProgress, BuildState
from shared.domain.collections import Collection, CollectionOptions
from shared.domain.errors import Conflict, NotFound
from shared.domain.states import DocumentState
from shared.ledger.builds import comparison
from shared.ledger.documents import build_sync, versions
from shared.ledger.model import counters, states
from shared.ledger.model.collections import Collections, collection_of, options_json, options_of
from shared.ledger.postgres.database import Database, again_after_collision

_SLICE = 500  # documents of one transaction: a twentieth of a second
# documents of a build that are processed concurrently: the tenant's other work must not wait for a whole corpus
_MOST_OPEN = 2_000
# The API caches a collection for 5 s, and a query that takes longer than 30 s checks again which build is live.
_STILL_IN_MIND = timedelta(minutes=1)
_MOST_BUILDS = 3  # in addition to builds that are being dropped: the live one, its predecessor and its successor

# A collection that is being erased has no live build, and its other builds are invisible.
_IS_THERE = f"""EXISTS (
    SELECT 1 FROM collections l WHERE l.tenant = :tenant AND l.name = :name AND {states.is_live("l")})"""

# List the builds of a collection in order of their numbers.
_LIST = text(f"SELECT * FROM collections WHERE tenant = :tenant AND name = :name AND {_IS_THERE} ORDER BY build")

# Read one build.
_GET = text(f"""
    SELECT * FROM collections WHERE tenant = :tenant AND name = :name AND build = :number AND {_IS_THERE}
""")

# Insert a build without documents.
_BEGIN = text(f"""
    INSERT INTO collections
        (id, tenant, name, build, build_state, filled_until, options, embedding_model, index_name)
    VALUES (:id, :tenant, :name, :number, {states.BEGIN_BUILD.target()}, '', CAST(:options AS jsonb), :embedding_model,
            :index_name)
    RETURNING *
""")

# Record at the live build whether other builds follow it. If none does, uploads need not read other rows.
_MARK_FOLLOWED = text(f"""
    UPDATE collections SET followed = EXISTS (
        SELECT 1 FROM collections o
        WHERE o.tenant = :tenant AND o.name = :name AND {states.build_is_in(states.FOLLOWERS, "o")})
    WHERE tenant = :tenant AND name = :name AND {states.is_live()}
""")

# Stop the fill of a build.
_PAUSE = text(f"UPDATE collections SET {states.PAUSE_FILL.sets()} WHERE id = :id RETURNING *")

# Go on with the fill of a build.
_RESUME = text(f"UPDATE collections SET {states.RESUME_FILL.sets()} WHERE id = :id RETURNING *")

# Find a build that is being filled.
_FIND_FILLING = text(f"""
    SELECT id, tenant, name FROM collections WHERE {states.END_FILL.applies()} ORDER BY random() LIMIT 1
""")

# Lock a build that is being filled, unless another process fills it.
_LOCK_FILLING = text(f"""
    SELECT filled_until FROM collections WHERE id = :id AND {states.END_FILL.applies()} FOR NO KEY UPDATE SKIP LOCKED
""")

# List the next documents of the live build.
_SLICE_OF_LIVE = text(f"""
    SELECT d.id, d.external_id FROM documents d
    WHERE d.collection_id = :live AND {states.exists("d")} AND d.external_id > :after
    ORDER BY d.external_id LIMIT :limit
""")

# Lock the remaining documents in the lock order of all writers, so that none is edited or deleted before it is copied.
_LOCK_SOURCE = text(f"""
    SELECT id FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) AND {states.exists()} ORDER BY id FOR SHARE
""")

# Record the progress of a fill.
_FILLED_UNTIL = text("UPDATE collections SET filled_until = :until WHERE id = :id")

# End the fill of a build: it has every document.
_END_FILL = text(f"UPDATE collections SET filled_until = NULL, {states.END_FILL.sets()} WHERE id = :id")

# Retire the live build. Cached queries may still use it for a while. The transaction may have waited for its locks.
_SWITCH_FROM = text(f"""
    UPDATE collections SET {states.SWITCH_FROM.sets()}, live_until = clock_timestamp()
    WHERE tenant = :tenant AND name = :name AND {states.is_live()}
""")

# Make a build visible to queries.
_SWITCH_TO = text(f"UPDATE collections SET {states.SWITCH_TO.sets()}, live_until = NULL WHERE id = :id RETURNING *")

# Mark a build for deletion.
_DROP = text(f"UPDATE collections SET {states.DROP_BUILD.sets()}, filled_until = NULL WHERE id = :id RETURNING *")

# Lock a build to delete if no query or upload can have it cached any more.
_LOCK_DROPPING = text(f"""
    SELECT id FROM collections
    WHERE {states.is_dropping()} AND emptied_at IS NULL
      AND (live_until IS NULL OR live_until <= now() - CAST(:after AS interval))
    ORDER BY random() LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
""")

# Give documents of a build up. Its accepted questions go with their rows.
_DELETE_DOCUMENTS = text(f"""
    UPDATE documents d SET {states.DELETE.sets()}, {versions.NEXT}, {versions.DUE_AGAIN}
    WHERE d.id = ANY(ARRAY(
        SELECT id FROM documents WHERE collection_id = :id AND {states.exists()} LIMIT :limit FOR UPDATE))
    RETURNING d.id
""")

# Delete the rows of a build's documents whose versions are deleted. Their points are deleted together with the build.
_DELETE_ROWS = text(f"""
    DELETE FROM documents WHERE id = ANY(ARRAY(
        SELECT d.id FROM documents d
        WHERE d.collection_id = :id AND NOT ({states.exists("d")})
          AND NOT EXISTS (SELECT 1 FROM document_versions v WHERE v.document_id = d.id)
        LIMIT :limit))
    RETURNING id
""")

# Write down that a build has no document left.
_EMPTIED = text("""
    UPDATE collections SET emptied_at = now()
    WHERE id = :id AND NOT EXISTS (SELECT 1 FROM documents WHERE collection_id = :id)
    RETURNING id
""")

# List builds without documents and without possible writers.
_LIST_EMPTIED = text("SELECT * FROM collections WHERE emptied_at <= now() - CAST(:after AS interval)")

# Reassign a deleted build's costs to its collection.
_BEAR_CHANGES = text("UPDATE spent_changes SET collection_id = :live WHERE collection_id = :id")
_BEAR_COSTS = text("""
    WITH gone AS (DELETE FROM spent_by_day WHERE tenant = :tenant AND collection_id = :id RETURNING *)
    INSERT INTO spent_by_day AS d (tenant, collection_id, kind, model, day, prompt_tokens, completion_tokens, calls)
    SELECT tenant, :live, kind, model, day, prompt_tokens, completion_tokens, calls FROM gone
    ON CONFLICT (tenant, collection_id, kind, model, day) DO UPDATE
    SET prompt_tokens = d.prompt_tokens + excluded.prompt_tokens,
        completion_tokens = d.completion_tokens + excluded.completion_tokens, calls = d.calls + excluded.calls
""")

# Delete a build that has no document and no point left.
_FORGET = text(f"DELETE FROM collections WHERE id = :id AND {states.is_dropping()}")

# Store the gate's report of a build.
_SAVE_GATE = text("UPDATE collections SET gate = CAST(:report AS jsonb) WHERE id = :id")

# Count the documents of some builds of a tenant by state.
_COUNTS = text(f"""
    SELECT part, state, sum(rows)::bigint AS rows FROM {counters.of_tenant("documents")} t
    WHERE part = ANY(CAST(:ids AS text[])) AND {states.exists()} GROUP BY part, state HAVING sum(rows) <> 0
""")

_IN_WORK = frozenset((*states.TO_PARSE, *states.OPEN_DOCUMENTS))


class Builds:
    """The builds of all collections; `collections` names their indexes."""

    def __init__(self, database: Database, collections: Collections) -> None:
        self._database = database
        self._collections = collections

    @again_after_collision
    async def begin(self, tenant: str, name: str, *, options: CollectionOptions, embedding_model: str) -> Build:
        """Create a build next to the live one. It follows all changes from now on; `fill` copies existing documents.

        Raises:
            NotFound: the tenant has no collection of that name.
            Conflict: another build is about to replace the live one, or there are too many.
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
            row = (await connection.execute(_BEGIN, parameters)).mappings().one()
            await connection.execute(_MARK_FOLLOWED, {"tenant": tenant, "name": name})
            return build_of(row)

    async def list(self, tenant: str, name: str) -> Sequence[Build]:
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

    async def collection(self, build: Build) -> Collection:
        """Return a build as a collection, for searches in it and for its verification.

        Raises:
            NotFound: the build does not exist any more.
        """
        async with self._database.begin() as connection:
            parameters = {"tenant": build.tenant, "name": build.name, "number": build.number}
            row = (await connection.execute(_GET, parameters)).mappings().one_or_none()
        if row is None or row["id"] != build.id:
            raise _no_build(build.name, build.number)
        return collection_of(row)

    @again_after_collision
    async def pause(self, tenant: str, name: str, number: int) -> Build:
        """Pause the fill of a build until it is resumed. The build still follows changes.

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

    @again_after_collision
    async def switch(self, tenant: str, name: str, number: int) -> Build:
        """Make another build live from the next query on.

        The previous build follows it, so that a switch back is possible.

        The switch waits for running uploads, and later uploads wait for it: some milliseconds. The caller decides
        whether the build is good enough.

        Raises:
            NotFound: the collection has no build of that number.
            Conflict: the build is not completely filled, or it is being dropped.
        """
        async with self._database.begin() as connection:
            row = _require(await _locked(connection, tenant, name), number, BuildState.FOLLOWING, BuildState.LIVE)
            if row["build_state"] != BuildState.LIVE:
                await build_sync.come_to_newest(connection, row["id"])
                await connection.execute(_SWITCH_FROM, {"tenant": tenant, "name": name})
                row = (await connection.execute(_SWITCH_TO, {"id": row["id"]})).mappings().one()
                await connection.execute(_MARK_FOLLOWED, {"tenant": tenant, "name": name})
            return build_of(row)

    @again_after_collision
    async def drop(self, tenant: str, name: str, number: int) -> Build:
        """Delete a build that is not live. It follows no changes from now on.

        Its documents are deleted in slices, at the earliest a minute after it was live.

        Raises:
            NotFound: the collection has no build of that number.
            Conflict: the build is live.
        """
        async with self._database.begin() as connection:
            wanted = (*states.FOLLOWERS, BuildState.DROPPING)
            row = _require(await _locked(connection, tenant, name), number, *wanted)
            if row["build_state"] != BuildState.DROPPING:
                row = (await connection.execute(_DROP, {"id": row["id"]})).mappings().one()
                await connection.execute(_MARK_FOLLOWED, {"tenant": tenant, "name": name})
            return build_of(row)

    async def save_gate(self, build: Build, report: Mapping[str, Any]) -> None:
        """Store the gate's report of a build."""
        async with self._database.begin() as connection:
            await connection.execute(_SAVE_GATE, {"id": build.id, "report": json.dumps(report)})

    async def progress(self, build: Build) -> BuildProgress:
        """Return the numbers of documents by state, of a build and of the live one.

        Raises:
            NotFound: the collection is being erased.
        """
        async with self._database.begin() as connection:
            live = await _live_id(connection, build)
            counts = await _counts(connection, build.tenant, [build.id, live])
        documents = {DocumentState(state): count for state, count in counts[build.id].items()}
        return BuildProgress(sum(documents.values()), documents, sum(counts[live].values()))

    async def differences(self, build: Build, limit: int = 100) -> BuildDifferences:
        """Compare the documents of a build with those of the live one, in slices; each document is read at one moment.

        Returns:
            At most `limit` external ids of each kind; empty lists if the build can replace the live one.

        Raises:
            NotFound: the collection is being erased.
        """
        async with self._database.begin() as connection:
            live = await _live_id(connection, build)
        found = BuildDifferences([], [], [])
        async for part in comparison.slices(self._database, live, build.id):
            for names, more in zip(found.kinds, (part.missing, part.stale, part.orphaned), strict=True):
                names.extend(more[: limit - len(names)])
        return found

    @again_after_collision
    async def fill(self) -> bool:
        """Copy some documents of a live build to a build that is being filled; return whether more may be left.

        The fill waits while many documents of the build are processed.
        """
        async with self._database.begin() as connection:
            build = (await connection.execute(_FIND_FILLING)).one_or_none()
            if build is None:
                return False
            counts = (await _counts(connection, build.tenant, [build.id]))[build.id]
            room = _MOST_OPEN - sum(count for state, count in counts.items() if state in _IN_WORK)
            return room > 0 and await _fill_slice(connection, build, min(_SLICE, room))

    @again_after_collision
    async def delete_documents(self) -> bool:
        """Delete some documents of a build that is being dropped; return whether more may be left.

        Their chunks, versions and bytes are deleted like those of other deleted documents.
        """
        async with self._database.begin() as connection:
            found = (await connection.execute(_LOCK_DROPPING, {"after": _STILL_IN_MIND})).scalar_one_or_none()
            return found is not None and await _delete_slice(connection, found)

    async def emptied(self, after: timedelta) -> Sequence[Build]:
        """Return builds that are being dropped and have had no document for so long: their points may go."""
        async with self._database.begin() as connection:
            return [build_of(row) for row in (await connection.execute(_LIST_EMPTIED, {"after": after})).mappings()]

    @again_after_collision
    async def forget(self, build: Build) -> None:
        """Delete the row of a build without documents and points, and charge its costs to the live build."""
        async with self._database.begin() as connection:
            scope = {"tenant": build.tenant, "name": build.name}
            await build_sync.lock(connection, **scope)
            rows = (await connection.execute(_LIST, scope)).mappings().all()
            live = next((row["id"] for row in rows if row["build_state"] == BuildState.LIVE), None)
            if live is not None:  # otherwise the collection is being erased, and its costs keep its id
                await connection.execute(_BEAR_CHANGES, {"id": build.id, "live": live})
                await connection.execute(_BEAR_COSTS, {"tenant": build.tenant, "id": build.id, "live": live})
            await counters.forget(connection, build.tenant, build.id)
            await connection.execute(_FORGET, {"id": build.id})


async def _delete_slice(connection: AsyncConnection, build_id: UUID) -> bool:
    slice_ = {"id": build_id, "limit": _SLICE}
    abandoned = (await connection.execute(_DELETE_DOCUMENTS, slice_)).scalars().all()
    if abandoned:
        await versions.supersede(connection, abandoned)
        return True
    if (await connection.execute(_DELETE_ROWS, slice_)).all():
        return True
    return bool((await connection.execute(_EMPTIED, {"id": build_id})).all())  # another build may wait


async def _fill_slice(connection: AsyncConnection, build: Row[Any], limit: int) -> bool:
    await build_sync.hold(connection, build.tenant, build.name)
    after = (await connection.execute(_LOCK_FILLING, {"id": build.id})).scalar_one_or_none()
    if after is None:
        return False
    live, *_ = await build_sync.builds_of(connection, build.tenant, build.name)
    parameters = {"live": live["id"], "after": after, "limit": limit}
    slice_ = (await connection.execute(_SLICE_OF_LIVE, parameters)).all()
    if slice_:
        locked = await connection.execute(_LOCK_SOURCE, {"ids": [row.id for row in slice_]})
        await build_sync.follow(connection, build.id, locked.scalars().all())
    if len(slice_) == limit:
        await connection.execute(_FILLED_UNTIL, {"id": build.id, "until": slice_[-1].external_id})
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
        gate=row["gate"],
    )


async def _locked(connection: AsyncConnection, tenant: str, name: str) -> Sequence[RowMapping]:
    """Lock the builds of a collection, so that no document is written concurrently."""
    parameters = {"tenant": tenant, "name": name}
    await build_sync.lock(connection, tenant, name)
    # another build may have been created while this waited
    rows = (await connection.execute(_LIST, parameters)).mappings().all()
    if not rows:
        raise _no_collection(name)
    return rows


async def _live_id(connection: AsyncConnection, build: Build) -> UUID:
    """Return the id of the live build of a build's collection.

    Raises:
        NotFound: the collection is being erased.
    """
    rows = await connection.execute(_LIST, {"tenant": build.tenant, "name": build.name})
    for row in rows.mappings():
        if row["build_state"] == BuildState.LIVE:
            live: UUID = row["id"]
            return live
    raise _no_collection(build.name)


async def _counts(connection: AsyncConnection, tenant: str, ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    counts: dict[UUID, dict[str, int]] = {i: {} for i in ids}
    parameters: dict[str, Any] = {"tenant": tenant, "ids": list(map(str, ids))}
    for row in await connection.execute(_COUNTS, parameters):
        counts[UUID(row.part)][row.state] = row.rows
    return counts


def _require_room(rows: Sequence[RowMapping]) -> None:
    """Raise `Conflict` if a collection cannot have another build."""
    others = [row for row in rows if row["build_state"] in states.FOLLOWERS]
    for row in others:
        if row["live_until"] is None:
            raise Conflict(f"The build {row['build']} is {row['build_state']}: switch to it or drop it first.")
    if len(others) >= _MOST_BUILDS - 1:
        numbers = ", ".join(str(row["build"]) for row in others)
        raise Conflict(f"The collection has as many builds as it may have: drop one of {numbers} first.")


def _require(rows: Sequence[RowMapping], number: int, *wanted: BuildState) -> RowMapping:
    """Return the build of a number in one of these states.

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
