"""Replies about chunks and their questions."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from api.schemas.common import ACCEPTED_ID, CHUNK_ID, DOCUMENT_ID, QUERY_ID, ReplyModel, example, example_of
from api.schemas.dead_letters import AttemptView
from api.schemas.documents import DocumentView, IngestUsage
from shared.domain.questions import QuestionSource
from shared.domain.states import AcceptedState, ChunkState


class AcceptanceView(ReplyModel):
    """How the chunk came to a user's question."""

    id: UUID = Field(description="of the accepted question")
    state: AcceptedState
    query_id: UUID | None = Field(description="the query whose feedback it was")
    at: datetime


class ChunkQuestion(ReplyModel):
    text: str
    passed: bool | None = Field(description="null: not filtered yet, or a user's question that is not indexed yet")
    reason: str | None = Field(description="why it was dropped")
    source: QuestionSource = Field(description="who wrote it: the model, the document's owner or a user")
    similarity: float | None = Field(description="to the chunk's text; null: not compared")
    accepted: AcceptanceView | None = Field(description="of a user's question")


class ChunkView(ReplyModel):
    model_config = example(
        id=CHUNK_ID,
        document_id=DOCUMENT_ID,
        version=1,
        ordinal=0,
        text="Everybody has 30 days of leave a year.",
        title="Leave",
        heading_path=["Leave"],
        span=[9, 47],
        section=None,
        page=None,
        language="en",
        state="indexed",
        error=None,
        attempts=[],
        usage={"prompt_tokens": 412, "completion_tokens": 57, "calls": 1, "cost": 0.0001},
        questions=[
            {
                "text": "How many days of leave are there?",
                "passed": True,
                "reason": None,
                "source": "generated",
                "similarity": 0.71,
                "accepted": None,
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
            },
        ],
    )

    id: UUID
    document_id: UUID
    version: int = Field(description="of the document")
    ordinal: int = Field(description="its place in the document, from 0 on")
    text: str
    title: str | None = Field(description="of the document, when the chunk was made")
    heading_path: list[str]
    span: tuple[int, int] = Field(description="where the chunk stands in the document's text")
    section: tuple[int, int] | None = Field(description="the span of its section, where the collection has sections")
    page: int | None
    language: str | None = Field(description="of the text, as ISO 639-1 names it; null: unknown")
    state: ChunkState
    error: str | None
    attempts: list[AttemptView] = Field(description="those that failed, at most the last 20, in order")
    usage: IngestUsage = Field(description="what its questions have cost")
    questions: list[ChunkQuestion] = Field(description="users' questions come last")


class ChunkPage(ReplyModel):
    items: list[ChunkView]
    next_cursor: str | None = Field(description="null on the last page")
    previous_cursor: str | None = Field(description="null on the first page")


class ChunkInContextView(ReplyModel):
    """A chunk with its document, and the chunks around it in their order."""

    model_config = example(document=example_of(DocumentView), before=[], chunk=example_of(ChunkView), after=[])

    document: DocumentView
    before: list[ChunkView]
    chunk: ChunkView
    after: list[ChunkView]
