"""Requests and replies of jobs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from shared.domain import jobs
from shared.domain.jobs import Job, Pause, PauseReason
from shared.domain.states import DocumentState
from shared.domain.time_left import ChunkProgress
from shared.http.schemas.common import ONE_LINE, BodyModel, CollectionName, ReplyModel, example, example_of

_JOB_ID = "0198f3a1-77aa-7c3a-9d70-3c1b5e8f2a51"
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=200, pattern=ONE_LINE)]


# Comments instead of docstrings, which would be a part of the API's description.
class JobKind(StrEnum):  # the kinds of jobs that users see
    LOAD = jobs.JobKind.LOAD.value
    SYNC = jobs.JobKind.SYNC.value
    REINDEX = jobs.JobKind.REINDEX.value
    BUILD = jobs.JobKind.BUILD.value
    EVALUATION = jobs.JobKind.EVALUATION.value
    GATE = jobs.JobKind.GATE.value
    VERIFICATION = jobs.JobKind.VERIFICATION.value
    ERASURE = jobs.JobKind.ERASURE.value


class JobState(StrEnum):  # the states of a listed job: a queued one is shown as running
    RUNNING = jobs.JobState.RUNNING.value
    PAUSED = jobs.JobState.PAUSED.value
    CANCELLING = jobs.JobState.CANCELLING.value
    CANCELLED = jobs.JobState.CANCELLED.value
    DONE = jobs.JobState.DONE.value
    DONE_WITH_ERRORS = jobs.JobState.DONE_WITH_ERRORS.value
    FAILED = jobs.JobState.FAILED.value


class RunPhase(StrEnum):  # the states of a worker's part of a job, as the routes of its kind show it
    QUEUED = jobs.JobState.QUEUED.value
    RUNNING = jobs.JobState.RUNNING.value
    DONE = jobs.JobState.DONE.value
    FAILED = jobs.JobState.FAILED.value
    CANCELLED = jobs.JobState.CANCELLED.value


class JobBody(BodyModel):
    """A load: a job whose documents the client uploads."""

    model_config = example(collection="handbook", idempotency_key="nightly-export", documents=1250)

    kind: Literal["load"] = "load"
    collection: CollectionName = "default"
    idempotency_key: IdempotencyKey | None = Field(
        None, description="Name that no other open load of the tenant has. If one has it, the reply is 409 with its id"
    )
    documents: int | None = Field(
        None, ge=0, le=2**31 - 1, description="Number of documents that will be uploaded; null if unknown"
    )
    reopen: bool = Field(
        default=False, description="Return the open load with the same key instead of 409. It accepts documents again"
    )


class JobView(ReplyModel):
    """A job of any kind."""

    model_config = example(
        id=_JOB_ID,
        kind="load",
        state="running",
        collection="handbook",
        pause_reason=None,
        budget_id=None,
        closed=False,
        done=640,
        total=1250,
        documents={"queued": 600, "searchable": 10, "ready": 639, "failed": 1},
        points=None,
        chunks_done=4180,
        chunks_total=8150,
        eta_seconds=95,
        cost=0.0412,
        message=None,
        error=None,
        created_at="2026-10-01T09:00:00Z",
        ended_at=None,
    )

    id: UUID = Field(description="Id of the job; for other kinds than loads and reindexes the id of its own")
    kind: JobKind
    state: JobState = Field(description="`done_with_errors`: some of its documents are degraded or failed")
    collection: str | None = Field(description="null for the erasure of a tenant or a document")
    pause_reason: PauseReason | None = Field(
        description="Reason of a pause; null without one. With `budget` or `provider` the state is `running`: texts are"
        " indexed, but no questions are generated"
    )
    budget_id: UUID | None = Field(description="Id of the exhausted budget, if this is the reason")
    closed: bool = Field(description="Whether the client of a load has said that no more documents follow")
    done: int = Field(
        description="Number of finished parts out of `total`: documents, or queries of an evaluation. A gate or a"
        " verification compares all points first"
    )
    total: int
    documents: dict[DocumentState, int] = Field(
        description="Its documents by state. A document counts for the job that changed it last"
    )
    points: int | None = Field(
        description="Number of compared points of a gate or a verification; null for other kinds"
    )
    chunks_done: int | None = Field(
        description="Number of finished chunks of an open load, sync or reindex; null for others and before the first"
    )
    chunks_total: int | None = Field(
        description="Number of its chunks, with the expected ones of documents that are not parsed; null if unknown"
    )
    eta_seconds: int | None = Field(
        description="Time for its chunks and for the work before it, at the pace of the last minutes: never longer than"
        " `eta_seconds` of `GET /v1/status`; null without evidence, or while something stops it"
    )
    cost: float | None = Field(
        description="Costs of the calls of a load, a sync or a reindex with a known price; null if there are none"
    )
    message: str | None = Field(description="Reason, if the job waits for a person or a client")
    error: str | None
    created_at: datetime
    ended_at: datetime | None = Field(description="null while it is open, and for builds")


class JobPage(ReplyModel):
    model_config = example(items=[example_of(JobView)], next_cursor=None)

    items: list[JobView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")


def view(
    job: Job,
    cost: float | None,
    pause: Pause | None = None,
    *,
    eta_seconds: int | None = None,
    chunks: ChunkProgress | None = None,
) -> JobView:
    """Return the view of a job.

    Args:
        job: the job.
        cost: costs of its calls; None if unknown.
        pause: the reason why no questions are generated while it runs.
        eta_seconds: the time left; None if unknown.
        chunks: its progress in chunks; None for jobs without.
    """
    return JobView(
        id=job.id,
        kind=JobKind(job.kind),
        state=JobState(job.state),
        collection=job.collection,
        pause_reason=job.pause_reason if pause is None else pause.reason,
        budget_id=None if pause is None else pause.budget_id,
        closed=job.closed_at is not None,
        done=job.done,
        total=job.total,
        documents=dict(job.documents),
        points=job.points,
        chunks_done=None if chunks is None else chunks.done,
        chunks_total=None if chunks is None else chunks.total,
        eta_seconds=eta_seconds if pause is None else None,
        cost=cost,
        message=_message(job) if pause is None else pause.sentence,
        error=job.error,
        created_at=job.created_at,
        ended_at=job.ended_at,
    )


_PAUSED_BY = {
    PauseReason.USER: "Paused by a user.",
    PauseReason.BUDGET: "Paused: its budget is used up.",
    PauseReason.PROVIDER: "Paused: the provider fails.",
    PauseReason.DISK: "Paused: the disk is nearly full.",
    PauseReason.APPROVAL: "Paused: deletions of its source need approval.",
}


def _message(job: Job) -> str | None:
    if job.pause_reason is not None:
        return _PAUSED_BY[job.pause_reason]
    known = sum(job.documents.values())
    if (
        job.kind is jobs.JobKind.LOAD
        and job.state is jobs.JobState.RUNNING
        and job.closed_at is None
        and job.done == known
    ):
        finished = f"All {known:,} uploaded documents are finished" if known else "No document has been uploaded"
        return f"{finished}. The job ends when its client closes it: POST /v1/jobs/{job.id}/close."
    return None
