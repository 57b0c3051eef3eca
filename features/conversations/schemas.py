"""Requests and replies of conversations that the server stores for a key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from shared.http.schemas.common import (
    CHUNK_ID,
    DOCUMENT_ID,
    QUERY_ID,
    QUESTION_CHARS,
    BodyModel,
    CollectionName,
    Moment,
    ReplyModel,
    example,
    example_of,
)

ConversationId = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Id that the client has chosen for the conversation")
]
_Id = Annotated[UUID, Field(strict=False)]
_OLDEST = datetime(2000, 1, 1, tzinfo=UTC)
_NAME_CHARS = 200
_MOST_TURNS = 500
_MOST_SOURCES = 200  # as many as a query returns
_CHANGED_AT = "2026-10-01T09:30:00Z"


class CitedSource(BodyModel):
    """A passage that an answer cites, without its text."""

    number: int = Field(ge=1, description="Number in the answer, such as [1]")
    chunk_id: _Id
    document_id: _Id
    external_id: str
    title: str | None
    filename: str | None
    heading_path: list[str]
    page: int | None
    sentences: list[Annotated[tuple[int, int], Field(strict=False)]] = Field(
        [], description="Start and end of each sentence in the passage that supports the answer"
    )


class ConversationTurn(BodyModel):
    """A question with its answer."""

    question: str = Field(min_length=1, max_length=QUESTION_CHARS)
    searched: str = Field(description="The searched question, which was rewritten if it followed another one")
    collection: CollectionName
    answer: str
    form: str = Field(max_length=40, description="Form of the answer, such as `generative`; empty if it was stopped")
    found: bool
    certain: bool = True
    incomplete_reason: str | None = Field(
        None, max_length=40, description="Why the answer is incomplete; null if it is complete"
    )
    stopped: bool
    query_id: _Id | None
    sources: list[CitedSource] = Field(max_length=_MOST_SOURCES)
    document_ids: list[_Id] = Field(
        [],
        max_length=_MOST_SOURCES,
        description="Documents of all passages that the answer was written from; an erasure of one deletes the"
        " conversation",
    )


_TURN = {
    "question": "How much leave do I get?",
    "searched": "How much leave do I get?",
    "collection": "handbook",
    "answer": "You have 30 days of leave a year [1].",
    "form": "generative",
    "found": True,
    "certain": True,
    "incomplete_reason": None,
    "stopped": False,
    "query_id": QUERY_ID,
    "sources": [
        {
            "number": 1,
            "chunk_id": CHUNK_ID,
            "document_id": DOCUMENT_ID,
            "external_id": "leave.md",
            "title": "Leave",
            "filename": "leave.md",
            "heading_path": ["Leave"],
            "page": None,
            "sentences": [[0, 38]],
        }
    ],
    "document_ids": [DOCUMENT_ID],
}


class ConversationBody(BodyModel):
    """A conversation, which replaces the stored one unless that was changed later."""

    model_config = example(name="How much leave do I get?", changed_at=_CHANGED_AT, turns=[_TURN])

    name: str = Field(min_length=1, max_length=_NAME_CHARS)
    changed_at: Annotated[Moment, Field(ge=_OLDEST)] = Field(
        description="Time of the change; a time in the future counts as now"
    )
    turns: list[ConversationTurn] = Field(min_length=1, max_length=_MOST_TURNS)


class StoredConversationView(ReplyModel):
    model_config = example(id="k3j9x2m7", changed_at=_CHANGED_AT)

    id: str
    changed_at: datetime = Field(
        description="Time of the stored change. If it is later than the request's, that one is stored and nothing was"
        " changed"
    )


class ConversationView(ReplyModel):
    model_config = example(id="k3j9x2m7", name="How much leave do I get?", changed_at=_CHANGED_AT, turns=[_TURN])

    id: str
    name: str
    changed_at: datetime
    turns: list[ConversationTurn]


class ConversationPage(ReplyModel):
    model_config = example(items=[example_of(ConversationView)], next_cursor=None)

    items: list[ConversationView]
    next_cursor: str | None
