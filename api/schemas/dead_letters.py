"""Requests and replies of dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from shared.http.schemas.common import CHUNK_ID, DOCUMENT_ID, BodyModel, CollectionName, ReplyModel, example

Reason = Annotated[
    str, Field(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$", description="The complete text of the reason")
]


class DeadLetterFilter(BodyModel):
    """A selection of dead letters. Each field narrows it."""

    model_config = example(collection="handbook", reason="the provider's content filter stopped the reply")

    document_id: Annotated[UUID, Field(strict=False)] | None = None
    collection: CollectionName | None = None
    reason: Reason | None = None
    letter_id: Annotated[UUID, Field(strict=False)] | None = None
    all: bool = Field(
        default=False,
        description="Select all dead letters; requires that no other field is set. Required to discard all",
    )

    @model_validator(mode="after")
    def _all_or_some(self) -> Self:
        if self.all and self.is_narrowed:
            raise ValueError("Set either `all` or the fields that narrow the choice, not both.")
        return self

    @property
    def is_narrowed(self) -> bool:
        return any(value is not None for value in (self.document_id, self.collection, self.reason, self.letter_id))


class AttemptView(ReplyModel):
    at: datetime
    attempt: int
    error: str


_LETTER_EXAMPLE = {
    "id": CHUNK_ID,
    "kind": "chunk",
    "document_id": DOCUMENT_ID,
    "external_id": "leave.md",
    "collection": "handbook",
    "ordinal": 0,
    "reason": "the provider's content filter stopped the reply",
    "attempts": 1,
    "at": "2026-10-01T09:20:00Z",
}


class DeadLetterView(ReplyModel):
    """A document that cannot be parsed, a page that cannot be read, or a dead chunk."""

    model_config = example(**_LETTER_EXAMPLE)

    id: UUID = Field(description="Id of the document, the page or the chunk")
    kind: Literal["document", "page", "chunk"]
    document_id: UUID
    external_id: str
    collection: str
    ordinal: int | None = Field(
        description="Position of the chunk in its document, from 0, or number of the page, from 1; null for a document"
    )
    reason: str
    attempts: int
    at: datetime = Field(description="Time of the last attempt")


class DeadLetterHistory(DeadLetterView):
    model_config = example(
        **_LETTER_EXAMPLE,
        history=[{"at": "2026-10-01T09:20:00Z", "attempt": 1, "error": _LETTER_EXAMPLE["reason"]}],
    )

    history: list[AttemptView] = Field(description="The last failed attempts, at most 20, oldest first")


class DeadLetterPage(ReplyModel):
    items: list[DeadLetterView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")


class DeadReasonView(ReplyModel):
    reason: str
    documents: int
    pages: int
    chunks: int
    collections: list[str] = Field(description="Names of the collections with these dead letters")


class DeadReasons(ReplyModel):
    model_config = example(
        items=[
            {
                "reason": _LETTER_EXAMPLE["reason"],
                "documents": 0,
                "pages": 0,
                "chunks": 12,
                "collections": ["handbook"],
            }
        ]
    )

    items: list[DeadReasonView] = Field(description="At most 200 reasons, most frequent first")


class DeadLettersResolved(ReplyModel):
    """Number of dead letters that were retried or discarded."""

    model_config = example(documents=0, pages=0, chunks=12, in_progress=0)

    documents: int
    pages: int
    chunks: int
    in_progress: int = Field(
        description="Number of chunks that were skipped because their documents are being processed"
    )
