"""Erasures: a tenant, a collection or a document is deleted with everything that was derived from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Erasure:
    """A running or finished erasure.

    Args:
        collection: name of the collection; None for a document or a tenant.
        document_id: public id of the document; None for a collection or a tenant.
        collection_ids: ids of the erased builds.
        document_ids: ids of the document's rows in all builds.
        deleted: number of counted deleted rows, by kind.
        finished_at: None while it runs.
        documents_left: number of remaining rows of documents.
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
    def state(self) -> Literal["running", "finished"]:
        return "running" if self.finished_at is None else "finished"

    @property
    def is_tenant(self) -> bool:
        return self.collection is None and self.document_id is None
