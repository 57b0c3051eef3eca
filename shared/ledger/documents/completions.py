"""Completions: paid questions, retained while a chunk has their content key and for some days afterwards.

A statement that inserts a chunk, or changes its key, locks the completion of that key (`settlements.HOLD_COMPLETIONS`).
Here completions are locked first, skipping those that are locked, and checked afterwards, so no chunk that needs one is
missed.
"""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.postgres.database import Database

_SLICE = 1_000  # rows of one transaction

# No chunk has the key.
UNUSED = "NOT EXISTS (SELECT 1 FROM chunk_contents t WHERE t.content_key = p.content_key)"

# List the next completions in key order: those to mark and those to delete.
_LOOK = text(f"""
    SELECT content_key, (unused_since IS NULL) = unused AS changed,
           unused AND coalesce(unused_since <= now() - CAST(:age AS interval), false) AS old
    FROM (SELECT p.content_key, p.unused_since, {UNUSED} AS unused FROM completions p
          WHERE p.content_key > :after ORDER BY p.content_key LIMIT :limit) s
    ORDER BY content_key
""")

# Write down since when completions are not in use, or that they are.
_MARK = text(f"""
    UPDATE completions p SET unused_since = CASE WHEN p.unused_since IS NULL THEN now() END
    WHERE p.content_key = ANY(CAST(:keys AS bytea[])) AND (p.unused_since IS NULL) = ({UNUSED})
""")

# Lock completions, skipping locked ones.
_LOCK = text("""
    SELECT content_key FROM completions WHERE content_key = ANY(CAST(:keys AS bytea[])) FOR UPDATE SKIP LOCKED
""")

# Lock a tenant's completions without a chunk, skipping locked ones.
_LOCK_UNUSED = text(f"""
    SELECT p.content_key FROM completions p WHERE p.tenant = :tenant AND {UNUSED}
    LIMIT :limit FOR UPDATE OF p SKIP LOCKED
""")

# Delete the completions that are still unused.
_DELETE_UNUSED = text(f"""
    DELETE FROM completions p WHERE p.content_key = ANY(CAST(:keys AS bytea[])) AND {UNUSED} RETURNING 1
""")

# Delete a tenant's single replies for which no chunk waits.
_DELETE_REPLIES = text(f"""
    DELETE FROM paid_replies WHERE content_key = ANY(ARRAY(
        SELECT p.content_key FROM paid_replies p WHERE p.tenant = :tenant AND {UNUSED} LIMIT :limit))
    RETURNING 1
""")


class Completions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._after = b""  # the last key that was checked; a restart continues from the first key

    async def forget(self, age: timedelta) -> bool:
        """Check some completions, and delete those unused for this long; return whether more are left."""
        async with self._database.begin() as connection:
            slice_ = (await connection.execute(_LOOK, {"after": self._after, "limit": _SLICE, "age": age})).all()
            if changed := [row.content_key for row in slice_ if row.changed]:
                await connection.execute(_MARK, {"keys": changed})
            if old := [row.content_key for row in slice_ if row.old]:
                locked = (await connection.execute(_LOCK, {"keys": old})).scalars().all()
                await connection.execute(_DELETE_UNUSED, {"keys": locked})
        more = len(slice_) == _SLICE
        self._after = slice_[-1].content_key if more else b""
        return more


async def delete_unused(connection: AsyncConnection, tenant: str) -> int:
    """Delete some paid results of a tenant that no chunk uses; return the number of rows."""
    parameters = {"tenant": tenant, "limit": _SLICE}
    keys = (await connection.execute(_LOCK_UNUSED, parameters)).scalars().all()
    if keys:
        return len((await connection.execute(_DELETE_UNUSED, {"keys": keys})).all())
    return len((await connection.execute(_DELETE_REPLIES, parameters)).all())
