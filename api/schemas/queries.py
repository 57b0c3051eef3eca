"""Requests and replies of queries."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BeforeValidator, Field, model_validator

from api.schemas.common import CHUNK_ID, DOCUMENT_ID, QUERY_ID, BodyModel, CollectionName, ReplyModel, example
from shared.domain.errors import InvalidInput
from shared.query.answer import Form
from shared.query.retrieve import CHANNELS, Channel, FusionName, QuestionOrigin, ReturnOrder, ReturnUnit
from shared.query.rewrite import MAX_QUERIES

QUESTION_CHARS = 10_000


class ChannelWeights(BodyModel):
    """How much each channel counts; only the ratios matter, and 0 leaves a channel out."""

    questions: float = Field(1.0, ge=0, le=1_000)
    text: float = Field(1.0, ge=0, le=1_000)
    bm25: float = Field(1.0, ge=0, le=1_000)


def _three(value: object) -> object:
    return 3 if value is True else 0 if value is False else value


class RewriteBody(BodyModel):
    """How one call to the language model rewrites the question; the question itself is searched for too."""

    hyde: bool = Field(default=False, description="a passage that would answer the question")
    queries: Annotated[int, BeforeValidator(_three)] = Field(
        0, ge=0, le=MAX_QUERIES, description="how many other wordings of the question; true is 3"
    )
    step_back: bool = Field(default=False, description="a more general question")
    entities: bool = Field(
        default=False, description="the names in the question; chunks that have them rank a little higher"
    )
    budget_ms: int | None = Field(
        None,
        ge=1,
        le=60_000,
        description="after this time the query goes on without rewriting; default FOREASK_TUNING__REWRITE_BUDGET",
    )

    @property
    def budget(self) -> timedelta | None:
        return None if self.budget_ms is None else timedelta(milliseconds=self.budget_ms)


class RetrieveBody(BodyModel):
    """A question, and the options of the search."""

    model_config = example(
        collection="handbook", question="How much leave do I get?", top_k=5, filter={"department": "hr"}
    )

    question: str = Field(min_length=1, max_length=QUESTION_CHARS, pattern=r"\S")
    collection: CollectionName = "default"
    top_k: int = Field(10, ge=1, description="distinct chunks; at most FOREASK_TUNING__TOP_K_MAX")
    min_score: float | None = Field(None, ge=-1, le=1, description="chunks with a lower score are left out")
    max_tokens: int = Field(
        12_000,
        ge=1,
        le=1_000_000,
        description="of all texts together, counted by FOREASK_LLM_TOKENIZER or estimated; at most"
        " FOREASK_TUNING__MAX_TOKENS_MAX",
    )
    filter: dict[str, Any] | None = Field(
        None,
        description="metadata of chunks: each field a value, null, {any: [...]}, {none: [...]}, {gt, gte, lt, lte},"
        " {text} or {exists}; `all`, `any` and `not` take filters",
    )
    document_ids: list[Annotated[UUID, Field(strict=False)]] | None = Field(None, min_length=1, max_length=1_000)
    channels: list[Channel] = Field(list(CHANNELS), min_length=1, description="the ways to find a chunk that are used")
    fusion: FusionName = Field("scores", description="how the channels' scores become one")
    weights: ChannelWeights | None = Field(None, description="of the channels, instead of the collection's")
    rewrite: RewriteBody | None = Field(None, description="what to search for besides the question itself")
    rerank: bool = Field(default=True, description="have the best chunks ordered by FOREASK_RERANK_BASE_URL, if set")
    diversity: float = Field(
        0.0, ge=0, le=1, description="how much a chunk loses for its likeness to the chunks before it"
    )
    unit: ReturnUnit = Field(
        "chunk",
        description="what is returned: the chunk, its section (section_max_chars), or some of its sentences",
    )
    window: int = Field(
        2, ge=0, le=100, description="with `unit: sentences`: how many on each side of the nearest sentence"
    )
    order: ReturnOrder = Field(
        "score", description="section: chunks under the same headings together, as they stand in their document"
    )
    record: bool = Field(default=True, description="record the question, so that feedback can name it by its query_id")
    explain: bool | Literal["candidates"] = Field(
        default=False,
        description="show the rank and score of each chunk in each channel, the weights, and what each stage did;"
        " `candidates`: also the best 300 chunks of all channels, those of weight 0 too",
    )
    expected: list[Annotated[UUID, Field(strict=False)]] = Field(
        [],
        max_length=10,
        description="with `explain`: chunks that should be found; it says where they stand, and why they were not",
    )

    @model_validator(mode="after")
    def _is_explained(self) -> Self:
        if self.expected and not self.explain:
            raise InvalidInput("`expected` is part of an explanation: send `explain` too.", field="expected")
        return self


class QueryBody(RetrieveBody):
    """A question to be answered."""

    model_config = example(collection="handbook", question="How much leave do I get?", stream=False)

    stream: bool = Field(default=False, description="answer as server-sent events: retrieved, token, done, error")
    links: bool = Field(
        default=False,
        description="let links and images be that a model writes; else images go and links are their text",
    )


class ChannelRankView(ReplyModel):
    rank: int = Field(description="in the channel, from 1")
    score: float = Field(description="cosine; for bm25 the share of what a chunk could reach")


class EvidenceView(ReplyModel):
    """The parts of a chunk's score, which is x / (2 + x) for their sum x."""

    near: float = Field(description="the nearest of its questions or its text, whichever counts more")
    words: float = Field(description="its words")
    same: float = Field(description="one of its questions is nearly the user's, and its text agrees")


