"""Requests and replies of gaps: questions that the documents do not answer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from features.gaps.gap import StateName
from shared.http.schemas.common import (
    CHUNK_ID,
    CONTROLS,
    DOCUMENT_ID,
    QUERY_ID,
    BodyModel,
    ReplyModel,
    example,
    example_of,
)

GAP_ID = "1f6c2f0e-6d0c-4b53-9a55-2f3a8f0c4d21"


class GapChange(BodyModel):
    """Changes of a gap. A field that is absent is unchanged."""

    model_config = example(assigned_to="Ann", resolved_by=None)

    assigned_to: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        pattern=rf"^[^{CONTROLS}]*[^\s{CONTROLS}][^{CONTROLS}]*$",
        description="The person or team that closes the gap; null removes it",
    )
    resolved_by: Annotated[UUID, Field(strict=False)] | None = Field(
        None,
        description="Id of the document in the same collection that answers the questions; null opens the gap again",
    )


class GapQuestionView(ReplyModel):
    """A question of a gap, merged over its askers; case, spacing and final punctuation are ignored."""

    query_id: UUID = Field(description="Id of the latest query with this question")
    question: str
    times: int = Field(description="Number of queries with this question")
    last_at: datetime


class NearestPassageView(ReplyModel):
    """The passage with the highest score for a question of the gap."""

    chunk_id: UUID
    document_id: UUID
    external_id: str
    score: float


class ResolutionView(ReplyModel):
    """The document that answers the questions of the gap."""

    document_id: UUID
    external_id: str
    at: datetime


class GapView(ReplyModel):
    """Questions that mean the same and were not answered."""

    model_config = example(
        id=GAP_ID,
        question="May I bring my dog to the office?",
        questions=[
            {
                "query_id": QUERY_ID,
                "question": "May I bring my dog to the office?",
                "times": 7,
                "last_at": "2026-10-02T14:05:00Z",
            },
            {
                "query_id": "9a1e2d34-6f0b-4d6e-8c37-0d9b7a5e1c02",
                "question": "Are dogs allowed in the office",
                "times": 2,
                "last_at": "2026-10-01T09:30:00Z",
            },
        ],
        distinct_questions=2,
        times=9,
        per_day=[0, 1, 0, 0, 2, 4, 2],
        last_week=9,
        week_before=3,
        first_at="2026-09-20T08:00:00Z",
        last_at="2026-10-02T14:05:00Z",
        nearest={"chunk_id": CHUNK_ID, "document_id": DOCUMENT_ID, "external_id": "office.md", "score": 0.31},
        state="assigned",
        assigned_to="Ann",
        resolved_by=None,
    )

    id: UUID
    question: str = Field(description="The question that was asked most often")
    questions: list[GapQuestionView] = Field(description="Its questions, most often asked first, at most 20")
    distinct_questions: int = Field(description="Number of different questions")
    times: int = Field(description="Number of queries with these questions")
    per_day: list[int] = Field(description="Queries on each of the last `days` days in UTC; the last item is today")
    last_week: int = Field(description="Queries in the last 7 days")
    week_before: int = Field(description="Queries in the 7 days before")
    first_at: datetime
    last_at: datetime
    nearest: NearestPassageView | None = Field(description="null if no query returned a passage that still exists")
    state: StateName = Field(
        description="`open`; `assigned`; `resolved` if each of its questions was answered when asked last, or was"
        " not asked again since a document resolved the gap"
    )
    assigned_to: str | None
    resolved_by: ResolutionView | None = Field(
        description="The resolving document, also if the gap is open again; null if there is none, or it was deleted"
    )


class GapCounts(ReplyModel):
    """Number of gaps in each state."""

    open: int
    assigned: int
    resolved: int


class GapPage(ReplyModel):
    model_config = example(
        retention_days=30,
        days=7,
        ungrouped=0,
        delayed_by=None,
        counts={"open": 4, "assigned": 1, "resolved": 2},
        items=[example_of(GapView)],
        next_cursor=None,
    )

    retention_days: int = Field(
        description="Days for which questions are retained (FOREASK_QUERY_RETENTION_DAYS); 0 if they are not"
    )
    days: int = Field(description="Days of `per_day`")
    ungrouped: int = Field(
        description="Unanswered questions that are not in a gap yet; each request adds up to 500 of them"
    )
    delayed_by: str | None = Field(description="Why no questions were added to gaps; null if nothing prevents it")
    counts: GapCounts
    items: list[GapView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
