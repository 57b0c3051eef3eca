"""Erasures: a tenant, a collection or documents are deleted with everything that was derived from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

Scope = Literal["tenant", "collection", "documents"]


@dataclass(frozen=True, slots=True)
class Erasure:
    """A running or finished erasure.

    Args:
        scope: `documents` includes records with texts that name a person.
        collection: name of the collection; None for other scopes.
        public_ids: public ids of the documents.
        texts: texts that name a person; empty when the erasure has finished.
        collection_ids: ids of the erased builds.
        document_ids: ids of the documents' rows in all builds.
        deleted: number of counted deleted rows, by kind.
        finished_at: None while it runs.
        documents_left: number of remaining rows of documents.
    """

    id: UUID
    tenant: str
    scope: Scope
    collection: str | None
    public_ids: Sequence[UUID]
    texts: Sequence[str]
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
    def document_id(self) -> UUID | None:
        """The public id of its document; None without one, and with several."""
        return self.public_ids[0] if len(self.public_ids) == 1 else None


@dataclass(frozen=True, slots=True)
class ErasedDocument:
    """A document in the preview of an erasure.

    Args:
        id: its public id.
        matches: an excerpt from each part in which one of the texts occurs, by the name of the part.
        deletes: numbers of rows that its erasure deletes, in all builds, by kind.
    """

    id: UUID
    collection: str
    external_id: str
    title: str | None
    filename: str | None
    state: str
    matches: Mapping[str, str]
    deletes: Mapping[str, int]
