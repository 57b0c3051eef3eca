"""References of documents that wait for parsing, for sources that fetch entries together."""

from __future__ import annotations

from features.sources.domain import SourceDefinition
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database
from shared.storage.references import Reference

_MOST = 256
_SEARCHED = 2_000  # documents of the tenant, which may wait for other sources

SQL = statements.load(__file__, states.FRAGMENTS)


class WaitingReferences:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, definition: SourceDefinition) -> list[Reference]:
        """Return references of a source that workers parse now or next, at most 256, among others of its tenant."""
        parameters = {
            "tenant": definition.tenant,
            "stored_in": Reference.stored_in(definition.id),
            "searched": _SEARCHED,
            "most": _MOST,
        }
        rows = await self._database.rows(SQL.waiting, parameters)
        return [Reference.parse(row["upload"]) for row in rows]
