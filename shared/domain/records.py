"""The ledger's rows as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from shared.domain.chunks import ChunkContent
from shared.domain.filterable import FilterableField
from shared.domain.index_location import IndexLocation, index_location_of
from shared.domain.usage import Usage


class DocumentState(StrEnum):
    QUEUED = "queued"
    PARSING = "parsing"
    INDEXING = "indexing"  # its texts are being written; queries see the version before, or the texts that stand
    SEARCHABLE = "searchable"  # every text stands and is found; questions are being written
    READY = "ready"
    DEGRADED = "degraded"  # searchable, but some chunks are dead
    FAILED = "failed"
    DELETING = "deleting"  # gone for every caller; its points are being removed


class ChunkState(StrEnum):
    PARSED = "parsed"  # its text waits to be indexed, with its questions where they are there already
    GENERATING = "generating"  # found by its text; its questions are to be written
    GENERATED = "generated"  # its questions are paid for and wait to be indexed
    INDEXED = "indexed"
    DEAD = "dead"  # indexed by its text alone, or not at all; `error` says why
    DISCARDED = "discarded"  # dead, and given up by its owner


@dataclass(frozen=True, slots=True)
class CollectionOptions:
    """How a collection's documents are divided and its questions written; None follows the settings."""

    questions_per_chunk: int | Literal["auto"] | None = None
    prompt: str | None = None
    chunk_max_chars: int | None = None
    chunk_overlap_chars: int | None = None
    prepend_questions: bool | None = None  # to the text, before it is embedded; None: no
    section_max_chars: int | None = None
    filterable: tuple[FilterableField, ...] = ()  # in the order of their declaration


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each channel of retrieval counts: only the ratios matter, and 0 leaves a channel out."""

    questions: float = 1.0
    text: float = 1.0
    bm25: float = 1.0

    def of(self, channel: Literal["questions", "text", "bm25"]) -> float:
        return {"questions": self.questions, "text": self.text, "bm25": self.bm25}[channel]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The cosines of unrelated texts with an embedding model: their mean and standard deviation; 0 until measured."""

    similarity: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Collection:
    id: UUID
    tenant: str
    name: str
    options: CollectionOptions
    embedding_model: str
    index_name: str
    created_at: datetime
    calibration: Mapping[str, Any] | None = None  # the weights of its channels, and the measurements behind them
    languages: tuple[str, ...] = ()  # of its texts, as far as they are known

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.id)

    @property
    def weights(self) -> Weights:
        return Weights() if self.calibration is None else Weights(**self.calibration["weights"])

    @property
    def baseline(self) -> Baseline:
        """The cosines of a question and an unrelated text."""
        measured = self.calibration or {}
        return Baseline(measured.get("baseline_similarity", 0.0), measured.get("baseline_spread", 0.0))

    @property
    def is_labelled(self) -> bool:
        """Whether its calibration comes from labelled questions."""
        return self.calibration is not None and self.calibration.get("source", "labelled") == "labelled"


@dataclass(frozen=True, slots=True)
class ReadyQuestion:
    """A question that came with its document; `quote` is the passage that answers it, where the caller names one."""

    text: str
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A submitted document; its bytes are already in the upload store.

    `traceparent` names the span of the request; None where traces are off.
    """

    collection: Collection
    external_id: str
    filename: str | None
    title: str | None
    media_type: str | None
    metadata: Mapping[str, Any]
    ready_questions: tuple[ReadyQuestion, ...] | None
    upload: str
    size_bytes: int
    content_hash: bytes
    lane: int = 0
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts over the chunks of a document's newest version; `searchable` ones are found at least by their texts."""

    total: int = 0
    searchable: int = 0
    generated: int = 0
    indexed: int = 0
    dead: int = 0
    discarded: int = 0
    questions: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """A document as its owner sees it: the row of the live build, under the id that all its rows have in common.

    `metadata` is None where it was not read.
    """

    id: UUID
    external_id: str
    collection: str
    state: DocumentState
    version: int
    live_version: int | None
    filename: str | None
    title: str | None
    media_type: str | None
    metadata: Mapping[str, Any] | None
    size_bytes: int
    error: str | None
    created_at: datetime
    updated_at: datetime
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed attempt; `at` is a time in ISO 8601."""

    at: str
    attempt: int
    error: str


class AcceptedState(StrEnum):
    WAITING = "waiting"  # its point is to be written, with its chunk
    INDEXED = "indexed"
    REFUSED = "refused"  # the embedding model does not take it
    REMOVING = "removing"  # taken back; its point is being removed


QuestionSource = Literal["generated", "given", "user"]


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How a chunk came to a user's question; `at` is a time in ISO 8601."""

    id: UUID
    state: AcceptedState
    query_id: UUID | None
    at: str


