"""Documents as they are submitted, listed, described and deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from shared.domain.corpus.collections import Collection
from shared.domain.corpus.completeness import Completeness
from shared.domain.corpus.filterable import FilterableField
from shared.domain.corpus.index_location import IndexLocation, index_location_of
from shared.domain.spending.usage import UsageByTier
from shared.domain.states import DocumentState

Version = tuple[UUID, int]
"""The row of a document, and one of its versions."""


class ShownVersion(NamedTuple):
    """The version of a document that queries see.

    Args:
        version: None if the document is deleted.
        age_seconds: time since it has replaced another version; None if that was not lately.
    """

    version: int | None
    age_seconds: float | None


@dataclass(frozen=True, slots=True)
class ReadyQuestion:
    """A question submitted with its document; `quote` is the passage that answers it, if the caller names one."""

    text: str
    quote: str | None = None


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A submitted document whose bytes are already in the upload store.

    `traceparent` names the span of the request; None if tracing is off. `job_id` names its load; None without a load.
    `readable_by` has its readers, as `shared.domain.access.persons` checks them; None: as before.
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
    job_id: UUID | None = None
    readable_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of the chunks of a document's newest version; `searchable` chunks are found at least by their texts.

    `pages` are its pages without a text layer, `pages_read` of them have been read, and `pages_unread` cannot be read.
    `waiting`: error of the last attempt of one of its waiting chunks; None without any.
    """

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
    usage_by_tier: UsageByTier = field(default_factory=dict)
    pages: int = 0
    pages_read: int = 0
    pages_unread: int = 0
    waiting: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document as the API returns it: its row in the live build, under the id that its rows in all builds share.

    `metadata`: None unless it was read. `readable_by`: the readers that it names; None: it names none.
    `outdated`: whether an older reader has read it.
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
    completeness: Completeness = Completeness()
    outdated: bool = False
    readable_by: tuple[str, ...] | None = None

    @property
    def error_or_wait(self) -> str | None:
        """The reason of its failure, else the reason why one of its chunks waits."""
        return self.error or self.progress.waiting


@dataclass(frozen=True, slots=True)
class DescribedVersion:
    """The payload fields of a version's points that can change without its text.

    Args:
        disabled: ids of the points of its disabled questions.
    """

    version: int
    title: str | None
    metadata: Mapping[str, Any]
    readable_by: tuple[str, ...]
    disabled: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """A document whose title, metadata, readers or disabled questions changed, but not its content.

    Its points must be updated.

    Args:
        document_id: id of the document's row in its build.
        changes: number of changes so far.
        filterable: fields that its collection declares.
        versions: its existing live and newest version.
        token: largest token of its disabled questions; claims with smaller tokens do not know all of them.
    """

    document_id: UUID
    tenant: str
    collection_id: UUID
    index_name: str
    changes: int
    filterable: tuple[FilterableField, ...]
    versions: tuple[DescribedVersion, ...]
    token: int = 0

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)


@dataclass(frozen=True, slots=True)
class DeletableDocument:
    """A deleted document: first its points and then its row can be removed."""

    id: UUID
    tenant: str
    collection_id: UUID
    index_name: str
    version: int
    live_version: int | None

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.collection_id)
