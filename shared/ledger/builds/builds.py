"""Builds: another build of a collection is filled next to the live build, follows its changes and can replace it.

A build is a row of `collections` with its own documents, so every operation on a collection works on a build. Its
documents are copies of the live build's rows: their bytes exist already, and their questions are paid if prompt and
chunk are the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Self
from uuid import UUID, uuid4

from shared.domain.corpus.builds import Build, BuildDifferences, BuildProgress, NumberedState
from shared.domain.corpus.collections import Collection, CollectionOptions
from shared.domain.errors import Conflict, NotFound
from shared.domain.states import BuildState, DocumentState
from shared.ledger.builds import comparison
from shared.ledger.documents import build_sync, versions
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import counters, states
from shared.ledger.model.collection_options import options_json, options_of
from shared.ledger.model.collections import Collections, collection_of, no_collection
from shared.ledger.model.decoding import decoded
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.postgres.records import record

_SLICE = 500  # documents of one transaction: a twentieth of a second
# documents of a build that are processed concurrently: the tenant's other work must not wait for a whole corpus
_MOST_OPEN = 2_000
# The API caches a collection for 5 s, and a query that takes longer than 30 s checks again which build is live.
_CACHED_FOR = timedelta(minutes=1)
_MOST_BUILDS = 3  # in addition to builds that are being dropped: the live one, its predecessor and its successor

SQL = statements.load(
    __file__,
    states.FRAGMENTS,
    next_version=versions.NEXT,
    due_again=versions.DUE_AGAIN,
    document_counts=counters.of_tenant("documents"),
)


_IN_WORK = frozenset(states.UNFINISHED_DOCUMENTS)


class Builds:
    """The builds of all collections; `collections` names their indexes."""

    def __init__(self, database: Database, collections: Collections) -> None:
        self._database = database
        self._collections = collections

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, Collections.of_process(database, terms))

    @again_after_collision
    async def start(self, tenant: str, name: str, *, options: CollectionOptions, embedding_model: str) -> Build:
        """Create a build next to the live one. It follows all changes from now on; `fill` copies existing documents.

        Raises:
            NoCollection: the tenant has no collection of that name.
            Conflict: another build is about to replace the live one, or there are too many.
        """
        async with self._database.begin() as connection:
            rows = await _locked(connection, tenant, name)
            _require_free_slot(rows)
            parameters = {
                "id": uuid4(),
                "tenant": tenant,
                "name": name,
                "number": max(row["build"] for row in rows) + 1,
                "options": json.dumps(options_json(options)),
                "embedding_model": embedding_model,
                "index_name": self._collections.index_name(embedding_model),
            }
            row = (await connection.execute(SQL.insert, parameters)).one()
            await connection.execute(SQL.mark_followed, {"tenant": tenant, "name": name})
            return build_of(row)

    async def list(self, tenant: str, name: str) -> Sequence[Build]:
        """Return the builds of a collection in order of their numbers.

        Raises:
            NoCollection: the tenant has no collection of that name.
        """
        async with self._database.begin() as connection:
            rows = (await connection.execute(SQL.list, {"tenant": tenant, "name": name})).all()
        if not rows:
            raise no_collection(tenant, name)
        return [build_of(row) for row in rows]

    async def states(self, tenant: str, names: Sequence[str]) -> Mapping[str, Sequence[NumberedState]]:
        """Return the builds of some collections with their states, in order of their numbers."""
        found: dict[str, list[NumberedState]] = {name: [] for name in names}
        for row in await self._database.rows(SQL.states, {"tenant": tenant, "names": list(names)}):
            found[row["name"]].append(NumberedState(row["build"], BuildState(row["build_state"])))
        return found

    async def get(self, tenant: str, name: str, number: int) -> Build:
        """Return one build.

        Raises:
            NotFound: the tenant has no collection of that name, or it has no build of that number.
        """
        async with self._database.begin() as connection:
            parameters = {"tenant": tenant, "name": name, "number": number}
            row = (await connection.execute(SQL.get, parameters)).one_or_none()
        if row is None:
            await self._collections.require(tenant, name)
            raise _no_build(name, number)
        return build_of(row)

    async def collection(self, build: Build) -> Collection:
        """Return a build as a collection, for searches in it and for its verification.

        Raises:
            NotFound: the build does not exist any more.
        """
        async with self._database.begin() as connection:
            parameters = {"tenant": build.tenant, "name": build.name, "number": build.number}
            row = (await connection.execute(SQL.get, parameters)).one_or_none()
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
                row = (await connection.execute(SQL.pause, {"id": row["id"]})).one()
            return build_of(row)

    @again_after_collision
    async def resume(self, tenant: str, name: str, number: int) -> Build:
        """Resume the fill of a build that was paused.

        Raises:
            NotFound: the collection has no build of that number.
            Conflict: the build is not paused.
        """
        async with self._database.begin() as connection:
            row = _require(await _locked(connection, tenant, name), number, BuildState.FILLING, BuildState.PAUSED)
            if row["build_state"] != BuildState.FILLING:
                row = (await connection.execute(SQL.resume, {"id": row["id"]})).one()
            return build_of(row)

    @again_after_collision
    async def switch(self, tenant: str, name: str, number: int) -> Build:
        """Make another build live from the next query on.

        The previous build follows it, so that a switch back is possible.

        The switch waits for running uploads, and later uploads wait for the switch, which takes some milliseconds. The
        caller must check whether the build is good enough.

        Raises:
            NotFound: the collection has no build of that number.
            Conflict: the build is not completely filled, or it is being dropped.
        """
        async with self._database.begin() as connection:
            row = _require(await _locked(connection, tenant, name), number, BuildState.FOLLOWING, BuildState.LIVE)
            if row["build_state"] != BuildState.LIVE:
                await build_sync.start_newest(connection, row["id"])
                replaced = await connection.execute(SQL.switch_from, {"tenant": tenant, "name": name})
                described = {"id": row["id"], "description": replaced.scalar_one()}
                row = (await connection.execute(SQL.switch_to, described)).one()
                await connection.execute(SQL.mark_followed, {"tenant": tenant, "name": name})
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
                row = (await connection.execute(SQL.drop, {"id": row["id"]})).one()
                await connection.execute(SQL.mark_followed, {"tenant": tenant, "name": name})
            return build_of(row)

    async def progress(self, build: Build) -> BuildProgress:
        """Return the numbers of documents by state, of a build and of the live one.

        Raises:
            NoCollection: the collection is being erased.
        """
        async with self._database.begin() as connection:
            live = await _live_id(connection, build)
            counts = await _counts(connection, build.tenant, [build.id, live])
        documents = {DocumentState(state): count for state, count in counts[build.id].items()}
        return BuildProgress(sum(documents.values()), documents, sum(counts[live].values()))

    async def differences(self, build: Build, limit: int = 100) -> BuildDifferences:
        """Compare the documents of a build with the documents of the live one, in slices, each document at one moment.

        Returns:
            At most `limit` external ids of each kind; empty lists if the build can replace the live one.

        Raises:
            NoCollection: the collection is being erased.
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
            build = (await connection.execute(SQL.find_filling)).one_or_none()
            if build is None:
                return False
            counts = (await _counts(connection, build.tenant, [build.id]))[build.id]
            free = _MOST_OPEN - sum(count for state, count in counts.items() if state in _IN_WORK)
            return free > 0 and await _fill_slice(connection, build, min(_SLICE, free))

    @again_after_collision
    async def delete_documents(self) -> bool:
        """Delete some documents of a build that is being dropped; return whether more may be left.

        Their chunks, versions and bytes are deleted like the data of other deleted documents.
        """
        async with self._database.begin() as connection:
            found = (await connection.execute(SQL.lock_dropping, {"after": _CACHED_FOR})).scalar_one_or_none()
            return found is not None and await _delete_slice(connection, found)

    async def emptied(self, after: timedelta) -> Sequence[Build]:
        """Return dropped builds that have had no document for this time, so that their points can be deleted."""
        async with self._database.begin() as connection:
            emptied = (await connection.execute(SQL.list_emptied, {"after": after})).all()
        return decoded("drop", build_of, emptied)

    @again_after_collision
    async def forget(self, build: Build) -> None:
        """Delete the row of a build without documents and points, and charge its costs to the live build."""
        async with self._database.begin() as connection:
            scope = {"tenant": build.tenant, "name": build.name}
            await build_sync.lock(connection, **scope)
            rows = (await connection.execute(SQL.list, scope)).all()
            live = next((row["id"] for row in rows if row["build_state"] == BuildState.LIVE), None)
            if live is not None:  # otherwise the collection is being erased, and its costs keep its id
                await connection.execute(SQL.move_cost_changes, {"id": build.id, "live": live})
                await connection.execute(SQL.move_costs, {"tenant": build.tenant, "id": build.id, "live": live})
            await counters.forget(connection, build.tenant, build.id)
            await connection.execute(SQL.delete, {"id": build.id})


