"""Builds: a collection as it is made with certain options and one embedding model; queries see one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from shared.domain.collections import CollectionOptions
from shared.domain.index_location import IndexLocation, index_location_of
from shared.domain.states import DocumentState


class BuildState(StrEnum):
    LIVE = "live"  # queries see it
    FILLING = "filling"  # the live build's documents are being copied to it; it follows what changes meanwhile
    PAUSED = "paused"  # as filling, but nothing is copied
    FOLLOWING = "following"  # it has every document of the live one, and follows what changes
    DROPPING = "dropping"  # its documents are being deleted, then it is gone


@dataclass(frozen=True, slots=True)
class Build:
    """A build of a collection.

    Args:
        id: its own; its points carry it.
        number: within the collection's name, from 1.
        live_until: when another build took its place; None: none has.
        gate: the last report of its gate; None: none was tried.
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
class BuildProgress:
    """How far a build is.

    Args:
        copied: documents that the build has.
        documents: how many of these are in each state.
        source_documents: documents that the live build has.
    """

    copied: int
    documents: Mapping[DocumentState, int]
    source_documents: int


@dataclass(frozen=True, slots=True)
class BuildDifferences:
    """External ids of documents in which a build differs from the live one; each list may be cut at a limit.

    Args:
        missing: the build lacks them.
        stale: the build's newest version has other content.
        orphaned: the live build lacks them.
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
