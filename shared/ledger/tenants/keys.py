"""API keys. The ledger stores their hashes, from which no key can be recovered."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from shared.domain.access.keys import Key, KeyLimits, KeySpecification
from shared.domain.errors import Conflict, NotFound
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.records import record

_MOST = 1_000  # of a tenant, including recently ended ones
_REMEMBERED = timedelta(days=90)  # after a key has ended: for so long the log's names can be looked up
_USE_EVERY = timedelta(minutes=1)

SQL = statements.load(__file__)


class Keys:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def make(self, new: KeySpecification, sha256: bytes, prefix: str | None = None) -> Key:
        """Insert a key by its hash and its first characters.

        Raises:
            Conflict: the tenant has a key of that name, or the maximum number of keys.
        """
        parameters = {
            "id": uuid4(),
            "tenant": new.tenant,
            "name": new.name,
            "sha256": sha256,
            "key_prefix": prefix,
            "scopes": sorted(new.scopes),
            "filter": None if new.filter is None else json.dumps(new.filter),
            "limits": _limits_json(new.limits),
            "lasts": new.lasts,
        }
        async with self._database.begin() as connection:
            await connection.execute(SQL.lock, {"tenant": new.tenant})
            await connection.execute(SQL.delete_ended, {"tenant": new.tenant, "age": _REMEMBERED})
            count: int = (await connection.execute(SQL.count, {"tenant": new.tenant})).scalar_one()
            if count >= _MOST:
                raise Conflict(f"There are {_MOST:,} keys already, including keys that ended in the last 90 days.")
            row = (await connection.execute(SQL.insert, parameters)).one_or_none()
        if row is None:
            raise Conflict(f"There is a key '{new.name}' already: revoke it, or choose another name.", field="name")
        return _key_of(row)

    async def find(self, hashes: Collection[bytes]) -> Mapping[bytes, Key]:
        """Return existing keys by their hashes, including revoked and expired ones."""
        return {row["sha256"]: _key_of(row) for row in await self._database.rows(SQL.find, {"hashes": list(hashes)})}

    async def page(self, tenant: str, *, after: tuple[datetime, UUID] | None = None, limit: int = 50) -> Sequence[Key]:
        """List a tenant's keys, newest first, including recently ended ones."""
        at, last = after or (None, None)
        parameters = {"tenant": tenant, "at": at, "after": last, "limit": limit}
        return [_key_of(row) for row in await self._database.rows(SQL.page, parameters)]

    async def change(self, tenant: str, key_id: UUID, changed: Callable[[Key], Key]) -> Key:
        """Change the limits and the end of a key; each process of the API uses them within five seconds.

        Args:
            tenant: tenant of the key.
            key_id: id of the key.
            changed: returns the key with other limits or another end, and may refuse the change. Its key is locked.

        Raises:
            NotFound: the tenant has no key of that id.
            Conflict: the key was revoked or has expired.
        """
        async with self._database.begin() as connection:
            row = (await connection.execute(SQL.lock_one, {"tenant": tenant, "id": key_id})).one_or_none()
            if row is None:
                raise _missing(key_id)
            key = _key_of(row)
            if why := key.ended:
                raise Conflict(f"The key '{key.name}' {why}: create another one.")
            new = changed(key)
            parameters = {"id": key_id, "limits": _limits_json(new.limits), "expires_at": new.expires_at}
            return _key_of((await connection.execute(SQL.change, parameters)).one())

    async def revoke(self, tenant: str, key_id: UUID, allow: Callable[[Key], None] = lambda _: None) -> None:
        """Revoke a key; each process of the API refuses it within five seconds.

        Args:
            tenant: tenant of the key.
            key_id: id of the key.
            allow: raises an error to refuse the revocation of a key.

        Raises:
            NotFound: the tenant has no key of that id.
        """
        async with self._database.begin() as connection:
            parameters = {"tenant": tenant, "id": key_id}
            row = (await connection.execute(SQL.lock_one, parameters)).one_or_none()
            if row is None:
                raise _missing(key_id)
            allow(_key_of(row))
            await connection.execute(SQL.revoke, parameters)

    async def record_use(self, ids: Collection[UUID]) -> None:
        """Record that keys were used; at most once a minute for each key."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.record_use, {"ids": list(ids), "every": _USE_EVERY})


def _missing(key_id: UUID) -> NotFound:
    return NotFound(f"There is no key {key_id}. GET /v1/keys lists the keys.")


def _limits_json(limits: KeyLimits) -> str:
    return json.dumps({name: limit for name, limit in asdict(limits).items() if limit is not None})


def _key_of(row: Row) -> Key:
    return record(Key, row, prefix=row["key_prefix"])