async def _delete_slice(connection: Connection, build_id: UUID) -> bool:
    slice_ = {"id": build_id, "limit": _SLICE}
    abandoned = (await connection.execute(SQL.delete_documents, slice_)).scalars()
    if abandoned:
        await versions.supersede(connection, abandoned)
        return True
    if (await connection.execute(SQL.delete_document_rows, slice_)).all():
        return True
    return bool((await connection.execute(SQL.mark_emptied, {"id": build_id})).all())  # another build may wait


async def _fill_slice(connection: Connection, build: Row, limit: int) -> bool:
    await build_sync.hold(connection, build.tenant, build.name)
    after = (await connection.execute(SQL.lock_filling, {"id": build.id})).scalar_one_or_none()
    if after is None:
        return False
    live, *_ = await build_sync.builds_of(connection, build.tenant, build.name)
    parameters = {"live": live["id"], "after": after, "limit": limit}
    slice_ = (await connection.execute(SQL.live_documents, parameters)).all()
    if slice_:
        locked = await connection.execute(SQL.lock_source, {"ids": [row.id for row in slice_]})
        await build_sync.follow(connection, build.id, locked.scalars())
    if len(slice_) == limit:
        await connection.execute(SQL.save_fill_progress, {"id": build.id, "until": slice_[-1].external_id})
    else:
        await connection.execute(SQL.finish_fill, {"id": build.id})
    return True


