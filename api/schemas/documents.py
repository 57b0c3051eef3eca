"""Requests and replies of documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    AliasPath,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from shared.domain.access.persons import readers_of, stored_readers
from shared.domain.corpus.document_fields import MOST_ID_BYTES, MOST_TITLE_CHARS, problem_of_id, stored_metadata
from shared.domain.errors import InvalidInput
from shared.domain.states import DocumentState
from shared.http.schemas.common import DOCUMENT_ID, ONE_LINE, BodyModel, CollectionName, ReplyModel, example
from shared.http.schemas.problems import ProblemDetails
from shared.services.prices import price_by_tier
from shared.settings import Settings


def _id(value: str) -> str:
    if problem := problem_of_id(value):
        raise ValueError(problem)
    return value


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    try:
        return stored_metadata(value)
    except InvalidInput as error:
        raise ValueError(error.message) from None


def _readers(value: list[str]) -> list[str]:
    try:
        return list(readers_of(value))
    except InvalidInput as error:
        raise ValueError(error.message) from None


_READERS = (
    "Readers of the document: `everyone`, `user:NAME` and `group:NAME`. An empty list: no person. Keys read every one"
)
ReadableBy = Annotated[list[str], AfterValidator(_readers)]

ExternalId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MOST_ID_BYTES,
        pattern=ONE_LINE,
        description=f"Your own identifier of the document, at most {MOST_ID_BYTES:,} bytes",
    ),
    AfterValidator(_id),
]


class ReadyQuestionBody(BodyModel):
    text: str = Field(min_length=1, max_length=2_000, pattern=r"\S")
    quote: str | None = Field(None, max_length=20_000, description="Passage of the document that answers the question")


_Question = Annotated[
    ReadyQuestionBody,
    BeforeValidator(lambda value: {"text": value} if isinstance(value, str) else value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"text": {"type": "string"}, "quote": {"type": "string"}},
                    "required": ["text"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class DocumentDescription(BodyModel):
    """The descriptive fields of a document."""

    external_id: ExternalId | None = Field(None, description="Default: the filename, or a hash of the content")
    title: str | None = Field(None, max_length=MOST_TITLE_CHARS)
    metadata: Annotated[dict[str, Any], AfterValidator(_metadata)] = Field(
        default_factory=dict, description="Stored with every chunk; queries can filter by it"
    )
    readable_by: ReadableBy | None = Field(
        None, description=f"{_READERS}. If absent: as before; a new document then names none"
    )
    questions: list[_Question] | None = Field(
        None,
        max_length=20_000,
        description="Ready-made questions. An empty list means no questions. If absent, the model generates them",
    )


class DocumentFields(DocumentDescription):
    """The fields of a document in JSON and in forms."""

    collection: CollectionName = "default"
    lane: Literal["interactive", "bulk", "batch"] = Field(
        "interactive",
        description="`bulk` documents are processed after `interactive` documents. The questions of `batch` documents"
        " are generated within a day through the model's batch API, if it is configured",
    )
    job: Annotated[UUID, Field(strict=False)] | None = Field(None, description="Id of an open load: see POST /v1/jobs")


class DocumentContent(BodyModel):
    """A document's content in JSON: either `text` or `content_base64`."""

    text: str | None = None
    content_base64: str | None = Field(None, description="Bytes of the file, in base64")
    filename: str | None = Field(None, max_length=1_000, description="Filename; folders are removed")
    media_type: str | None = Field(
        None, max_length=200, description="Default: detected from the content and the filename"
    )

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        if (self.text is None) == (self.content_base64 is None):
            raise ValueError("Send the content once: as `text`, or as `content_base64`.")
        return self


class DocumentBody(DocumentFields, DocumentContent):
    """A document in JSON: `text`, `content_base64`, or the `upload` of bytes that were sent to the store."""

    model_config = example(
        collection="handbook",
        filename="leave.md",
        title="Leave",
        text="# Leave\n\nAll staff get 30 days of leave a year.",
        metadata={"department": "hr", "year": 2026},
    )

    upload: str | None = Field(
        None, max_length=100, description="`upload` from POST /v1/uploads, if the bytes were sent to its address"
    )

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        if [self.text, self.content_base64, self.upload].count(None) != 2:  # noqa: PLR2004  of three
            raise ValueError("Send the content once: as `text`, as `content_base64`, or as `upload`.")
        return self