class RetrievedChunkView(ReplyModel):
    chunk_id: str
    score: float = Field(
        description="the channels' scores as `fusion` joins them; by default 0 to below 1, more for what stands out"
    )
    matched_question: str | None = Field(
        description="null: the chunk's text was nearest, or an edit has just replaced the question"
    )
    matched_question_source: QuestionOrigin | None = Field(
        description="given: it came with the document; user: it was accepted from feedback"
    )
    text: str
    document_id: str
    external_id: str
    title: str | None
    filename: str | None
    heading_path: list[str]
    page: int | None
    language: str | None = Field(description="of the text, as ISO 639-1 names it; null: unknown")
    span: tuple[int, int] = Field(description="of the text, in characters of the document's extracted text")
    chunk_span: tuple[int, int] = Field(description="of the chunk that was found")
    version: int = Field(description="of the document")
    metadata: dict[str, Any]
    also_in: list[str] = Field([], description="external ids of documents in which the same text was found")
    tokens: int = Field(description="of the text, counted by FOREASK_LLM_TOKENIZER or estimated")
    rerank_score: float | None = Field(description="of the reranker, on its own scale; null: not reranked")
    channels: dict[str, ChannelRankView] | None = Field(
        None, description="with `explain`: the chunk's place in each channel"
    )
    evidence: EvidenceView | None = Field(
        None, description="with `explain`: what the score is made of; null with another fusion than `scores`"
    )


class Citation(ReplyModel):
    number: int = Field(description="as in the answer: [1]")
    document_id: str
    external_id: str
    title: str | None
    heading_path: list[str]
    page: int | None
    span: tuple[int, int]
    text: str
    chunk_id: str


class QueryUsage(ReplyModel):
    prompt_tokens: int
    completion_tokens: int


class RewrittenQuestionView(ReplyModel):
    hypothetical_answer: str | None
    queries: list[str]
    step_back_question: str | None
    entities: list[str]


class StageExplanation(ReplyModel):
    milliseconds: float | None = Field(description="null: it was not timed by itself")
    did: str | None = Field(description="null: nothing that could be said of it")
    skipped: str | None = Field(description="why the query went on without it")


class CandidateView(ReplyModel):
    """A chunk that a channel found, with the values needed to fuse its scores again."""

    chunk_id: str
    score: float = Field(description="by the weights of this query")
    channels: dict[str, ChannelRankView] = Field(description="its places; it has none where a channel did not find it")
    evidence: EvidenceView | None = Field(description="null with another fusion than `scores`")


class CandidatesView(ReplyModel):
    """Candidates of all requested channels, including those of weight 0."""

    chunks: list[CandidateView] = Field(description="at most 300, best first")
    floors: dict[str, float] = Field(
        description="by channel: a chunk that it did not find scores half of this there, and nothing where the channel"
        " is absent"
    )
    crowds: dict[str, float] = Field(
        description="by channel: the fifth best score; for questions the text's counts where it is higher and the text"
        " has a weight"
    )


class ExpectedRankView(ReplyModel):
    rank: int | None = Field(description="in the channel, from 1; null: more than 1,000 chunks are before it")
    score: float


