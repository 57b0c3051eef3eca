"""Batches of chunks whose questions a provider generates within a day, at a reduced price."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.spending.usage import Usage
from shared.domain.stages.work import Lease
from shared.domain.states import BatchState

_INPUT_FILE = re.compile(r"foreask-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl")


class Unanswered(StrEnum):
    """The next step of the lines that a batch has not answered."""

    AGAIN = "again"  # another batch, and after two failures a live call
    LATER = "later"  # another batch: the lines are not the reason
    LIVE = "live"  # a live call at full price
    UNKNOWN = "unknown"  # as AGAIN, and the provider may have charged for them


@dataclass(frozen=True, slots=True)
class Batch:
    """A claimed batch.

    Args:
        tenant: the tenant of all lines; None for a probe, which has no lines of chunks.
        lines: number of planned lines.
        bytes: size of the planned file.
        file_id: the provider's input file; None before the upload.
        provider_id: the provider's id of the batch; None until it is known.
        output_bytes: collected part of the output file; `error_bytes` likewise.
        settled: number of lines with an outcome, or that were moved to another batch.
        done: number of requests with a result at the last poll.
        since_tried: time since a create whose result is unknown; None if there is none.
        since_added: time since the last line was planned.
        since_progress: time since the provider last reported progress.
        cancelled: whether the batch is to be cancelled.
        foreign: whether it belongs to another provider than the one of the process that has claimed it.
        token: fencing token of the claim.
    """

    id: UUID
    tenant: str | None
    model: str
    state: BatchState
    lines: int
    bytes: int
    created_at: datetime
    file_id: str | None
    provider_id: str | None
    output_file_id: str | None
    error_file_id: str | None
    output_bytes: int
    error_bytes: int
    settled: int
    done: int
    unanswered: Unanswered
    error: str | None
    since_tried: timedelta | None
    since_added: timedelta
    since_submitted: timedelta | None
    since_progress: timedelta
    cancelled: bool
    foreign: bool
    token: int

    @property
    def is_probe(self) -> bool:
        return self.tenant is None

    @property
    def after_cancellation(self) -> Unanswered:
        """The next step of lines without a result after the cancellation: a client may choose live calls."""
        return Unanswered.LIVE if self.unanswered is Unanswered.LIVE else Unanswered.LATER


@dataclass(frozen=True, slots=True)
class ShownBatch:
    """A batch as its tenant sees it.

    Args:
        root_id: the rejected batch whose lines were divided; None for a batch that was planned.
        lines: number of lines.
        settled: number of lines with an outcome, or that were moved to another batch.
        done: number of lines with a result at the provider, at the last poll.
        bytes: size of the file.
        provider_id: the provider's id of the batch; None until it is known.
        job_ids: jobs of the documents when their chunks were planned.
        usage: tokens billed for settled lines.
        age: time since the creation, until the end.
    """

    id: UUID
    root_id: UUID | None
    state: BatchState
    model: str
    lines: int
    settled: int
    done: int
    bytes: int
    provider_id: str | None
    job_ids: tuple[UUID, ...]
    usage: Usage
    error: str | None
    created_at: datetime
    submitted_at: datetime | None
    progressed_at: datetime
    cancelled_at: datetime | None
    ended_at: datetime | None
    age: timedelta


@dataclass(frozen=True, slots=True)
class PlannedLine:
    """A chunk that is added to a batch.

    Args:
        questions: number of requested questions.
        context: whether a context is requested, too.
        bytes: size of its line.
    """

    lease: Lease
    document_id: UUID
    collection_id: UUID
    content_key: bytes
    questions: int
    context: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class LineContent:
    """The content of a line, from which its request is computed.

    `content` has no value if the line needs no call any more: its chunk has changed, or its lease has ended.
    """

    token: int
    content_key: bytes
    content: ChunkContent | None
    options: CollectionOptions | None


def input_file_name(batch_id: UUID) -> str:
    """Return the name of a batch's input file at the provider."""
    return f"foreask-{batch_id}.jsonl"


def batch_of_file(name: str) -> UUID | None:
    """Return the batch of an input file; None if the name is of another kind."""
    found = _INPUT_FILE.fullmatch(name)
    return UUID(found[1]) if found else None
