"""The reply with users' questions from the query log."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from shared.http.schemas.common import CHUNK_ID, QUERY_ID, ReplyModel, Share, example


class AskedQuestionView(ReplyModel):
    """A question, merged over its askers; case, spacing and final punctuation are ignored."""

    model_config = example(
        query_id=QUERY_ID,
        question="How much leave do I get?",
        times=3,
        found=True,
        best_score=0.71,
        helpful=None,
        helpful_chunk_id=None,
        chunk_ids=[CHUNK_ID],
        first_at="2026-10-01T09:30:00Z",
        last_at="2026-10-02T14:05:00Z",
    )

    query_id: UUID = Field(validation_alias="id", description="Id of the latest query with this question, for feedback")
    question: str = Field(description="The latest wording")
    times: int = Field(description="Number of queries with this question")
    found: bool = Field(description="Whether the latest query found an answer, or, without an answer, any chunk")
    best_score: Share | None = Field(
        description="Score of the first chunk that the latest query returned; null if it returned none"
    )
    helpful: bool | None = Field(description="The newest feedback; null if there is none")
    helpful_chunk_id: UUID | None = Field(description="The chunk of the newest feedback, if that is positive")
    chunk_ids: list[UUID] = Field(description="Chunks that the latest query returned")
    first_at: datetime
    last_at: datetime


class AskedQuestionPage(ReplyModel):
    retention_days: int = Field(
        description="Days for which questions are retained (FOREASK_QUERY_RETENTION_DAYS); 0 if they are not"
    )
    items: list[AskedQuestionView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
