"""Sources of collections: add, list, change and remove them, and list the ones whose sync is due.

A removed source is hidden at once. `continue_removal` deletes its items, and its documents if they are to be deleted,
in slices.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from features.sources.domain import (
    LookupState,
    NewSource,
    SourceChanges,
    SourceDefinition,
    SourceState,
    SyncState,
    require_schedule,
)
from features.sources.ledger import syncs
from features.sources.ledger.schedules import next_time
from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, InvalidInput
from shared.domain.jobs import JobState
from shared.ledger.documents import build_sync
from shared.ledger.documents.documents import delete_named
from shared.ledger.jobs import job_claims
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.postgres.records import record

_MOST = 1_000  # of a tenant
_SLICE = 200  # documents deleted in one transaction: a few statements each
_MOST_DUE = 100
_WITHOUT_TIME = timedelta(hours=1)  # until the next attempt to find a time of a schedule
_AFTER_FAILURE = timedelta(minutes=1)  # until the next attempt to start a sync

SQL = statements.load(__file__, states.FRAGMENTS)


class Sources:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, collection: Collection, new: NewSource) -> SourceDefinition:
        """Add a source to a collection. It is synced at the first time of its schedule, or on request.

        If documents of a removed source of the same name exist, its first sync adopts them.

        Raises:
            InvalidInput: the schedule or the time zone is invalid.
            Conflict: the tenant has a source of this name, or the maximum number of sources.
            NotFound: the collection is being erased.
        """
        scope = {"tenant": collection.tenant, "collection": collection.name}
        row = scope | _values(new) | {"id": uuid4(), "kind": new.kind, "name": new.name}
        async with self._database.begin() as connection:
            row["next_at"] = next_time(new.schedule, new.time_zone, await _now(connection))
            await build_sync.hold_live(connection, collection.tenant, collection.name)
            await _require_room(connection, collection.tenant, new.name)
            return definition_of((await connection.execute(SQL.insert, row)).one())

    async def page(
        self, tenant: str, *, collection: str | None = None, after: str = "", limit: int = 50
    ) -> list[SourceState]:
        """Return a tenant's sources in order of name, after `after`."""
        parameters = {"tenant": tenant, "collection": collection, "after": after, "limit": limit}
        async with self._database.begin() as connection:
            rows = (await connection.execute(SQL.page, parameters)).all()
            newest = await syncs.newest(connection, [row["id"] for row in rows])
        return [_state(row, newest) for row in rows]

    async def get(self, tenant: str, name: str) -> SourceState:
        """Return a source with its newest sync.

        Raises:
            NotFound: the tenant has no source of that name.
        """
        async with self._database.begin() as connection:
            found = await connection.execute(SQL.find, {"tenant": tenant, "name": name})
            row = found.one_or_none()
            if row is None:
                raise syncs.no_source(name)
            return _state(row, await syncs.newest(connection, [row["id"]]))

    async def change(
        self, tenant: str, name: str, changes: SourceChanges, *, confirmed: bool = False
    ) -> SourceDefinition:
        """Change a source; a running sync continues with the old values.

        Args:
            tenant: its tenant.
            name: its name.
            changes: new values.
            confirmed: whether the caller confirms that the next syncs may list other entries, and delete the documents
                of missing ones.

        Raises:
            NotFound: the tenant has no source of that name.
            InvalidInput: the schedule or the time zone is invalid.
            Conflict: the address or the options of a source with items change, except options without effect on the
                listing, and the caller has not confirmed it.
        """
        async with self._database.begin() as connection:
            old = definition_of(await _lock(connection, tenant, name))
            changed = _changed(old, changes)
            lists_others = (changed.uri, changed.listing_options) != (old.uri, old.listing_options)
            if lists_others and not confirmed:
                await _require_no_items(connection, old)
            next_at = next_time(changed.schedule, changed.time_zone, await _now(connection))
            row = _values(changed) | {"id": old.id, "next_at": next_at}
            return definition_of((await connection.execute(SQL.change, row)).one())

    async def remove(self, tenant: str, name: str, *, with_documents: bool) -> None:
        """Remove a source, with its documents or without them. Its open sync is cancelled.

        Its name can be used again when `continue_removal` has deleted its items.

        Raises:
            NotFound: the tenant has no source of that name.
        """
        async with self._database.begin() as connection:
            source = await _lock(connection, tenant, name)
            await connection.execute(SQL.mark_removed, {"id": source["id"], "with_documents": with_documents})
            await connection.execute(SQL.end_waiting, {"tenant": tenant, "key": str(source["id"])})
            for job_id in (await connection.execute(SQL.open_jobs, {"id": source["id"]})).scalars():
                await job_claims.cancel(connection, job_id)

    async def by_id(self, source_id: UUID) -> SourceDefinition | None:
        """Return a source; None if it was removed."""
        rows = await self._database.rows(SQL.by_id, {"id": source_id})
        return definition_of(rows[0]) if rows else None

    @again_after_collision
    async def continue_removal(self) -> bool:
        """Delete some items of a removed source, with their documents if requested; return whether any was left."""
        async with self._database.begin() as connection:
            row = (await connection.execute(SQL.lock_removed)).one_or_none()
            if row is None:
                return False
            source = definition_of(row)
            keys = (await connection.execute(SQL.first_keys, {"id": source.id, "limit": _SLICE})).scalars()
            if not keys:
                await connection.execute(SQL.delete, {"id": source.id})
            elif row["removed_with_documents"]:
                await delete_named(connection, source.tenant, source.collection, list(map(source.external_id, keys)))
            await connection.execute(SQL.delete_items, {"id": source.id, "keys": list(keys)})
        return True

    async def due(self) -> Sequence[SourceDefinition]:
        """Return sources whose next scheduled sync is due."""
        return [definition_of(row) for row in await self._database.rows(SQL.due, {"limit": _MOST_DUE})]

    async def schedule_next(self, source: SourceDefinition, error: str | None = None) -> None:
        """Record the next time of a source whose sync was due. Several missed times lead to one sync.

        If no time can be found, because this host does not have the time zone, another attempt follows in an hour.

        Args:
            source: the source.
            error: why the due sync was not started.
        """
        async with self._database.begin() as connection:
            now = await _now(connection)
            try:
                next_at = next_time(source.schedule, source.time_zone, now)
            except InvalidInput as without_time:
                next_at, error = now + _WITHOUT_TIME, without_time.message
            await connection.execute(SQL.schedule, _due(source) | {"next_at": next_at, "error": error})

    async def postpone(self, source: SourceDefinition, error: str) -> None:
        """Repeat the start of a due sync after a minute, because it failed with an error."""
        async with self._database.begin() as connection:
            next_at = await _now(connection) + _AFTER_FAILURE
            await connection.execute(SQL.schedule, _due(source) | {"next_at": next_at, "error": error})


