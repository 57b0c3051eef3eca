"""Unreferenced objects of the upload store: objects to delete, and packs to rewrite without some bytes.

A row exists from the transaction that makes an object unreferenced until the object is deleted, so a process that dies
in between leaves the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.documents.versions import STORED_IN
from shared.ledger.model import states
from shared.ledger.postgres.database import Database

# No transaction lasts longer than 20 s. After that, every copy of a part's old name is visible.
_COPIES_ARE_SEEN_AFTER = timedelta(seconds=30)
_AGAIN_AFTER = timedelta(minutes=1)

# List due objects, longest due first.
_DUE = text("SELECT name FROM outdated_objects WHERE due_at <= now() ORDER BY due_at LIMIT :limit")

# List the parts of an object that versions name.
_PARTS = text(f"SELECT DISTINCT upload FROM document_versions WHERE {STORED_IN} = :name ORDER BY upload")

# Lock the documents with bytes in an object in the lock order of all writers, so that no version with a copy of the
# name starts concurrently.
_LOCK_DOCUMENTS = text(f"""
    SELECT d.id, {states.is_in(states.TO_PARSE, "d")} AS to_parse FROM documents d
    WHERE d.id IN (SELECT v.document_id FROM document_versions v WHERE {STORED_IN} = :name)
    ORDER BY d.id FOR NO KEY UPDATE
""")

# Point versions to the new location of their bytes.
_RENAME = text(f"""
    UPDATE document_versions v SET upload = n.now
    FROM unnest(CAST(:before AS text[]), CAST(:now AS text[])) AS n(before, now)
    WHERE {STORED_IN} = :name AND v.upload = n.before
    RETURNING v.document_id
""")

# Look at an object again later.
_PUT_OFF = text("UPDATE outdated_objects SET due_at = now() + CAST(:after AS interval) WHERE name = :name")

# Lock the row of an object.
_LOCK = text("SELECT 1 FROM outdated_objects WHERE name = :name FOR UPDATE")

# Forget deleted objects.
_FORGET = text("DELETE FROM outdated_objects WHERE name = ANY(CAST(:names AS text[]))")


class OutdatedObjects:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, limit: int) -> Sequence[str]:
        """Return the names of due objects."""
        async with self._database.begin() as connection:
            return (await connection.execute(_DUE, {"limit": limit})).scalars().all()

    async def parts(self, name: str) -> Sequence[str]:
        """Return the uploads of an object that versions name; none: it can be removed."""
        async with self._database.begin() as connection:
            return (await connection.execute(_PARTS, {"name": name})).scalars().all()

    async def rename(self, name: str, renamed: Mapping[str, str]) -> bool:
        """Point versions to their bytes in a new pack; return whether any version changed.

        None changes while a document of the pack waits to be parsed, because a worker may be about to read the bytes by
        the old name. The old pack is due again when no version can name it any more.
        """
        async with self._database.begin() as connection:
            locked = await _lock_documents(connection, name)
            if any(row.to_parse for row in locked):
                await connection.execute(_PUT_OFF, {"name": name, "after": _AGAIN_AFTER})
                return False
            parameters = {"name": name, "before": list(renamed), "now": list(renamed.values())}
            changed = (await connection.execute(_RENAME, parameters)).all()
            await connection.execute(_PUT_OFF, {"name": name, "after": _COPIES_ARE_SEEN_AFTER})
            return bool(changed)

    async def forget_used(self, name: str, parts: Sequence[str]) -> None:
        """Forget an object without unused bytes, unless versions no longer name these parts alone.

        A version may have been deleted since its parts were read. The object is then looked at again, because no
        other row says that it has unused bytes.
        """
        async with self._database.begin() as connection:
            await connection.execute(_LOCK, {"name": name})  # a later deletion of a version waits, and inserts the row
            named = (await connection.execute(_PARTS, {"name": name})).scalars().all()
            if list(named) == list(parts):
                await connection.execute(_FORGET, {"names": [name]})

    async def put_off(self, name: str) -> None:
        """Look at an object again in a minute."""
        async with self._database.begin() as connection:
            await connection.execute(_PUT_OFF, {"name": name, "after": _AGAIN_AFTER})

    async def forget(self, names: Sequence[str]) -> None:
        """Forget deleted objects."""
        async with self._database.begin() as connection:
            await connection.execute(_FORGET, {"names": list(names)})


async def _lock_documents(connection: AsyncConnection, name: str) -> Sequence[Row[Any]]:
    """Lock the documents with bytes in an object, including copies that started while this waited for their sources."""
    locked: Sequence[Row[Any]] = ()
    while True:
        found = (await connection.execute(_LOCK_DOCUMENTS, {"name": name})).all()
        if len(found) <= len(locked):
            return found
        locked = found
