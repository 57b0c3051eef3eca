"""Inputs of the gate: differences between a build and the live one, and the questions that compare both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from uuid import UUID

from shared.ledger.builds import comparison
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

_LOGGED = 10_000  # log entries that are searched for questions of a collection

SQL = statements.load(__file__, states.FRAGMENTS)


@dataclass(frozen=True, slots=True)
class DocumentComparison:
    """Differences between a build and the live one, in documents.

    Args:
        documents: documents of both builds.
        missing: documents that the build lacks.
        stale: documents whose newest content differs in the build.
        orphaned: documents that the live build lacks.
        unindexed: documents that queries find in the live build only, because the build has not indexed them yet.
        failed: documents that failed in the build only.
        degraded: documents with dead chunks in the build only.
    """

    documents: int
    missing: int
    stale: int
    orphaned: int
    unindexed: int
    failed: int
    degraded: int


class BuildComparison:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def compare(self, live: UUID, build: UUID) -> DocumentComparison:
        """Compare the documents of two builds, in slices: each document at one moment."""
        counts: Counter[str] = Counter()
        async for part in comparison.slices(self._database, live, build):
            counts.update(
                documents=part.documents,
                missing=len(part.missing),
                stale=len(part.stale),
                orphaned=len(part.orphaned),
                unindexed=part.unindexed,
                failed=part.failed,
                degraded=part.degraded,
            )
        return DocumentComparison(**{each.name: counts[each.name] for each in fields(DocumentComparison)})

    async def accepted_questions(self, collection_id: UUID, limit: int) -> list[tuple[str, list[str]]]:
        """Return accepted questions, the newest first, with the external ids of the documents that answer them."""
        async with self._database.begin() as connection:
            rows = await connection.execute(SQL.accepted_questions, {"collection": collection_id, "limit": limit})
            return [(row.question, list(row.answers)) for row in rows]

    async def logged_questions(self, collection_id: UUID, limit: int) -> list[str]:
        """Return questions that users have put to a collection lately."""
        parameters = {"collection": collection_id, "limit": limit, "logged": _LOGGED}
        async with self._database.begin() as connection:
            return list((await connection.execute(SQL.logged_questions, parameters)).scalars())
