"""Erasures: a tenant, a collection or a document is deleted with everything that was derived from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure, under way or finished.

    Args:
        collection: its name; None: a document, or the whole tenant.
        document_id: the id that its owner knew; None: a collection, or the whole tenant.
        collection_ids: those of the builds that are erased.
        document_ids: those of the document's rows in all builds.
        deleted: how many rows went that were counted, by what they were.
        finished_at: None: it is under way.
        documents_left: rows of documents that are still there.
    """

    id: UUID
    tenant: str
    collection: str | None
    document_id: UUID | None
    collection_ids: Sequence[UUID]
    document_ids: Sequence[UUID]
    deleted: Mapping[str, int]
    started_at: datetime
    finished_at: datetime | None
    documents_left: int = 0

    @property
    def is_tenant(self) -> bool:
        return self.collection is None and self.document_id is None
