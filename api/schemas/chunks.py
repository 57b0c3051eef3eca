"""Replies about chunks and their questions."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import AliasPath, Field

from api.schemas.dead_letters import AttemptView
from api.schemas.documents import DocumentView, IngestUsage
from shared.domain.corpus.questions import QuestionSource
from shared.domain.states import AcceptedState, ChunkState
from shared.http.schemas.chunks import ChunkContextView
from shared.http.schemas.common import (
    ACCEPTED_ID,
    CHUNK_ID,
    DOCUMENT_ID,
    QUERY_ID,
    QUESTION_CHARS,
    BodyModel,
    ReplyModel,
    example,
    example_of,
)


class QuestionChange(BodyModel):
    """Whether searches exclude a question of a chunk."""

    model_config = example(question="How many days of leave do I get?", disabled=True)

    question: str = Field(
        min_length=1,
        max_length=QUESTION_CHARS,
        pattern=r"\S",
        description="A generated or ready-made question of the chunk; case, spacing and final punctuation are ignored",
    )
    disabled: bool


class AcceptanceView(ReplyModel):
    """Origin and state of an accepted user question."""

    id: UUID = Field(description="Id of the accepted question")
    state: AcceptedState
    query_id: UUID | None = Field(description="Query that received the feedback")
    at: datetime


class ChunkQuestion(ReplyModel):
    text: str
    passed: bool | None = Field(
        description="Result of the question filter; null if it is pending, or if a user's question is not indexed yet"
    )
    reason: str | None = Field(description="Reason why the filter dropped the question")
    source: QuestionSource = Field(description="Author: the model, the owner of the document, or a user")
    similarity: float | None = Field(
        description="Cosine similarity to the text of the chunk; null if it was not measured"
    )
    accepted: AcceptanceView | None = Field(description="Acceptance; null unless a user asked the question")
    disabled: bool = Field(description="Whether searches exclude the question, although it passed")
    disabled_by: str | None = Field(
        description="Name of the key that disabled it; null without keys, or if it is not disabled"
    )
    disabled_at: datetime | None


class ChunkView(ReplyModel):
    model_config = example(
        id=CHUNK_ID,
        document_id=DOCUMENT_ID,
        version=1,
        ordinal=0,
        text="All staff get 30 days of leave a year.",
        title="Leave",
        heading_path=["Leave"],
        span=[9, 47],
        section=None,
        page=None,
        confidence=None,
        language="en",
        state="indexed",
        error=None,
        attempts=[],
        usage={"prompt_tokens": 412, "completion_tokens": 57, "calls": 1, "cost": 0.0001},
        questions=[
            {
                "text": "How many days of leave do I get?",
                "passed": True,
                "reason": None,
                "source": "generated",
                "similarity": 0.71,
                "accepted": None,
                "disabled": False,
                "disabled_by": None,
                "disabled_at": None,
            },
            {
                "text": "How much vacation do I get?",
                "passed": True,
                "reason": None,
                "source": "user",
                "similarity": None,
                "accepted": {
                    "id": ACCEPTED_ID,
                    "state": "indexed",
                    "query_id": QUERY_ID,
                    "at": "2026-10-02T08:00:00Z",
                },
                "disabled": False,
                "disabled_by": None,
                "disabled_at": None,
            },
        ],
        disabled_questions=0,
        context={"line": "Staff handbook of Acme, about annual leave.", "terms": ["vacation", "days off", "PTO"]},
    )

    id: UUID
    document_id: UUID
    version: int = Field(description="Version of the document")
    ordinal: int = Field(description="Position in the document, from 0")
    text: str = Field(validation_alias=AliasPath("content", "text"))
    title: str | None = Field(
        validation_alias=AliasPath("content", "title"), description="Title of the document when the chunk was created"
    )
    heading_path: list[str] = Field(validation_alias=AliasPath("content", "heading_path"))
    span: tuple[int, int] = Field(
        validation_alias=AliasPath("content", "span"), description="Start and end in the extracted text, in characters"
    )
    section: tuple[int, int] | None = Field(
        validation_alias=AliasPath("content", "section"),
        description="Start and end of the section; null if the collection has no sections",
    )
    page: int | None = Field(validation_alias=AliasPath("content", "page"))
    confidence: int | None = Field(
        validation_alias=AliasPath("content", "confidence"),
        description="Mean confidence of the words of scanned pages, from 0 to 100; null if no page was read by OCR."
        " Below 60 no questions are generated",
    )
    language: str | None = Field(
        validation_alias=AliasPath("content", "language"),
        description="Language of the text (ISO 639-1); null if unknown",
    )
    state: ChunkState
    error: str | None
    attempts: list[AttemptView] = Field(
        validation_alias="history", description="The last failed attempts, at most 20, oldest first"
    )
    usage: IngestUsage = Field(description="Cost of generating the questions")
    questions: list[ChunkQuestion] = Field(description="Questions of the chunk; users' questions come last")
    disabled_questions: int = Field(description="Number of its disabled questions")
    context: ChunkContextView | None = Field(
        description="Context of the chunk, with which its text is embedded and indexed; null without the collection's"
        " option `context`, and until the questions exist"
    )


class ChunkPage(ReplyModel):
    items: list[ChunkView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
    previous_cursor: str | None = Field(description="Cursor of the previous page; null on the first page")


class ChunkInContextView(ReplyModel):
    """A chunk with its document and its neighbours, in document order."""

    model_config = example(document=example_of(DocumentView), before=[], chunk=example_of(ChunkView), after=[])

    document: DocumentView
    before: list[ChunkView]
    chunk: ChunkView
    after: list[ChunkView]
