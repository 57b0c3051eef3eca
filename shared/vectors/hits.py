"""Results of reads: hits, payloads, stored points and vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from shared.domain.vectors import Vectors


class Hit(NamedTuple):
    """A point that a search found, with the requested payload and vectors."""

    id: str
    score: float
    payload: Mapping[str, Any] = MappingProxyType({})
    vectors: Mapping[str, Any] = MappingProxyType({})


class RankedPoints(NamedTuple):
    """The ids and the scores of the points that a search found, best first. A query finds hundreds."""

    ids: Sequence[str] = ()
    scores: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class SectionKey:
    """A section of a document's version, identified by its span."""

    document_id: str
    version: int
    start: int
    end: int


class ChunkPayloads(NamedTuple):
    """Payloads of chunks by chunk id, and of questions by point id."""

    chunks: dict[str, Mapping[str, Any]]
    questions: dict[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """The document, chunk and version in a point's payload; None if the payload is unreadable.

    The other fields are read only by `Reads.stored_points`; a question's point has no title, and a text's no question.
    No search finds a `disabled` question.
    """

    id: str
    document_id: UUID | None
    chunk_id: UUID | None
    version: int | None
    hidden: bool
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    readers: Sequence[int] = ()
    question: str | None = None
    disabled: bool = False


class PointOwner(NamedTuple):
    """The owner in a point's payload; None if the payload is unreadable."""

    tenant: str | None
    collection_id: UUID | None
    document_id: UUID | None


class StoredVector(NamedTuple):
    """The embedded text of a point and its vector; a chunk's text has the `question` None."""

    question: str | None
    vector: Vectors