class UploadBody(BodyModel):
    """The size of a document whose bytes are sent to the object store."""

    model_config = example(size_bytes=48_213)

    size_bytes: int = Field(ge=1, description="Number of bytes; the address accepts no other number")


class UploadOffer(ReplyModel):
    """An address for the bytes of one document."""

    model_config = example(
        upload="4f1c2a9be0d34c0c9a51f0a2b7c8d9e0",
        url="https://bucket.s3.amazonaws.com/sent/default/4f1c2a9be0d34c0c9a51f0a2b7c8d9e0?X-Amz-Signature=0",
        method="PUT",
        headers={},
        expires_in_seconds=900,
    )

    upload: str = Field(description="Token to pass to POST /v1/documents")
    url: str = Field(description="Signed address. Any client can write to it until it expires")
    method: Literal["PUT"] = "PUT"
    headers: dict[str, str] = Field(description="Headers to send with the request to the address")
    expires_in_seconds: int


class DocumentChange(BodyModel):
    """New descriptive fields of a document; its content is unchanged."""

    model_config = example(metadata={"department": "hr", "year": 2027})

    title: str | None = Field(
        None, max_length=MOST_TITLE_CHARS, pattern=r"\S", description="New title; unchanged if absent"
    )
    metadata: Annotated[dict[str, Any], AfterValidator(_metadata)] | None = Field(
        None, description="Replaces the existing metadata; unchanged if absent"
    )

    readable_by: ReadableBy | None = Field(
        None, description=f"{_READERS}; null: the document names none. Unchanged if absent"
    )

    @property
    def stored_readers(self) -> tuple[str, ...] | None:
        """The new readers as they are stored; None if they are unchanged."""
        return stored_readers(self.readable_by) if "readable_by" in self.model_fields_set else None

    @model_validator(mode="after")
    def _any_change(self) -> Self:
        if self.title is None and self.metadata is None and self.stored_readers is None:
            raise ValueError("Send a `title`, `metadata` or `readable_by`.")
        return self


class BatchLine(DocumentDescription, DocumentContent):
    """A line of a batch: a document with either `text` or `content_base64`."""

    model_config = example(
        external_id="faq-17",
        title="Leave",
        text="All staff get 30 days of leave a year.",
        metadata={"department": "hr"},
        questions=["How many days of leave do I get?"],
    )


class ChunkCounts(ReplyModel):
    total: int
    searchable: int = Field(description="Chunks that queries can find, at least by their text")
    generated: int = Field(description="Chunks with generated or ready-made questions, including indexed chunks")
    indexed: int
    dead: int
    discarded: int = Field(description="Dead chunks that the owner discarded")


def _priced(usage: object, info: ValidationInfo[Settings]) -> object:
    return price_by_tier(info.context, usage) if isinstance(usage, Mapping) else usage


class IngestUsage(ReplyModel):
    """Costs of the questions of the newest version. GET /v1/status has the total costs."""

    prompt_tokens: int
    completion_tokens: int
    calls: int
    cost: Annotated[float | None, BeforeValidator(_priced)] = Field(
        validation_alias="usage_by_tier",
        description="Cost by FOREASK_LLM_INPUT_PRICE and FOREASK_LLM_OUTPUT_PRICE, or by the list price in dollars, in"
        " the service tiers of the calls and with the discounts of prompt caches; null if the price of the model is"
        " unknown",
    )


class LossView(ReplyModel):
    """A part of a file whose words did not all arrive in the chunks."""

    location: str = Field(description='The part, such as `page 3` or `sheet "Prices"`; empty for the whole file')
    missing: int = Field(description="Number of missing words")
    sample: list[str] = Field(
        description="Some of these words, in lower case; empty if the entry stands for many parts"
    )


def _share(coverage: float | None) -> float | None:
    """Return a share in four digits; it is 1 only if nothing is missing."""
    if coverage is None or coverage == 1:
        return coverage
    return min(round(coverage, 4), 0.9999)


