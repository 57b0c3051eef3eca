"""Texts of pages, retained while a page has their key and for some days afterwards, like completions.

A transaction that inserts a page locks the text of its key (`share_texts`). Here texts are locked first, skipping
locked ones, and checked afterwards, so no text that a page needs is deleted.
"""

from __future__ import annotations

from datetime import timedelta

from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

_SLICE = 1_000  # rows of one transaction

# No page has the key.
UNUSED = "NOT EXISTS (SELECT 1 FROM pages t WHERE t.key = p.key)"

SQL = statements.load(__file__, is_unused=UNUSED)


class PageTexts:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._after = b""  # the last key that was checked; a restart continues from the first key

    async def forget(self, age: timedelta) -> bool:
        """Check some texts, delete unused ones of this age; return whether more are left."""
        async with self._database.begin() as connection:
            parameters = {"after": self._after, "limit": _SLICE, "age": age}
            slice_ = (await connection.execute(SQL.next_texts, parameters)).all()
            if changed := [row.key for row in slice_ if row.changed]:
                await connection.execute(SQL.mark, {"keys": changed})
            if old := [row.key for row in slice_ if row.old]:
                locked = (await connection.execute(SQL.lock, {"keys": old})).scalars()
                await connection.execute(SQL.delete_unused, {"keys": locked})
        more = len(slice_) == _SLICE
        self._after = slice_[-1].key if more else b""
        return more
