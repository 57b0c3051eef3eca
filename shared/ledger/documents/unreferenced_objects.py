"""Unreferenced objects of the upload store: objects to delete, and packs to rewrite without some bytes.

A row exists from the transaction that makes an object unreferenced until the object is deleted, so the row remains if a
process dies in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from shared.ledger.documents.versions import STORED_IN
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

# No transaction lasts longer than 20 s. After that, every copy of a part's old name is visible.
_COPIES_ARE_SEEN_AFTER = timedelta(seconds=30)
_AGAIN_AFTER = timedelta(minutes=1)

SQL = statements.load(__file__, stored_in=STORED_IN)


class OutdatedObjects:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, limit: int) -> Sequence[str]:
        """Return the names of due objects."""
        async with self._database.begin() as connection:
            return (await connection.execute(SQL.due, {"limit": limit})).scalars()

    async def parts(self, name: str) -> Sequence[str]:
        """Return the uploads of an object that versions name; no names mean that it can be removed."""
        async with self._database.begin() as connection:
            return (await connection.execute(SQL.parts, {"name": name})).scalars()

    async def rename(self, name: str, renamed: Mapping[str, str]) -> bool:
        """Point versions to their bytes in a new pack; return whether any version changed.

        The old pack is due again when no version can name it any more. A worker that has claimed a document by the old
        name, and does not find the bytes, claims it again (`Pages.has_moved`).
        """
        async with self._database.begin() as connection:
            await connection.execute(SQL.lock_documents, {"name": name})
            parameters = {"name": name, "before": list(renamed), "now": list(renamed.values())}
            changed = (await connection.execute(SQL.rename, parameters)).all()
            await connection.execute(SQL.postpone, {"name": name, "after": _COPIES_ARE_SEEN_AFTER})
            return bool(changed)

    async def forget_used(self, name: str, parts: Sequence[str]) -> None:
        """Delete the row of an object without unused bytes, unless versions no longer name all of these parts.

        A version may have been deleted since its parts were read. The object is then checked again, because no other
        row says that it has unused bytes.
        """
        async with self._database.begin() as connection:
            # A later deletion of a version waits for the lock, and inserts the row again.
            await connection.execute(SQL.lock, {"name": name})
            named = (await connection.execute(SQL.parts, {"name": name})).scalars()
            if list(named) == list(parts):
                await connection.execute(SQL.delete, {"names": [name]})

    async def postpone(self, name: str) -> None:
        """Check an object again in a minute."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.postpone, {"name": name, "after": _AGAIN_AFTER})

    async def forget(self, names: Sequence[str]) -> None:
        """Delete the rows of deleted objects."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.delete, {"names": list(names)})
