"""Requests and replies of feedback, accepted questions, users' questions and suggested questions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AliasPath, Field

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
from shared.http.schemas.queries import QueryUsage
from shared.ledger.feedback.query_log import QueryState
from shared.query.answer import Form, IncompleteReason

KEY_ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
_STATE = (
    "`certain`: the answer cites a passage that surely is about the question; `uncertain`: it may not; `none`: the"
    " documents do not answer the question; `passages`: passages were returned, and no answer was written"
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
        state="certain",
        best_score=0.71,
        helpful=None,
        helpful_chunk_id=None,
        chunk_ids=[CHUNK_ID],
        key_id=KEY_ID,
        key_name="intranet",
        first_at="2026-10-01T09:30:00Z",
        last_at="2026-10-02T14:05:00Z",
    )

    query_id: UUID = Field(validation_alias="id", description="Id of the latest query with this question, for feedback")
    question: str = Field(description="The latest wording")
    times: int = Field(description="Number of queries with this question")
    found: bool = Field(description="Whether the latest query found an answer, or, without an answer, any chunk")
    state: QueryState = Field(description=f"Result of the latest query. {_STATE}")
    best_score: Share | None = Field(
        description="Score of the first chunk that the latest query returned; null if it returned none"
    )
    helpful: bool | None = Field(description="The newest feedback; null if there is none")
    helpful_chunk_id: UUID | None = Field(description="The chunk of the newest feedback, if that is positive")
    chunk_ids: list[UUID] = Field(description="Chunks that the latest query returned")
    key_id: UUID | None = Field(
        description="The key that sent the latest query; null for a key of the settings, or without keys"
    )
    key_name: str | None
    first_at: datetime
    last_at: datetime


class AskedQuestionPage(ReplyModel):
    retention_days: int = Field(
        description="Days for which questions are retained (FOREASK_QUERY_RETENTION_DAYS); 0 if they are not"
    )
    total: int = Field(description="Number of questions that pass the filters, from the newest 10,000 queries")
    items: list[AskedQuestionView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")


class PassageSourceView(ReplyModel):
    """The document of a passage, as it is now."""

    document_id: UUID
    external_id: str
    filename: str | None
    title: str | None = Field(validation_alias=AliasPath("content", "title"))
    heading_path: list[str] = Field(validation_alias=AliasPath("content", "heading_path"))
    page: int | None = Field(validation_alias=AliasPath("content", "page"))
    text: str = Field(
        validation_alias=AliasPath("content", "text"), description="Empty if the key lacks the scope `read`"
    )


class LoggedPassageView(ReplyModel):
    """A passage that a query returned."""

    number: int = Field(description="Number in the answer, such as [1]")
    chunk_id: UUID
    score: Share | None = Field(description="null if it is unknown")
    cited: bool = Field(description="Whether the answer cites it")
    source: PassageSourceView | None = Field(
        description="Its document and its text; null if it was changed or deleted since"
    )


class LoggedQueryView(ReplyModel):
    """A query with its result, as it was logged."""

    model_config = example(
        query_id=QUERY_ID,
        collection="handbook",
        question="How much leave do I get?",
        state="certain",
        answer="You get 30 days of leave a year. [1]",
        answers_stored=True,
        form="generative",
        incomplete_reason=None,
        passages=[
            {
                "number": 1,
                "chunk_id": CHUNK_ID,
                "score": 0.71,
                "cited": True,
                "source": {
                    "document_id": DOCUMENT_ID,
                    "external_id": "leave.md",
                    "filename": "leave.md",
                    "title": "Leave",
                    "heading_path": ["Leave"],
                    "page": None,
                    "text": "All staff get 30 days of leave a year.",
                },
            }
        ],
        helpful=None,
        helpful_chunk_id=None,
        gap_id=None,
        key_id=KEY_ID,
        key_name="intranet",
        milliseconds={"embed": 8.1, "search": 12.4, "answer": 910.2, "total": 941.7},
        usage={"prompt_tokens": 1480, "completion_tokens": 21},
        cost=0.0004,
        created_at="2026-10-02T14:05:00Z",
    )

    query_id: UUID = Field(validation_alias="id")
    collection: str
    question: str
    state: QueryState = Field(description=f"Result of the query. {_STATE}")
    answer: str | None = Field(
        description="Text of the answer, with numbers of passages; null if it is not stored"
        " (FOREASK_QUERY_ANSWERS), none was written, a passage that it cites was changed or deleted since, or the key"
        " lacks the scope `read`"
    )
    answers_stored: bool = Field(description="Whether answers are stored now (FOREASK_QUERY_ANSWERS)")
    form: Form | None = Field(validation_alias=AliasPath("outcome", "form"), description="null without an answer")
    incomplete_reason: IncompleteReason | None = Field(validation_alias=AliasPath("outcome", "incomplete_reason"))
    passages: list[LoggedPassageView]
    helpful: bool | None = Field(description="The last feedback on this query; null if there is none")
    helpful_chunk_id: UUID | None = Field(description="The chunk of this feedback, if it is positive")
    gap_id: UUID | None = Field(description="The gap that the question belongs to; null if it is in none")
    key_id: UUID | None = Field(description="The key that asked; null for a key of the settings, or without keys")
    key_name: str | None
    milliseconds: dict[str, float] = Field(
        validation_alias=AliasPath("outcome", "milliseconds"),
        description="Duration of each stage and, with an answer, `total`",
    )
    usage: QueryUsage = Field(
        validation_alias=AliasPath("outcome", "usage"), description="Tokens of the language model"
    )
    cost: float | None = Field(
        description="Cost of the language model's calls, in the currency of the prices; null if their price is unknown"
    )
    created_at: datetime


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
