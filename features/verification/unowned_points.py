"""Unowned points: points in Qdrant whose document is not in the ledger.

They remain after a restore of the ledger alone, or of Qdrant alone, and after a write that no settlement followed.
`Verification` compares the collections that the ledger has; this reads every point, also of collections that it does
not have. Queries find none of these points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import structlog

from shared.ledger.documents.audit import Audit
from shared.vectors.hits import PointOwner
from shared.vectors.index import Index

_PAGE = 1_000  # points
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class UnownedPoints:
    """The points in one Qdrant collection.

    Args:
        points: number of read points.
        unowned: numbers of points by owners that the ledger does not have.
        deleted: number of deleted points.
    """

    index_name: str
    points: int
    unowned: Mapping[PointOwner, int]
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class PointCheck:
    """Compares the points of whole Qdrant collections with the ledger."""

    index: Index
    audit: Audit

    async def run(self, name: str, *, delete: bool = False) -> UnownedPoints:
        """Read every point of a Qdrant collection; delete those without an owner if requested.

        A point's row is inserted before the point and is read after it, and ids are never used again, so a missing row
        means a deleted document, at any time. Points that a sweep or the scheduler will delete are not reported.

        Raises:
            Unavailable: the ledger or Qdrant is unavailable; points that were deleted before stay deleted.
        """
        points, deleted, after = 0, 0, None
        unowned = Counter[PointOwner]()
        while True:
            page, after = await self.index.scroll_owners(name, after=after, limit=_PAGE)
            points += len(page)
            missing = await self._missing(set(page.values()))
            found = {point: owner for point, owner in page.items() if owner in missing}
            unowned.update(found.values())
            if delete and found:
                await self.index.delete_points(name, list(found))
                deleted += len(found)
            if after is None:
                break
        if deleted:
            log.warning("points.deleted", index_name=name, points=deleted)
        return UnownedPoints(name, points, unowned, deleted)

    async def _missing(self, owners: AbstractSet[PointOwner]) -> set[PointOwner]:
        ids = {(o.document_id, o.collection_id) for o in owners if o.document_id is not None}
        gone = await self.audit.missing(ids)
        return {o for o in owners if o.document_id is None or (o.document_id, o.collection_id) in gone}
