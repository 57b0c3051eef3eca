"""Verification of a collection: the position, the counts and the differing points of a comparison with Qdrant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

FindingKind = Literal["missing", "stale", "orphaned"]


@dataclass(frozen=True, slots=True)
class DifferingPoint:
    """A point that differs.

    `repaired`: it was removed or shown, or its chunk is due to be indexed again.
    """

    kind: FindingKind
    reason: str
    point_id: str
    document_id: UUID | None
    chunk_id: UUID | None
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a verification, from which another one can continue.

    Args:
        part: stored points are read first, then documents.
        after: last point, or the last document's external id; None at the start.
    """

    part: Literal["points", "documents"] = "points"
    after: str | None = None


@dataclass(frozen=True, slots=True)
class VerificationCounts:
    """The numbers of compared documents and points so far, and of differences."""

    documents: int = 0
    points: int = 0
    missing: int = 0
    stale: int = 0
    orphaned: int = 0
    repaired: int = 0

    @property
    def unrepaired(self) -> int:
        return self.missing + self.stale + self.orphaned - self.repaired

    def plus(self, more: Mapping[str, int]) -> VerificationCounts:
        """Return the sums of these counts and others, by name."""
        sums = {name: getattr(self, name) + more.get(name, 0) for name in self.__dataclass_fields__}
        return VerificationCounts(**sums)


@dataclass(frozen=True, slots=True)
class ComparisonProgress:
    """The progress of a verification, or of a gate, which repairs nothing."""

    counts: VerificationCounts = VerificationCounts()
    repair: bool = False