class ExpectedChunkView(ReplyModel):
    """The rank of an expected chunk, for the original question, before any reranking."""

    chunk_id: str
    rank: int | None = Field(description="by the fused score, from 1; null: behind 1,000 others in each channel")
    score: float | None = Field(description="the fused one; null: no channel that counts finds it")
    channels: dict[str, ExpectedRankView] = Field(description="it has none where a channel says nothing of it")
    question: str | None = Field(description="the nearest of its questions")
    left_out: Literal["absent", "filter", "min_score", "top_k", "room"] | None = Field(
        description="why it was not returned: `absent`: this collection has no such chunk that can be found; `filter`:"
        " the query's filter or documents leave it out; `min_score`; `top_k`: others are before it, or look as near;"
        " `room`: max_tokens, or its text was there already. null: it was returned"
    )


class Explanation(ReplyModel):
    stages: dict[str, StageExplanation] = Field(description="what each stage did, and how long it took")
    fusion: FusionName
    weights: dict[str, float] = Field(description="of the channels that were searched")
    crowds: dict[str, float] = Field(
        description="the score in each channel above which a chunk stands out; none with another fusion than `scores`"
    )
    candidates: CandidatesView | None = Field(None, description="with `explain: candidates`")
    expected: list[ExpectedChunkView] | None = Field(None, description="with `expected`, in its order")
    rewritten: RewrittenQuestionView | None = Field(
        description="what was searched for besides the question; null: nothing"
    )


class QueryMetadata(ReplyModel):
    query_id: UUID | None = Field(
        description="names the question for POST /v1/feedback; null: it was not recorded, or the ledger was away"
    )
    matched_questions: int
    unique_chunks: int
    usage: QueryUsage
    milliseconds: dict[str, float] = Field(description="by stage, and `total`")
    skipped: dict[str, str] = Field(description="why a stage (`rewrite`, `rerank`) was left out, by stage")
    explain: Explanation | None = Field(None, description="with `explain`: how the chunks were ranked")


_METADATA_EXAMPLE = {
    "query_id": QUERY_ID,
    "matched_questions": 4,
    "unique_chunks": 1,
    "usage": {"prompt_tokens": 312, "completion_tokens": 14},
    "milliseconds": {"embed": 12.1, "search": 6.4, "record": 0.9, "answer": 820.0, "total": 840.1},
    "skipped": {},
}

_FOUND_EXAMPLE = {
    "chunk_id": CHUNK_ID,
    "score": 0.87,
    "matched_question": "How many days of leave are there?",
    "matched_question_source": "generated",
    "text": "Everybody has 30 days of leave a year.",
    "document_id": DOCUMENT_ID,
    "external_id": "leave.md",
    "title": "Leave",
    "filename": "leave.md",
    "heading_path": ["Leave"],
    "page": None,
    "language": "en",
    "span": [9, 47],
    "chunk_span": [9, 47],
    "version": 1,
    "also_in": [],
    "metadata": {"department": "hr"},
    "tokens": 13,
    "rerank_score": None,
}

_CITED = ("document_id", "external_id", "title", "heading_path", "page", "span", "text", "chunk_id")
FOUND_CITATION_EXAMPLE = {"number": 1} | {name: _FOUND_EXAMPLE[name] for name in _CITED}


class TokenEvent(ReplyModel):
    """`token`: the next piece of a streamed answer."""

    text: str


class RetrieveReply(ReplyModel):
    """The chunks that answer a question, best first; an empty list if none does."""

    model_config = example(chunks=[_FOUND_EXAMPLE], metadata=_METADATA_EXAMPLE)

    chunks: list[RetrievedChunkView]
    metadata: QueryMetadata


class QueryReply(ReplyModel):
    """An answer from the documents alone."""

    model_config = example(
        answer="You have 30 days of leave a year [1].",
        found=True,
        form="generative",
        citations=[FOUND_CITATION_EXAMPLE],
        removed_citations=[],
        chunks=[_FOUND_EXAMPLE],
        metadata=_METADATA_EXAMPLE,
    )

    answer: str
    found: bool = Field(description="false: the documents do not answer the question, and the answer says so")
    form: Form = Field(description="extractive: quoted from the documents, not written by a model")
    citations: list[Citation] = Field(description="in order of appearance")
    removed_citations: list[int] = Field(description="numbers that the model cited though no passage has them")
    chunks: list[RetrievedChunkView]
    metadata: QueryMetadata
