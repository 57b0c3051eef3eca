"""Collections as vector stores."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BeforeValidator, Discriminator, Field, Tag

from features.openai.schemas.common import OPEN
from shared.http.schemas.common import CHUNK_ID, DOCUMENT_ID, QUERY_ID, QUESTION_CHARS, BodyModel, ReplyModel, example

MAX_QUERIES = 8
_MAX_RESULTS = 50

Scalar = str | bool | int | float


class ComparisonFilter(BodyModel):
    """A comparison of an attribute, which is a field of the metadata; dots lead into objects."""

    model_config = OPEN

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: str = Field(min_length=1, max_length=1_000)
    value: Scalar | Annotated[list[Scalar], Field(min_length=1, max_length=1_000)]


class CompoundFilter(BodyModel):
    """All or any of several filters."""

    model_config = OPEN

    type: Literal["and", "or"]
    filters: list[Filters] = Field(min_length=1, max_length=64)


def _kind(value: object) -> str:
    """Return the kind of a filter, so that errors are about the kind that was sent."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return "compound" if kind in {"and", "or"} else "comparison"


Filters = Annotated[
    Annotated[ComparisonFilter, Tag("comparison")] | Annotated[CompoundFilter, Tag("compound")], Discriminator(_kind)
]


class RankingOptions(BodyModel):
    model_config = OPEN

    ranker: str | None = Field(None, max_length=100, description="`none` disables the reranker; others are ignored")
    score_threshold: float | None = Field(None, ge=0, le=1, description="Exclude chunks with a lower score")


def _list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class VectorStoreSearchBody(BodyModel):
    """A question, or several whose results are merged."""

    model_config = OPEN | example(
        query="How much leave do I get?",
        max_num_results=5,
        filters={"type": "eq", "key": "department", "value": "hr"},
    )

    query: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=QUESTION_CHARS, pattern=r"\S")]],
        BeforeValidator(_list, json_schema_input_type=str | list[str]),
        Field(min_length=1, max_length=MAX_QUERIES, description="Each question counts as a request"),
    ]
    max_num_results: int | None = Field(None, ge=1, le=_MAX_RESULTS, description="Default 10")
    filters: Filters | None = None
    ranking_options: RankingOptions | None = None
    rewrite_query: bool | None = Field(None, description="Also search three wordings by the language model")


class ContentText(ReplyModel):
    type: Literal["text"] = "text"
    text: str


class FoundChunk(ReplyModel):
    """Fields of a result that OpenAI's format lacks."""

    chunk_id: str
    external_id: str
    title: str | None
    url: str = Field(description="As in the annotations of an answer")
    heading_path: list[str]
    page: int | None
    span: tuple[int, int]
    matched_question: str | None = Field(description="As in POST /v1/retrieve")


class VectorStoreResult(ReplyModel):
    """A chunk."""

    file_id: str = Field(description="Id of the document")
    filename: str = Field(description="Filename of the document, or its external id")
    score: float
    attributes: dict[str, Scalar] = Field(
        description="Metadata of the document; lists and objects as JSON texts, without fields that are null"
    )
    content: list[ContentText]
    foreask: FoundChunk


class StoreSearchFacts(ReplyModel):
    """Facts about a search that OpenAI's format lacks."""

    query_ids: list[UUID] = Field(description="Ids for POST /v1/feedback, one for each recorded question")
    notice: str | None = Field(description="As in `metadata` of POST /v1/retrieve")


class VectorStoreResults(ReplyModel):
    """The chunks that answer the questions, best first, on one page."""

    model_config = example(
        object="vector_store.search_results.page",
        search_query=["How much leave do I get?"],
        data=[
            {
                "file_id": DOCUMENT_ID,
                "filename": "leave.md",
                "score": 0.87,
                "attributes": {"department": "hr"},
                "content": [{"type": "text", "text": "All staff get 30 days of leave a year."}],
                "foreask": {
                    "chunk_id": CHUNK_ID,
                    "external_id": "leave.md",
                    "title": "Leave",
                    "url": f"http://127.0.0.1:8350/documents/{DOCUMENT_ID}?chunk={CHUNK_ID}",
                    "heading_path": ["Leave"],
                    "page": None,
                    "span": [9, 47],
                    "matched_question": "How many days of leave do I get?",
                },
            }
        ],
        has_more=False,
        next_page=None,
        foreask={"query_ids": [QUERY_ID], "notice": None},
    )

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[VectorStoreResult]
    has_more: Literal[False] = False
    next_page: str | None = None
    foreask: StoreSearchFacts


class FileCounts(ReplyModel):
    total: int
    completed: int
    in_progress: int
    failed: int
    cancelled: int = 0


_STORE_EXAMPLE: dict[str, Any] = {
    "id": "handbook",
    "object": "vector_store",
    "name": "handbook",
    "created_at": 1_790_000_000,
    "status": "completed",
    "file_counts": {"total": 12, "completed": 12, "in_progress": 0, "failed": 0, "cancelled": 0},
    "usage_bytes": 0,
    "metadata": {},
    "last_active_at": None,
    "expires_after": None,
    "expires_at": None,
}


class VectorStoreView(ReplyModel):
    """A collection, as a vector store."""

    model_config = example(**_STORE_EXAMPLE)

    id: str
    object: Literal["vector_store"] = "vector_store"
    name: str
    created_at: int
    status: Literal["completed", "in_progress"] = Field(description="`in_progress` while documents are processed")
    file_counts: FileCounts | None = Field(
        description="Documents; null for a person, and for a key with a filter or without the scope `read`"
    )
    usage_bytes: Literal[0] = Field(0, description="Always 0: it is not measured")
    metadata: dict[str, str] = Field({}, max_length=0)
    last_active_at: int | None = None
    expires_after: dict[str, Any] | None = None
    expires_at: int | None = None


class VectorStoreList(ReplyModel):
    """A page of collections as vector stores, ordered by name."""

    model_config = example(
        object="list", data=[_STORE_EXAMPLE], first_id="handbook", last_id="handbook", has_more=False
    )

    object: Literal["list"] = "list"
    data: list[VectorStoreView]
    first_id: str | None
    last_id: str | None
    has_more: bool
