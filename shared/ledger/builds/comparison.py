"""A comparison of two builds of a collection, document by document.

It runs in slices in the order of external ids, one transaction each, because a build may have a million documents and
transactions are limited to some seconds. Each document is read in both builds at one moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

_SLICE = 1_000  # documents of one transaction: a hundredth of a second

SQL = statements.load(__file__, states.FRAGMENTS)


@dataclass(frozen=True, slots=True)
class ComparedSlice:
    """Differences between a build and the live one in a slice of documents.

    Args:
        until: last external id of the slice.
        documents: number of documents of both builds.
        missing: external ids that the build lacks.
        stale: external ids whose newest content differs in the build.
        orphaned: external ids that the live build lacks.
        unindexed: number of documents that queries find in the live build only.
        failed: number of documents that failed in the build only.
        degraded: number of documents with dead chunks in the build only.
    """

    until: str
    documents: int
    missing: Sequence[str]
    stale: Sequence[str]
    orphaned: Sequence[str]
    unindexed: int
    failed: int
    degraded: int


async def slices(database: Database, live: UUID, build: UUID) -> AsyncIterator[ComparedSlice]:
    """Compare two builds; yield the differences of each slice of documents."""
    parameters = {"live": live, "build": build, "limit": _SLICE, "after": ""}
    while True:
        (row,) = await database.rows(SQL.compare, parameters)
        if not row["documents"]:
            return
        yield ComparedSlice(**row)
        parameters["after"] = row["until"]
