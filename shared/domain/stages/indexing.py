"""Chunks to index, and their outcomes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.corpus.chunks import ChunkContent, ChunkContext
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.disabled_questions import DisabledQuestion, disabled_in
from shared.domain.corpus.index_location import IndexLocation, index_location_of
from shared.domain.corpus.questions import AcceptedQuestion
from shared.domain.retry import Dead
from shared.domain.spending.usage import Cost
from shared.domain.stages.attempts import FailedAttempt, Outcome
from shared.domain.stages.work import Lease
from shared.domain.states import AcceptedState


@dataclass(frozen=True, slots=True)
class ChunkToIndex:
    """A claimed chunk whose points are to be written.

    Args:
        public_id: its document's public id.
        lane: 0 interactive, 1 bulk.
        hidden: whether queries must not see the points yet, because they see another version.
        of_several_builds: whether its collection has other builds.
        text_only: whether only its text is indexed now, because its questions do not exist yet.
        has_text: whether Qdrant has its text with its vector in this version.
        context: paid with its questions; None without one.
        passed: number of its questions whose points Qdrant has confirmed in this version.
        may_have_points: whether an earlier claim may have written question points in this version.
        traceparent: span of the request that submitted its version; None if tracing was off.
        job_id: its document's job; None without a job.
        upload: name of the bytes of its version.
        disabled: disabled questions of its document when it was claimed.
    """

    lease: Lease
    document_id: UUID
    tenant: str
    collection_id: UUID
    embedding_model: str
    index_name: str
    options: CollectionOptions
    public_id: UUID
    external_id: str
    filename: str | None
    metadata: Mapping[str, Any]
    readable_by: tuple[str, ...]
    ordinal: int
    content: ChunkContent
    hidden: bool
    questions: tuple[str, ...]
    ready_made: bool
    error: str | None
    attempts: int
    lost_leases: int
    created_at: datetime
    accepted: tuple[AcceptedQuestion, ...] = ()
    lane: int = 0
    of_several_builds: bool = False
    text_only: bool = False
    has_text: bool = False
    context: ChunkContext | None = None
    passed: int = 0
    may_have_points: bool = False
    traceparent: str | None = None
    job_id: UUID | None = None
    upload: str = ""
    disabled: tuple[DisabledQuestion, ...] = ()

    @property
    def disabled_questions(self) -> Collection[str]:
        """Its disabled questions in plain form: queries must not match their points."""
        return disabled_in(self.content, self.upload, self.disabled).keys()

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)


@dataclass(frozen=True, slots=True)
class EmbeddedChunk:
    """A chunk with points in Qdrant in a version; `questions` has the passed questions in the order of their points."""

    id: UUID
    version: int
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedIndexing(FailedAttempt):
    """A failed attempt at a chunk, which may have written some of its points."""

    chunk: ChunkToIndex


@dataclass(frozen=True, slots=True)
class IndexOutcome(Outcome):
    """A chunk whose points Qdrant has confirmed.

    `questions` are `{"text", "passed", "reason", "similarity"}`; `accepted` are users' questions, each with its new
    state; `cost` is the attempt's share of its batch's.
    """

    chunk: ChunkToIndex
    questions: Sequence[dict[str, Any]]
    passed: int
    error: str | None = None
    accepted: Sequence[tuple[AcceptedQuestion, AcceptedState]] = ()
    cost: Cost | None = None

    def refused(self, reason: str) -> FailedAttempt:
        return FailedIndexing(self.chunk.lease, Dead(reason), chunk=self.chunk)
