"""Documents to parse, and their chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.corpus.completeness import Completeness
from shared.domain.corpus.documents import ReadyQuestion
from shared.domain.retry import Dead
from shared.domain.stages.attempts import FailedAttempt, Outcome
from shared.domain.stages.work import Lease


@dataclass(frozen=True, slots=True)
class DocumentToParse:
    lease: Lease
    tenant: str
    collection_id: UUID
    options: CollectionOptions
    languages: tuple[str, ...]  # languages detected in its collection's texts so far
    metadata_fields: tuple[str, ...]  # fields of its collection's metadata so far
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
class ParseOutcome(Outcome):
    """A document's chunks; the title and the media type come from the file."""

    document: DocumentToParse
    title: str | None
    media_type: str
    chunks: Sequence[NewChunk]
    completeness: Completeness = Completeness()

    def refused(self, reason: str) -> FailedAttempt:
        return FailedAttempt(self.document.lease, Dead(reason))
