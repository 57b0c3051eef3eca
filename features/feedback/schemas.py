"""Requests and replies of feedback, accepted questions, users' questions and suggested questions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from features.feedback.domain import FeedbackOutcome
from shared.domain.states import AcceptedState
from shared.http.schemas.common import (
    ACCEPTED_ID,
    CHUNK_ID,
    DOCUMENT_ID,
    QUERY_ID,
    QUESTION_CHARS,
    BodyModel,
    ReplyModel,
    Share,
    example,
)


class FeedbackBody(BodyModel):
    """Whether a chunk answered the question of a query that returned it."""

    model_config = example(query_id=QUERY_ID, chunk_id=CHUNK_ID, helpful=True)

    query_id: Annotated[UUID, Field(strict=False)] = Field(
        description="`metadata.query_id` of the reply to a query with the same key; with the scope `manage`, to any"
        " query"
    )
    chunk_id: Annotated[UUID, Field(strict=False)]
    helpful: bool = Field(
        description="`true` adds the question to the chunk; `false` retracts it, if the key added it or has the scope"
        " `manage`"
    )


class AcceptBody(BodyModel):
    """A question that a chunk answers."""

    model_config = example(question="How much leave do I get?", chunk_id=CHUNK_ID)

    question: str = Field(min_length=1, max_length=QUESTION_CHARS, pattern=r"\S")
    chunk_id: Annotated[UUID, Field(strict=False)]


class FeedbackReply(ReplyModel):
    """The result of the feedback."""

    model_config = example(
        outcome="accepted",
        chunk_id=CHUNK_ID,
        question="How much leave do I get?",
        accepted_id=ACCEPTED_ID,
    )

    outcome: FeedbackOutcome = Field(
        description="`already_asked`: the chunk has this question already; `chunk_full`: the chunk has the maximum"
        " number of accepted questions, none of them accepted by this key; `pending_review`: a key with the scope"
        " `manage` has to accept it; `not_accepted`: there was nothing that this key may retract"
    )
    chunk_id: UUID
    question: str
    accepted_id: UUID | None = Field(description="Id of the accepted question; null if it was never accepted")


class AcceptedQuestionView(ReplyModel):
    """A user's question that was accepted for a chunk."""

    model_config = example(
        id=ACCEPTED_ID,
        document_id=DOCUMENT_ID,
        external_id="leave.md",
        chunk_id=CHUNK_ID,
        question="How much leave do I get?",
        query_id=QUERY_ID,
        accepted_by=None,
        state="indexed",
        created_at="2026-10-01T09:30:00Z",
    )

    id: UUID
    document_id: UUID
    external_id: str
    chunk_id: UUID
    question: str
    query_id: UUID | None
    accepted_by: UUID | None = Field(description="Id of the key whose feedback accepted it; null for an editor")
    state: AcceptedState = Field(
        description="`waiting`: the question is indexed when its document is not being processed and its chunk is not"
        " dead. `refused`: the embedding model rejects it"
    )
    created_at: datetime


class AcceptedPage(ReplyModel):
    items: list[AcceptedQuestionView]
    next_cursor: str | None = Field(description="null on the last page")


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


class SuggestionView(ReplyModel):
    """A generated question, or one submitted with its document, that passed the filter."""

    model_config = example(question="How many days of leave do I get?", document_id=DOCUMENT_ID, chunk_id=CHUNK_ID)

    question: str
    document_id: UUID
    chunk_id: UUID = Field(description="The chunk that answers the question")


class SuggestionList(ReplyModel):
    model_config = example(
        items=[{"question": "How many days of leave do I get?", "document_id": DOCUMENT_ID, "chunk_id": CHUNK_ID}]
    )

    items: list[SuggestionView] = Field(
        description="At most one question for each document; empty while no document is `ready`"
    )
