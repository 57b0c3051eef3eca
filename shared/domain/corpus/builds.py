"""Builds: versions of a collection with different options or embedding models, of which queries see one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.index_location import IndexLocation, index_location_of
from shared.domain.states import BuildState, DocumentState


@dataclass(frozen=True, slots=True)
class Build:
    """A build of a collection.

    Args:
        id: its id, contained in its points.
        number: its number within the collection's name, from 1.
        live_until: when another build replaced it; None if none has.
        gate: last report of its gate; None if it never ran.
    """

    id: UUID
    tenant: str
    name: str
    number: int
    state: BuildState
    options: CollectionOptions
    embedding_model: str
    index_name: str
    created_at: datetime
    live_until: datetime | None = None
    gate: Mapping[str, Any] | None = None

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.id)


@dataclass(frozen=True, slots=True)
class NumberedState:
    """The number of a build within its collection, and its state."""

    build: int
    state: BuildState


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """The progress of a build.

    Args:
        copied: number of documents of the build.
        documents: number of its documents by state.
        source_documents: number of documents of the live build.
    """

    copied: int
    documents: Mapping[DocumentState, int]
    source_documents: int


@dataclass(frozen=True, slots=True)
class BuildDifferences:
    """External ids of documents in which a build differs from the live one; each list may be truncated.

    Args:
        missing: documents that the build lacks.
        stale: documents whose newest version in the build has other content.
        orphaned: documents that the live build lacks.
    """

    missing: list[str]
    stale: list[str]
    orphaned: list[str]

    @property
    def kinds(self) -> tuple[list[str], list[str], list[str]]:
        return self.missing, self.stale, self.orphaned

    @property
    def none(self) -> bool:
        return not any(self.kinds)