def definition_of(row: Row) -> SourceDefinition:
    return SourceDefinition(**{name: row[name] for name in SourceDefinition.__dataclass_fields__})


def _state(row: Row, newest: Mapping[UUID, SyncState]) -> SourceState:
    lookup = None
    if row["lookup_state"] is not None:
        lookup = LookupState(
            JobState(row["lookup_state"]), row["lookup_waiting"], row["lookup_error"], ended_at=row["lookup_ended_at"]
        )
    return record(SourceState, row, definition=definition_of(row), newest=newest.get(row["id"]), lookup=lookup)


def _values(source: NewSource | SourceDefinition) -> dict[str, Any]:
    """Return the columns of a source that can change."""
    return {
        "uri": source.uri,
        "options": json.dumps(dict(source.options)),
        "secret_name": source.secret_name,
        "schedule": source.schedule,
        "time_zone": source.time_zone,
        "max_delete_share": source.max_delete_share,
    }


def _due(source: SourceDefinition) -> dict[str, Any]:
    """Return the parameters that select a source whose sync was due, unless its schedule has changed."""
    return {"id": source.id, "schedule": source.schedule}


async def _now(connection: Connection) -> datetime:
    """Return PostgreSQL's time, with which the times of schedules are compared later."""
    now: datetime = (await connection.execute(SQL.now)).scalar_one()
    return now


def _changed(old: SourceDefinition, changes: SourceChanges) -> SourceDefinition:
    given: dict[str, Any] = {name: getattr(changes, name) for name in SourceChanges.__dataclass_fields__}
    given = {name: value for name, value in given.items() if value is not None}
    for name in ("schedule", "secret_name"):
        if name in given:
            given[name] = given[name] or None
    require_schedule(old.kind, given.get("schedule"))
    return dataclasses.replace(old, **given)


async def _lock(connection: Connection, tenant: str, name: str) -> Row:
    row = (await connection.execute(SQL.lock, {"tenant": tenant, "name": name})).one_or_none()
    if row is None:
        raise syncs.no_source(name)
    return row


async def _require_room(connection: Connection, tenant: str, name: str) -> None:
    await connection.execute(SQL.lock_of_tenant, {"tenant": tenant})
    found = (await connection.execute(SQL.find_any, {"tenant": tenant, "name": name})).one_or_none()
    if found is not None and found.removing:
        raise Conflict(f"The source '{name}' is being removed: try again later, or use another name.", field="name")
    if found is not None:
        raise Conflict(f"There is a source '{name}' already: use another name, or change it.", field="name")
    if (await connection.execute(SQL.count, {"tenant": tenant})).scalar_one() >= _MOST:
        raise Conflict(f"This tenant has {_MOST:,} sources: remove some of them.")


async def _require_no_items(connection: Connection, source: SourceDefinition) -> None:
    if (await connection.execute(SQL.has_items, {"id": source.id})).scalar_one():
        raise Conflict(
            f"With another address or other options, the source '{source.name}' may list other entries, and documents"
            " of entries that it lacks are deleted later: confirm the change, or add another source.",
        )
