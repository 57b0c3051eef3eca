"""Notes of sources of pages. A note makes the next visit of an address cheaper, and its loss costs one download."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from uuid import UUID

from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

_PAGE = 1_000

SQL = statements.load(__file__)


class SourceNotes:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, source_id: UUID) -> AsyncIterator[tuple[str, bytes]]:
        """Yield the notes of a source as (address, note), in the order of the addresses' bytes.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        after = ""
        while rows := await self._database.rows(SQL.page, {"source": source_id, "after": after, "limit": _PAGE}):
            for row in rows:
                yield row["address"], bytes(row["note"])
            after = rows[-1]["address"]

    async def write(self, source_id: UUID, changes: Mapping[str, bytes | None]) -> None:
        """Store notes, and delete notes whose new value is null; without effect if the source was removed.

        A crawl whose workers die continues as long as it stores notes in between.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        written = {address: note for address, note in sorted(changes.items()) if note is not None}
        deleted = [address for address, note in changes.items() if note is None]
        async with self._database.begin() as connection:
            await connection.execute(SQL.record_progress, {"source": source_id})
            if written:
                rows = {"addresses": list(written), "notes": list(written.values())}
                await connection.execute(SQL.write, {"source": source_id, **rows})
            if deleted:
                await connection.execute(SQL.delete, {"source": source_id, "addresses": deleted})
