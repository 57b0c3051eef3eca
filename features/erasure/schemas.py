"""Requests and replies of erasures."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from features.erasure.domain import Scope
from features.erasure.texts import LEAST_CHARS, MOST_CHARS, MOST_TEXTS, one_line
from shared.http.schemas.common import (
    DOCUMENT_ID,
    ONE_LINE,
    BodyModel,
    CollectionName,
    ReplyModel,
    example,
    example_of,
)

_MOST_DOCUMENTS = 1_000

_Text = Annotated[
    str,
    Field(min_length=LEAST_CHARS, max_length=MOST_CHARS, pattern=ONE_LINE, examples=["Ada Lovelace"]),
    AfterValidator(one_line),
]
_Texts = Annotated[
    list[_Text],
    Field(
        max_length=MOST_TEXTS,
        description="Texts that name a person. A text is found where a word starts, in any case; a space matches a line"
        " break, too",
    ),
]
_DocumentIds = Annotated[list[Annotated[UUID, Field(strict=False)]], Field(max_length=_MOST_DOCUMENTS)]


class _Person(BodyModel):
    texts: _Texts = Field([])
    document_ids: _DocumentIds = Field([])

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if not self.texts and not self.document_ids:
            raise ValueError("Name a text or a document: `texts`, `document_ids`.")
        return self


class ErasurePreviewRequest(_Person):
    """The search for a person's data; nothing is erased."""

    model_config = example(collection=None, texts=["Ada Lovelace", "ada@example.org"], document_ids=[], cursor=None)

    collection: CollectionName | None = Field(
        None, description="The collection whose documents are searched; null for all. Other records are always searched"
    )
    document_ids: _DocumentIds = Field([], description="Documents to show on the first page, whatever they contain")
    cursor: str | None = Field(None, max_length=10_000, description="`next_cursor` of the previous page")


class PersonErasure(_Person):
    """The documents to erase, and texts whose records are erased, too."""

    model_config = example(texts=["no-such-person@example.org"], document_ids=[])

    document_ids: _DocumentIds = Field([], description="Documents to erase, and no others")


class ErasedPartsView(ReplyModel):
    """Numbers of rows that the erasure of a document deletes, in all builds."""

    model_config = example(
        versions=1, chunks=12, questions=60, accepted_questions=1, resolutions=0, shared_answers=2, conversations=3
    )

    versions: int
    chunks: int
    questions: int = Field(description="Number of generated questions that passed the filter")
    accepted_questions: int = Field(description="Number of users' questions that its chunks accepted")
    resolutions: int = Field(description="Number of gaps that it resolves, which are open again")
    shared_answers: int = Field(description="Number of shared answers that cite it")
    conversations: int = Field(description="Number of stored conversations that cite it")


class FoundDocumentView(ReplyModel):
    """A document in which one of the texts occurs."""

    model_config = example(
        id=DOCUMENT_ID,
        collection="handbook",
        external_id="roster.xlsx",
        title="Roster",
        filename="roster.xlsx",
        state="ready",
        matches={"text": "| week | lead |\n| 12 | Ada Lovelace |"},
        deletes=example_of(ErasedPartsView),
    )

    id: UUID
    collection: str
    external_id: str
    title: str | None
    filename: str | None
    state: str
    matches: dict[str, str] = Field(
        description="An excerpt of each part that has one of the texts: `external_id`, `title`, `filename`, `metadata`,"
        " `text`, `questions`; empty for a document that was named by its id"
    )
    deletes: ErasedPartsView


class FoundRecordsView(ReplyModel):
    """Numbers of records in which one of the texts occurs."""

    model_config = example(
        queries=4, queries_in_gaps=1, feedback=2, accepted_questions=0, shared_answers=0, conversations=1
    )

    queries: int = Field(0, description="Number of logged queries, by their question or their answer")
    queries_in_gaps: int = Field(0, description="Number of these queries that are in gaps, which are deleted with them")
    feedback: int = Field(0, description="Number of these queries that have feedback")
    accepted_questions: int = Field(0, description="Number of users' questions that chunks accepted")
    shared_answers: int = 0
    conversations: int = Field(0, description="Number of conversations that the server stores")


class ErasurePreviewView(ReplyModel):
    """A part of a search, which takes some seconds. Add up the numbers of all pages."""

    model_config = example(
        documents=[example_of(FoundDocumentView)],
        examined=640,
        records=example_of(FoundRecordsView),
        next_cursor=None,
    )

    documents: list[FoundDocumentView]
    examined: int = Field(description="Number of documents whose texts were read for this page")
    records: FoundRecordsView
    next_cursor: str | None = Field(description="Cursor of the next page; null when everything was searched")


class ErasureView(ReplyModel):
    model_config = example(
        id="0192f0c1-7e3b-7cc0-8a55-3f2b8f1f4a10",
        scope="collection",
        collection="handbook",
        document_id=None,
        document_ids=[],
        state="running",
        documents_left=640,
        deleted={"documents": 1250},
        started_at="2026-10-01T09:00:00Z",
        finished_at=None,
    )

    id: UUID
    scope: Scope = Field(
        description="`tenant`, `collection`, or `documents`, with records in which texts occurred if these were given"
    )
    collection: str | None = Field(description="Collection to erase; null for other scopes")
    document_id: UUID | None = Field(description="The document to erase, if it is only one")
    document_ids: list[UUID] = Field(validation_alias="public_ids", description="The documents to erase")
    state: str = Field(description="`running` or `finished`")
    documents_left: int = Field(description="Number of document rows left, in all builds")
    deleted: dict[str, int] = Field(description="Number of deleted rows, by kind")
    started_at: datetime
    finished_at: datetime | None


class ErasurePage(ReplyModel):
    model_config = example(items=[example_of(ErasureView)], next_cursor=None)

    items: list[ErasureView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")


class RemainingPartView(ReplyModel):
    """Leftovers in one part of an engine."""

    model_config = example(engine="postgresql", location="completions", count=0, unchecked=None)

    engine: str = Field(description="`postgresql`, `qdrant`, `valkey`, `uploads` or `provider`")
    location: str = Field(validation_alias="part", description="Table, Qdrant collection, keys, objects or files")
    count: int = Field(description="Number of leftovers; uploads and files are counted for all tenants")
    unchecked: str | None = Field(description="Reason why it was not checked; null if it was")


class ErasureCheckView(ReplyModel):
    """Leftovers of an erasure."""

    model_config = example(
        found=0, locations=[{"engine": "postgresql", "location": "chunks", "count": 0, "unchecked": None}]
    )

    found: int = Field(description="Total number of leftovers")
    locations: list[RemainingPartView] = Field(description="All searched locations, including those without leftovers")


class RemainingDataView(ReplyModel):
    """Leftovers of a tenant."""

    model_config = example(
        tenant="acme",
        found=0,
        locations=[{"engine": "postgresql", "location": "completions", "count": 0, "unchecked": None}],
    )

    tenant: str
    found: int = Field(description="Total number of leftovers")
    locations: list[RemainingPartView] = Field(description="All searched locations, including those without leftovers")
