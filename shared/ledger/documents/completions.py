"""Completions: paid questions, retained while a chunk has their content key and for some days afterwards.

A statement that inserts a chunk, or changes its key, locks the completion of that key (`share_completions`). Here
completions are locked first, skipping locked ones, and checked afterwards, so no chunk that needs one is missed.
"""

from __future__ import annotations

from datetime import timedelta

from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

_SLICE = 1_000  # rows of one transaction

# No chunk has the key.
UNUSED = "NOT EXISTS (SELECT 1 FROM chunk_contents t WHERE t.content_key = p.content_key)"

SQL = statements.load(__file__, is_unused=UNUSED)


class Completions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._after = b""  # the last key that was checked; a restart continues from the first key

    async def forget(self, age: timedelta) -> bool:
        """Check some completions, delete unused ones of this age; return whether more are left."""
        async with self._database.begin() as connection:
            slice_ = (
                await connection.execute(SQL.next_completions, {"after": self._after, "limit": _SLICE, "age": age})
            ).all()
            if changed := [row.content_key for row in slice_ if row.changed]:
                await connection.execute(SQL.mark, {"keys": changed})
            if old := [row.content_key for row in slice_ if row.old]:
                locked = (await connection.execute(SQL.lock, {"keys": old})).scalars()
                await connection.execute(SQL.delete_unused, {"keys": locked})
        more = len(slice_) == _SLICE
        self._after = slice_[-1].content_key if more else b""
        return more