def build_of(row: Row) -> Build:
    return record(Build, row, number=row["build"], state=row["build_state"], options=options_of(row["options"]))


async def _locked(connection: Connection, tenant: str, name: str) -> Sequence[Row]:
    """Lock the builds of a collection, so that no document is written concurrently."""
    parameters = {"tenant": tenant, "name": name}
    await build_sync.lock(connection, tenant, name)
    # another build may have been created while this waited
    rows = (await connection.execute(SQL.list, parameters)).all()
    if not rows:
        raise no_collection(tenant, name)
    return rows


async def _live_id(connection: Connection, build: Build) -> UUID:
    """Return the id of the live build of a build's collection.

    Raises:
        NoCollection: the collection is being erased.
    """
    rows = await connection.execute(SQL.list, {"tenant": build.tenant, "name": build.name})
    for row in rows:
        if row["build_state"] == BuildState.LIVE:
            live: UUID = row["id"]
            return live
    raise no_collection(build.tenant, build.name)


async def _counts(connection: Connection, tenant: str, ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    counts: dict[UUID, dict[str, int]] = {i: {} for i in ids}
    parameters: dict[str, Any] = {"tenant": tenant, "ids": list(map(str, ids))}
    for row in await connection.execute(SQL.counts, parameters):
        counts[UUID(row.part)][row.state] = row.rows
    return counts


def _require_free_slot(rows: Sequence[Row]) -> None:
    """Raise `Conflict` if a collection cannot have another build."""
    others = [row for row in rows if row["build_state"] in states.FOLLOWERS]
    for row in others:
        if row["live_until"] is None:
            raise Conflict(f"The build {row['build']} is {row['build_state']}: switch to it or drop it first.")
    if len(others) >= _MOST_BUILDS - 1:
        numbers = ", ".join(str(row["build"]) for row in others)
        raise Conflict(f"The collection has the maximum number of builds: drop one of {numbers} first.")


def _require(rows: Sequence[Row], number: int, *wanted: BuildState) -> Row:
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


def _no_build(name: str, number: int) -> NotFound:
    return NotFound(f"There is no build {number} of '{name}'. GET /v1/collections/{name}/builds lists the builds.")
