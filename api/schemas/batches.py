"""Replies about batches."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AliasPath, BeforeValidator, Field

from shared.domain.states import BatchState
from shared.http.schemas.common import ReplyModel, example, example_of, whole_seconds

_BATCH_ID = "8c0b6a1e-52d7-4f0b-9a3e-6d2f41c7b985"
_JOB_ID = "0198f3a1-77aa-7c3a-9d70-3c1b5e8f2a51"


class BatchView(ReplyModel):
    """A batch: requests for the questions of chunks, which the provider's batch API answers within a day."""

    model_config = example(
        id=_BATCH_ID,
        part_of=None,
        state="running",
        model="gpt-4.1-nano",
        jobs=[_JOB_ID],
        lines=18250,
        settled=0,
        done=11400,
        bytes=66900000,
        provider_id="batch_68d2c1f0a9",
        prompt_tokens=0,
        completion_tokens=0,
        cost=None,
        age_seconds=4210,
        error=None,
        created_at="2026-10-01T09:00:00Z",
        submitted_at="2026-10-01T09:02:10Z",
        progressed_at="2026-10-01T10:09:50Z",
        cancelled_at=None,
        ended_at=None,
    )

    id: UUID
    part_of: UUID | None = Field(
        validation_alias="root_id",
        description="Id of the batch that the provider rejected, and whose requests were divided; null otherwise",
    )
    state: BatchState = Field(
        description="`collecting`: its results are being stored; `failed`: no result was stored, see `error`"
    )
    model: str
    jobs: list[UUID] = Field(
        validation_alias="job_ids", description="Ids of the jobs of its documents when it was planned"
    )
    lines: int = Field(description="Number of its requests, each for the questions of a chunk")
    settled: int = Field(description="Number of requests whose result is stored, or that another batch or call repeats")
    done: int = Field(description="Number of requests with a result at the provider")
    bytes: int = Field(description="Size of its file")
    provider_id: str | None = Field(description="The provider's id of the batch; null until the provider has it")
    prompt_tokens: int = Field(
        validation_alias=AliasPath("usage", "prompt_tokens"),
        description="Tokens of the prompts of stored results; in all results when it has ended",
    )
    completion_tokens: int = Field(validation_alias=AliasPath("usage", "completion_tokens"))
    cost: float | None = Field(description="Cost of these tokens; null if there are none, or the price is unknown")
    age_seconds: Annotated[int, BeforeValidator(whole_seconds)] = Field(
        validation_alias="age", description="Time since its creation, until its end"
    )
    error: str | None = Field(description="Reason why it has failed")
    created_at: datetime
    submitted_at: datetime | None = Field(description="When the provider got it; null until then")
    progressed_at: datetime = Field(description="When `state` or `done` last changed")
    cancelled_at: datetime | None = Field(description="When it was cancelled; the provider ends it later")
    ended_at: datetime | None = Field(description="When all of its requests were settled; null while it is open")


class BatchPage(ReplyModel):
    model_config = example(items=[example_of(BatchView)], next_cursor=None)

    items: list[BatchView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