@dataclass(frozen=True, slots=True)
class ChunkQuestion:
    """A question of a chunk as its owner sees it.

    Args:
        passed: None while it is not filtered yet, or not embedded.
        reason: why it was dropped.
        source: who wrote it: the model, the document's owner or a user.
        similarity: to the chunk's text; None where it was not embedded.
        accepted: of a user's question.
    """

    text: str
    passed: bool | None
    reason: str | None
    source: QuestionSource = "generated"
    similarity: float | None = None
    accepted: Acceptance | None = None


@dataclass(frozen=True, slots=True)
class ChunkDetail:
    """A chunk as its owner sees it.

    Args:
        document_id: the document's id for its owner.
        history: its last failed attempts, in order.
        usage: what its questions have cost.
        calls: that this took.
        questions: users' questions come last.
    """

    id: UUID
    document_id: UUID
    version: int
    ordinal: int
    content: ChunkContent
    state: ChunkState
    error: str | None
    history: tuple[Attempt, ...]
    usage: Usage
    calls: int
    questions: tuple[ChunkQuestion, ...]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A document that could not be parsed, or a dead chunk; `history` has the last attempts, in order."""

    id: UUID
    kind: Literal["document", "chunk"]
    document_id: UUID
    external_id: str
    collection: str
    ordinal: int | None
    reason: str
    attempts: int
    at: datetime
    history: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class DeadReason:
    reason: str
    documents: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim on a row; a settlement with an old token changes nothing."""

    id: UUID
    version: int
    token: int


@dataclass(frozen=True, slots=True)
class DocumentToParse:
    lease: Lease
    tenant: str
    collection_id: UUID
    options: CollectionOptions
    languages: tuple[str, ...]  # of its collection's texts, as far as they were known
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


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk to be written with its document; with `ready_questions` it needs no call of a model."""

    id: UUID
    ordinal: int
    content: ChunkContent
    content_key: bytes
    ready_questions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PaidReply:
    """A model's reply to one of the calls that a content needs, kept while its questions are not whole.

    `request` is a digest of the request that was sent: a reply stands for no other request.
    """

    request: str
    text: str
    finish_reason: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class ChunkToGenerate:
    """A claimed chunk that waits for its questions.

    `content_key` is that of the request which is sent now. `replies` were paid for by earlier attempts at this content;
    `usage` and `calls` are what the attempts at this chunk have cost.
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
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class AcceptedQuestion:
    """A user's question that a chunk accepted."""

    id: UUID
    question: str


@dataclass(frozen=True, slots=True)
class ChunkToIndex:
    """A claimed chunk whose points are to be written.

    Args:
        public_id: its document's id for its owner.
        lane: 0 interactive, 1 bulk.
        hidden: whether queries must not see the points yet: they see another version.
        of_several_builds: whether its collection has other builds.
        text_only: whether its questions are still to be written: its text must be found before.
        text_stands: whether Qdrant has its text, and the text's vector, in this version.
        may_have_points: whether an earlier claim may have written points of questions in this version.
        traceparent: the span of the request that handed its version in; None where there is none.
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
    text_stands: bool = False
    may_have_points: bool = False
    traceparent: str | None = None

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)


@dataclass(frozen=True, slots=True)
class EmbeddedChunk:
    """A chunk whose points stand in Qdrant in a version; `questions` has those that passed, as their points count."""

    id: UUID
    version: int
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeletableDocument:
    """A document that its owner has deleted: its points and then its row may go."""

    id: UUID
    tenant: str
    collection_id: UUID
    index_name: str
    version: int
    live_version: int | None

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A document whose points are to become what the ledger says.

    Args:
        below_version: nobody needs the versions before it, except the live one.
        live_version: the version that queries see; None: none yet.
        deleted: whether the document is gone, with all its versions.
        chunk_id: a chunk of `below_version` of which a late writer may have left points.
        points_token: the token of the claim that wrote this chunk last; its other points have smaller ones.
        again: whether it is to be swept once more, when no older lease can hold.
    """

    id: int
    collection_id: UUID
    index_name: str
    tenant: str
    document_id: UUID
    below_version: int
    live_version: int | None
    deleted: bool
    chunk_id: UUID | None
    points_token: int | None
    again: bool

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)


@dataclass(frozen=True, slots=True)
class DescribedVersion:
    """What a version's points are to say beside their texts."""

    version: int
    title: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Description:
    """A document whose title or metadata has changed without its content: its points are to say what the ledger says.

    Args:
        document_id: the document's row in its build.
        changes: how often it has changed.
        filterable: the fields that its collection declares.
        versions: those that are there, live and newest.
    """

    document_id: UUID
    tenant: str
    collection_id: UUID
    index_name: str
    changes: int
    filterable: tuple[FilterableField, ...]
    versions: tuple[DescribedVersion, ...]

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)
