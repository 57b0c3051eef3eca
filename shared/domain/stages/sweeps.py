"""Points of versions that are not live: of the next version, and of the versions before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from shared.domain.corpus.index_location import IndexLocation, index_location_of

# Points of a replaced version stay for this time, because a search that started before needs them. No search is longer.
POINTS_STAY = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class HiddenVersion:
    """A version of a document with all its texts, whose points are hidden because another version is live."""

    document_id: UUID
    version: int
    collection_id: UUID
    tenant: str
    index_name: str

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A document whose points must be updated from the ledger.

    Args:
        obsolete_version: version whose points are deleted.
        below_version: version of the chunk, or the version after the obsolete one.
        live_version: version that queries see; None if there is none yet.
        in_use: whether `obsolete_version` is the live or the newest one, so that only late points are deleted.
        deleted: whether the document is deleted with all its versions.
        chunk_id: chunk of `below_version` that may have points of a late writer.
        points_token: fencing token of the last claim that wrote this chunk; points to delete have smaller tokens.
        again: whether to repeat the sweep after all older leases have expired.
    """

    id: int
    collection_id: UUID
    index_name: str
    tenant: str
    document_id: UUID
    obsolete_version: int
    below_version: int
    live_version: int | None
    in_use: bool
    deleted: bool
    chunk_id: UUID | None
    points_token: int | None
    again: bool

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)
