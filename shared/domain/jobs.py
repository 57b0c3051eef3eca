"""Jobs: long work with a state and progress.

A job either has documents, which the stages of the ingest process, or one worker that claims it. A sync has both: its
worker lists the source, and the job ends when its documents are processed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
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
    # Users do not see the jobs of these kinds.
    LOOKUP = "lookup"  # entries of a source that hints name are looked up
    SOURCE_CHECK = "source_check"  # the first entries of a source are listed before it is added


HIDDEN_JOBS = frozenset({JobKind.LOOKUP, JobKind.SOURCE_CHECK})  # no list of jobs has these
JOBS_OF_PARSERS = HIDDEN_JOBS | {JobKind.SYNC}  # parse workers claim these, and index workers all others
_WITH_DOCUMENTS = frozenset({JobKind.LOAD, JobKind.SYNC, JobKind.REINDEX, JobKind.BUILD})


class JobState(StrEnum):
    QUEUED = "queued"  # no worker works on it: its claim shows that, and its row says `running`
    RUNNING = "running"
    PAUSED = "paused"  # no worker claims its documents and chunks
    CANCELLING = "cancelling"  # its queued documents are being deleted, and others finish
    CANCELLED = "cancelled"
    DONE = "done"
    DONE_WITH_ERRORS = "done_with_errors"  # some of its documents are degraded or failed
    FAILED = "failed"  # only jobs with a worker


OPEN_STATES = (JobState.QUEUED, JobState.RUNNING, JobState.PAUSED, JobState.CANCELLING)


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
        id: its id; for builds and erasures the id of their own row.
        collection: name of its collection; None for the erasure of a tenant or a document.
        pause_reason: why it is paused; None unless it is paused by this reason.
        closed_at: when its client said that no more documents follow; None for an open load, and for other kinds.
        done: number of finished parts: documents, or queries of an evaluation.
        total: number of known parts; 0 if unknown.
        documents: its documents by state; only of loads, reindexes and builds.
        points: number of compared points of a gate or a verification; None for other kinds.
        needs_calls: whether workers make calls for its documents: a load or a reindex with chunks without questions,
            except in the batch lane.
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

    @property
    def has_open_documents(self) -> bool:
        """Whether it is open, and of a kind with documents."""
        return self.kind in _WITH_DOCUMENTS and self.state in OPEN_STATES

    @property
    def lacks_questions(self) -> bool:
        """Whether it runs, and the texts of some of its documents are stored but not all of their questions."""
        return self.state is JobState.RUNNING and self.documents.get(DocumentState.SEARCHABLE, 0) > 0


@dataclass(frozen=True, slots=True)
class JobClaim:
    """A worker's claim on a job. A result with an outdated token has no effect.

    Args:
        collection: name of the job's collection.
        lost_leases: number of earlier claims whose worker died.
    """

    id: UUID
    kind: JobKind
    tenant: str
    collection: str
    token: int
    lost_leases: int