class DocumentView(ReplyModel):
    """A document. Counts and usage refer to its newest version."""

    model_config = example(
        id=DOCUMENT_ID,
        external_id="leave.md",
        collection="handbook",
        title="Leave",
        filename="leave.md",
        media_type="text/markdown",
        metadata={"department": "hr", "year": 2026},
        readable_by=["group:hr"],
        size_bytes=48,
        state="ready",
        version=1,
        live_version=1,
        error=None,
        created_at="2026-10-01T09:00:00Z",
        updated_at="2026-10-01T09:00:04Z",
        chunks={"total": 1, "searchable": 1, "generated": 1, "indexed": 1, "dead": 0, "discarded": 0},
        pages=0,
        pages_read=0,
        pages_unread=0,
        text_coverage=1.0,
        losses=[],
        unread=[],
        outdated=False,
        questions=3,
        usage={"prompt_tokens": 412, "completion_tokens": 57, "calls": 1, "cost": 0.0001},
    )

    id: UUID
    external_id: str
    collection: str
    title: str | None
    filename: str | None
    media_type: str | None
    metadata: dict[str, Any] | None = Field(
        description="null if it was not requested: in lists with `metadata=false` and in replies to a batch"
    )
    readable_by: list[str] | None = Field(
        description=f"{_READERS}. null: it names none, and FOREASK_READABLE_BY_DEFAULT decides"
    )
    size_bytes: int
    state: DocumentState
    version: int = Field(description="Increases with every change of the content")
    live_version: int | None = Field(description="Version that queries see; null if there is none yet")
    error: str | None = Field(
        validation_alias="error_or_wait", description="Reason of the failure; of a document in progress, why it waits"
    )
    created_at: datetime
    updated_at: datetime
    chunks: ChunkCounts = Field(validation_alias="progress")
    pages: int = Field(
        validation_alias=AliasPath("progress", "pages"),
        description="Number of pages without text, which are read by OCR; 0 if every page has text",
    )
    pages_read: int = Field(
        validation_alias=AliasPath("progress", "pages_read"), description="Pages that have been read"
    )
    pages_unread: int = Field(
        validation_alias=AliasPath("progress", "pages_unread"),
        description="Pages that could not be read; dead letters have the reasons",
    )
    text_coverage: Annotated[float | None, AfterValidator(_share)] = Field(
        validation_alias=AliasPath("completeness", "coverage"),
        description="Share of the words of the file that are in its chunks, from 0 to 1: a second, independent reading"
        " counts them. null if the words of its format are not counted, or if it has not been parsed",
    )
    losses: list[LossView] = Field(
        validation_alias=AliasPath("completeness", "losses"),
        description="Parts of the file that miss more than 1 % of their words, at most 20: the last entry sums up all"
        " others. A document with losses is `degraded`",
    )
    unread: list[str] = Field(
        validation_alias=AliasPath("completeness", "unread"),
        description="Parts of the file that were not read, such as an encrypted attachment: a sentence for each, with"
        " the reason, at most 20. A document with one is `degraded`",
    )
    outdated: bool = Field(
        description="Whether an older reader has read the file, so that another attempt may read more of it; false"
        " while the document is in progress"
    )
    questions: int = Field(
        validation_alias=AliasPath("progress", "questions"), description="Number of questions that passed the filter"
    )
    usage: IngestUsage = Field(validation_alias="progress")


class BatchResult(ReplyModel):
    """The result of one line of a batch: the document, or the problem that a separate request would have returned."""

    model_config = example(
        line=2,
        status=422,
        external_id="faq-18",
        error={
            "type": "urn:foreask:problem:invalid-input",
            "title": "The request is invalid",
            "status": 422,
            "detail": "The document is empty.",
            "field": "text",
        },
    )

    line: int = Field(description="Line number in the request, from 1; empty lines count")
    status: int = Field(description="202: accepted; 200: the same content exists already; other: rejected")
    external_id: str | None = Field(None, description="Absent if the line cannot be read")
    document: DocumentView | None = None
    error: ProblemDetails | None = Field(None, description="Reason why the line was rejected")


class DocumentPage(ReplyModel):
    items: list[DocumentView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
    hits: int | None = Field(
        None,
        description="With `q` and `count`: number of documents that the search finds; 1,001 stands for more than 1,000",
    )


class DeletedDocuments(ReplyModel):
    """The result of a request that deletes several documents."""

    model_config = example(deleted=3)

    deleted: int = Field(description="Number of deleted documents; ids without a document are not counted")
