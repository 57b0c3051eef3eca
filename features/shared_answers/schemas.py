"""The request and the replies of shared answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from shared.http.schemas.common import CHUNK_ID, DOCUMENT_ID, MESSAGE_CHARS, QUERY_ID, BodyModel, ReplyModel, example
from shared.query.answer import Form

_ANSWER = "You have 30 days of leave a year [1]."


class ShareBody(BodyModel):
    """An answer of POST /v1/query to the same key."""

    model_config = example(query_id=QUERY_ID, answer=_ANSWER, days=7)

    query_id: Annotated[UUID, Field(strict=False)] = Field(description="`metadata.query_id` of the reply")
    answer: str = Field(min_length=1, max_length=MESSAGE_CHARS, description="`answer` of the reply, unchanged")
    days: int | None = Field(
        None, ge=1, description="Days until the link expires; default and maximum: FOREASK_SHARED_ANSWER_RETENTION_DAYS"
    )


class SharedSourceView(ReplyModel):
    """A passage that the answer cites."""

    number: int = Field(description="Number in the answer, such as [1]")
    chunk_id: UUID
    document_id: UUID
    external_id: str
    filename: str | None
    title: str | None
    heading_path: list[str]
    page: int | None
    text: str
    sentences: list[tuple[int, int]] = Field(
        description="Start and end of each sentence in `text` that supports the answer; empty if none was identified"
    )


class SharedAnswerView(ReplyModel):
    model_config = example(
        id="7c1d4a52-9f6e-4b0a-8d21-6a5e0f3c9b17",
        collection="handbook",
        question="How much leave do I get?",
        answer=_ANSWER,
        form="generative",
        shared_by="website",
        created_at="2026-10-01T09:30:00Z",
        expires_at="2026-10-08T09:30:00Z",
        sources=[
            {
                "number": 1,
                "chunk_id": CHUNK_ID,
                "document_id": DOCUMENT_ID,
                "external_id": "leave.md",
                "filename": "leave.md",
                "title": "Leave",
                "heading_path": ["Leave"],
                "page": None,
                "text": "All staff get 30 days of leave a year.",
                "sentences": [[0, 38]],
            }
        ],
    )

    id: UUID = Field(description="Id in the address of the page, `/answers/{id}`")
    collection: str
    question: str = Field(description="The searched question")
    answer: str
    form: Form
    shared_by: str | None = Field(
        description="Name of the key that shared it; null for a key of the settings, or without keys"
    )
    created_at: datetime
    expires_at: datetime
    sources: list[SharedSourceView] = Field(description="In order of appearance, with their current content")
