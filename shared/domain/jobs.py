"""Jobs: long work with a state and progress. Loads, reindexes and syncs have rows of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from shared.domain.states import DocumentState


class JobKind(StrEnum):
    LOAD = "load"  # a client uploads documents and says when it has uploaded all of them
    SYNC = "sync"  # the documents of a source are brought up to date
    REINDEX = "reindex"  # the next version of every document of a build, with the same content
    BUILD = "build"  # a build that is filled next to the live one
    EVALUATION = "evaluation"
    GATE = "gate"  # the comparison of a build with the live one
    VERIFICATION = "verification"  # the comparison of a collection with Qdrant
    ERASURE = "erasure"


class JobState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"  # no worker claims its documents and chunks
    CANCELLING = "cancelling"  # its queued documents are being deleted, and others finish
    CANCELLED = "cancelled"
    DONE = "done"
    DONE_WITH_ERRORS = "done_with_errors"  # some of its documents are degraded or failed
    FAILED = "failed"  # only a sync, an evaluation, a gate or a verification


class PauseReason(StrEnum):
    USER = "user"
    BUDGET = "budget"
    PROVIDER = "provider"
    DISK = "disk"
    APPROVAL = "approval"


@dataclass(frozen=True, slots=True)
class Pause:
    """The reason why no questions of a running job are generated.

    Args:
        reason: the reason.
        sentence: the reason as a sentence.
        budget_id: the exhausted budget; None if it is another reason.
    """

    reason: PauseReason
    sentence: str
    budget_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the API returns it.

    Args:
        id: its id; for other kinds than loads and reindexes the id of its own row.
        collection: name of its collection; None for the erasure of a tenant or a document.
        pause_reason: why it is paused; None unless it is paused by this reason.
        closed_at: when its client said that no more documents follow; None for an open load, and for other kinds.
        done: number of finished parts: documents, or queries of an evaluation.
        total: number of known parts; 0 if unknown.
        documents: its documents by state; only of loads, reindexes and builds.
        points: number of compared points of a gate or a verification; None for other kinds.
        needs_calls: whether workers make calls for its documents: a load or a reindex with chunks without questions,
            except in the batch lane.
        eta: time for the open documents at the rate of the last minute; None if nothing is open or nothing finished.
    """

    id: UUID
    kind: JobKind
    state: JobState
    collection: str | None
    pause_reason: PauseReason | None
    closed_at: datetime | None
    done: int
    total: int
    documents: Mapping[DocumentState, int]
    points: int | None
    error: str | None
    created_at: datetime
    ended_at: datetime | None
    needs_calls: bool = False
    eta: timedelta | None = None

    @property
    def lacks_questions(self) -> bool:
        """Whether it runs, and the texts of some of its documents are stored but not all of their questions."""
        return self.state is JobState.RUNNING and self.documents.get(DocumentState.SEARCHABLE, 0) > 0
