"""Claimed rows: a lease, and the inputs of parsing, generating, indexing and sweeping."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from shared.domain.budgets import Reserve
from shared.domain.chunks import ChunkContent
from shared.domain.collections import CollectionOptions
from shared.domain.documents import ReadyQuestion
from shared.domain.index_location import IndexLocation, index_location_of
from shared.domain.questions import AcceptedQuestion
from shared.domain.usage import Usage, UsageByTier

# Points of a replaced version stay for this time, because a search that started before needs them. No search is longer.
POINTS_STAY = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim on a row. A settlement with an outdated token has no effect."""

    id: UUID
    version: int
    token: int


@dataclass(frozen=True, slots=True)
class LeaseExtension:
    """The result of an extension of leases, as fencing tokens. A lease whose token is in neither set is lost.

    Args:
        extended: extended leases.
        locked: valid leases that were not extended, because another transaction has locked their rows.
    """

    extended: Collection[int]
    locked: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class DocumentToParse:
    lease: Lease
    tenant: str
    collection_id: UUID
    options: CollectionOptions
    languages: tuple[str, ...]  # languages detected in its collection's texts so far
    upload: str
    filename: str | None
    title: str | None
    media_type: str | None
    metadata: Mapping[str, Any]
    ready_questions: tuple[ReadyQuestion, ...] | None
    attempts: int
    lost_leases: int
    live_version: int | None
    traceparent: str | None = None
    has_pages: bool = False  # whether it has pages without a text layer


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk to be inserted with its document; with `ready_questions` it needs no model call.

    `picture` is a JPEG file, if the chunk is a picture in the document.
    """

    id: UUID
    ordinal: int
    content: ChunkContent
    content_key: bytes
    ready_questions: tuple[str, ...] | None = None
    picture: bytes | None = None


@dataclass(frozen=True, slots=True)
class PaidReply:
    """A model's reply to one of the calls for a content, retained until its questions are complete.

    `request` is the digest of the request: the reply is reused for an identical request only.
    """

    request: str
    text: str
    finish_reason: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class ChunkToGenerate:
    """A claimed chunk without questions.

    Args:
        content_key: key of the request as it would be sent now.
        replies: replies paid by earlier attempts at this content.
        usage: tokens billed for the attempts at this chunk.
        calls: number of calls billed for the attempts at this chunk.
        by_tier: `usage` by tier.
        job_id: its document's job; None without a job.
        reserve: highest use of its next call, which its claim has reserved; None if no budget covers it.
        picture: a JPEG file, if it is a picture to be described.
    """

    lease: Lease
    document_id: UUID
    tenant: str
    collection_id: UUID
    options: CollectionOptions
    content: ChunkContent
    content_key: bytes
    attempts: int
    lost_leases: int
    replies: tuple[PaidReply, ...] = ()
    usage: Usage = Usage()
    calls: int = 0
    by_tier: UsageByTier = field(default_factory=dict)
    traceparent: str | None = None
    job_id: UUID | None = None
    reserve: Reserve | None = None
    picture: bytes | None = None


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
        passed: number of its questions whose points Qdrant has confirmed in this version.
        may_have_points: whether an earlier claim may have written question points in this version.
        traceparent: span of the request that submitted its version; None if tracing was off.
        job_id: its document's job; None without a job.
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
    passed: int = 0
    may_have_points: bool = False
    traceparent: str | None = None
    job_id: UUID | None = None

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)


@dataclass(frozen=True, slots=True)
class EmbeddedChunk:
    """A chunk with points in Qdrant in a version; `questions` has the passed questions in the order of their points."""

    id: UUID
    version: int
    questions: tuple[str, ...]


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
