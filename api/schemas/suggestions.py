"""The reply with suggested questions."""

from __future__ import annotations

from uuid import UUID

from pydantic import Field

from shared.http.schemas.common import CHUNK_ID, DOCUMENT_ID, ReplyModel, example


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
