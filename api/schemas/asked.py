"""The reply about users' questions, as the log of queries has them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from api.schemas.common import CHUNK_ID, QUERY_ID, ReplyModel, example


class AskedQuestionView(ReplyModel):
    """A question, merged over its askers; case, spacing and final punctuation are ignored."""

    model_config = example(
        query_id=QUERY_ID,
        question="How much leave do I get?",
        times=3,
        found=True,
        best_score=0.71,
        helpful=None,
        chunk_ids=[CHUNK_ID],
        first_at="2026-10-01T09:30:00Z",
        last_at="2026-10-02T14:05:00Z",
    )

    query_id: UUID = Field(description="of the last query, for feedback")
    question: str = Field(description="as it was put last")
    times: int = Field(description="how often it was put")
    found: bool = Field(description="whether the documents answered it last: by an answer, or else by any chunk")
    best_score: float | None = Field(description="the highest score of the chunks returned last; null: there was none")
    helpful: bool | None = Field(description="by the newest feedback on it; null: there was none")
    chunk_ids: list[UUID] = Field(description="the chunks that were returned last")
    first_at: datetime
    last_at: datetime


class AskedQuestionPage(ReplyModel):
    kept_days: int = Field(description="how long questions are kept, FOREASK_QUERY_RETENTION_DAYS; 0: none are")
    items: list[AskedQuestionView]
    next_cursor: str | None = Field(description="null on the last page")
