"""Requests and replies of queries."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AliasPath, BeforeValidator, Field, field_validator, model_validator

from shared.domain.errors import InvalidInput
from shared.http.schemas.common import (
    CHUNK_ID,
    DOCUMENT_ID,
    MESSAGE_CHARS,
    QUERY_ID,
    QUESTION_CHARS,
    BodyModel,
    CollectionName,
    ReplyModel,
    example,
)
from shared.query.answer import Form, IncompleteReason
from shared.query.retrieve import CHANNELS, Channel, FusionName, QuestionOrigin, ReturnOrder, ReturnUnit
from shared.query.retrieve.notice import NoticeCode
from shared.query.rewrite import MAX_QUERIES


class ChannelWeights(BodyModel):
    """Weights of the channels. Only their ratios matter; 0 excludes a channel."""

    questions: float = Field(1.0, ge=0, le=1_000)
    text: float = Field(1.0, ge=0, le=1_000)
    bm25: float = Field(1.0, ge=0, le=1_000)


def _three(value: object) -> object:
    return 3 if value is True else 0 if value is False else value


_Number = Annotated[int, Field(ge=0, le=MAX_QUERIES)]


class RewriteBody(BodyModel):
    """Rewriting of the question by one call to the language model. The original question is searched, too."""

    hyde: bool = Field(default=False, description="Search for a hypothetical passage that answers the question")
    queries: Annotated[_Number, BeforeValidator(_three, json_schema_input_type=bool | _Number)] = Field(
        0, description="Number of alternative wordings to search; true means 3"
    )
    step_back: bool = Field(default=False, description="Search for a more general question")
    entities: bool = Field(
        default=False, description="Extract the names in the question; chunks with these names rank slightly higher"
    )
    budget_ms: int | None = Field(
        None,
        ge=1,
        le=60_000,
        description="Time limit; then the query continues without rewriting. Default FOREASK_TUNING__REWRITE_BUDGET",
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
    top_k: int = Field(10, ge=1, description="Maximum number of distinct chunks; at most FOREASK_TUNING__TOP_K_MAX")
    min_score: float | None = Field(None, ge=-1, le=1, description="Exclude chunks with a lower score")
    max_tokens: int = Field(
        12_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of tokens of all texts together, counted by FOREASK_LLM_TOKENIZER or estimated; at"
        " most FOREASK_TUNING__MAX_TOKENS_MAX",
    )
    filter: dict[str, Any] | None = Field(
        None,
        description="Conditions on metadata. A field takes a value, null, {any: [...]}, {none: [...]},"
        " {gt, gte, lt, lte}, {text} or {exists}; `all`, `any` and `not` take filters",
    )
    document_ids: list[Annotated[UUID, Field(strict=False)]] | None = Field(None, min_length=1, max_length=1_000)
    channels: list[Channel] = Field(
        list(CHANNELS), min_length=1, max_length=len(CHANNELS), description="Channels to search, each once"
    )
    fusion: FusionName = Field("scores", description="Method that combines the scores of the channels")
    weights: ChannelWeights | None = Field(
        None, description="Weights of the channels; they replace the weights of the collection"
    )
    rewrite: RewriteBody | None = Field(None, description="Additional searches with rewritten questions")
    rerank: bool = Field(default=True, description="Rerank the best chunks if FOREASK_RERANK_BASE_URL is set")
    diversity: float = Field(
        0.0, ge=0, le=1, description="Penalty for a chunk's similarity to higher-ranked chunks; 0 disables it"
    )
    unit: ReturnUnit = Field(
        "chunk",
        description="Text to return: the chunk, its section (`section_max_chars`), or some of its sentences",
    )
    window: int = Field(
        2, ge=0, le=100, description="With `unit: sentences`: number of sentences on each side of the nearest sentence"
    )
    order: ReturnOrder = Field("score", description="`section`: group chunks with the same headings, in document order")
    record: bool = Field(default=True, description="Record the question, so that feedback can refer to its `query_id`")
    explain: bool | Literal["candidates"] = Field(
        default=False,
        description="Return each chunk's rank and score per channel, the weights, and the result of each stage."
        " `candidates` also returns the best 300 chunks of all channels, including channels of weight 0",
    )
    expected: list[Annotated[UUID, Field(strict=False)]] = Field(
        [],
        max_length=10,
        description="With `explain`: chunks that should be found; the reply has their ranks or why they are missing",
    )

    @field_validator("channels")
    @classmethod
    def _are_distinct(cls, channels: list[Channel]) -> list[Channel]:
        if len(set(channels)) < len(channels):
            raise ValueError("name each channel once")  # each is a search
        return channels

    @model_validator(mode="after")
    def _is_explained(self) -> Self:
        if self.expected and not self.explain:
            raise InvalidInput("`expected` is part of an explanation: send `explain` too.", field="expected")
        return self


class MessageBody(BodyModel):
    """A previous message of a conversation."""

    role: Literal["user", "assistant"]
    content: str = Field(min_length=1, max_length=MESSAGE_CHARS)


class QueryBody(RetrieveBody):
    """A question to answer."""

    model_config = example(collection="handbook", question="How much leave do I get?", stream=False)

    stream: bool = Field(
        default=False, description="Reply with server-sent events: `retrieved`, `token`, `done`, `error`"
    )
    links: bool = Field(
        default=False,
        description="Keep links and images in the answer. By default, images are removed and links become text",
    )
    history: list[MessageBody] = Field(
        [],
        max_length=100,
        description="Previous messages of the conversation, oldest first; at most the last 12 are used. The language"
        " model rewrites the question so that it is understood without them. If no model writes answers, a short"
        " question that continues them is searched together with the question before",
    )


class ChannelRankView(ReplyModel):
    rank: int = Field(description="Rank in the channel, from 1")
    score: float = Field(description="Cosine similarity; for `bm25`, the share of the highest possible score")


class EvidenceView(ReplyModel):
    """The parts of a chunk's score. If their sum is x, the score is x / (2 + x)."""

    similarity: float = Field(description="Similarity of the nearest question or of the text, whichever is higher")
    agreement: float = Field(description="Bonus if both the nearest question and the text are similar")
    words: float = Field(description="Match of the words")
    same_question: float = Field(
        description="Bonus if a question of the chunk is nearly identical to the user's, and the text agrees"
    )


class RetrievedChunkView(ReplyModel):
    chunk_id: str
    score: float = Field(
        description="Combined score of the channels; by default from 0 to below 1, higher for outstanding chunks"
    )
    matched_question: str | None = Field(
        description="Nearest question; null if the text was nearer, if an edit has just replaced the question, or if"
        " it is a user's question and the key lacks the scope `read`"
    )
    matched_question_source: QuestionOrigin | None = Field(
        description="`given`: supplied with the document; `user`: accepted from feedback"
    )
    text: str
    document_id: str
    external_id: str
    title: str | None
    filename: str | None
    heading_path: list[str]
    page: int | None
    language: str | None = Field(description="Language of the text (ISO 639-1); null if unknown")
    span: tuple[int, int] = Field(description="Start and end of the text in the extracted text, in characters")
    chunk_span: tuple[int, int] = Field(description="Start and end of the matched chunk")
    version: int = Field(description="Version of the document")
    metadata: dict[str, Any]
    also_in: list[str] = Field([], description="External ids of other documents with the same text")
    tokens: int = Field(description="Tokens of the text, counted by FOREASK_LLM_TOKENIZER or estimated")
    rerank_score: float | None = Field(
        description="Score of the reranker, on its own scale; null if the chunk was not reranked"
    )
    channels: dict[str, ChannelRankView] | None = Field(
        None, description="With `explain`: rank and score in each channel"
    )
    evidence: EvidenceView | None = Field(
        None, description="With `explain`: parts of the score; null unless `fusion` is `scores`"
    )


class Citation(ReplyModel):
    number: int = Field(description="Number in the answer, such as [1]")
    document_id: str
    external_id: str
    title: str | None = Field(validation_alias=AliasPath("content", "title"))
    heading_path: list[str] = Field(validation_alias=AliasPath("content", "heading_path"))
    page: int | None = Field(validation_alias=AliasPath("content", "page"))
    span: tuple[int, int]
    text: str
    chunk_id: str
    sentences: list[tuple[int, int]] = Field(
        description="Start and end of each sentence in `text` that supports the answer; empty if none was identified"
    )


class QueryUsage(ReplyModel):
    prompt_tokens: int
    completion_tokens: int


class RewrittenQuestionView(ReplyModel):
    hypothetical_answer: str | None = Field(validation_alias="hypothetical")
    queries: list[str]
    step_back_question: str | None = Field(validation_alias="step_back")
    entities: list[str]


class StageExplanation(ReplyModel):
    milliseconds: float | None = Field(description="Duration; null if the stage was not measured separately")
    summary: str | None = Field(description="Result of the stage in a sentence; null if there is none")
    skipped: str | None = Field(description="Reason why the stage was skipped")


class CandidateView(ReplyModel):
    """A chunk that a channel found, with the values from which its score can be computed again."""

    chunk_id: str
    score: float = Field(description="Score with the weights of this query")
    channels: dict[str, ChannelRankView] = Field(
        validation_alias="ranks", description="Rank and score in each channel that found the chunk"
    )
    evidence: EvidenceView | None = Field(description="Parts of the score; null unless `fusion` is `scores`")


class CandidatesView(ReplyModel):
    """Candidates of all requested channels, including channels of weight 0."""

    chunks: list[CandidateView] = Field(description="At most 300 chunks, best first")
    floors: dict[str, float] = Field(
        description="By channel: a chunk that the channel did not find has half of this score in it. Absent channels"
        " contribute nothing"
    )
    reference_scores: dict[str, float] = Field(
        description="By channel: the fifth-best score. For `questions`, the value of `text` applies if it is higher and"
        " `text` has a weight"
    )


class ExpectedRankView(ReplyModel):
    rank: int | None = Field(description="Rank in the channel, from 1; null if more than 1,000 chunks rank higher")
    score: float


class ExpectedChunkView(ReplyModel):
    """The rank of an expected chunk, for the original question, before any reranking."""

    chunk_id: str
    rank: int | None = Field(
        description="Rank by the combined score, from 1; null if more than 1,000 chunks rank higher in each channel"
    )
    score: float | None = Field(description="Combined score; null if no channel with a weight finds the chunk")
    channels: dict[str, ExpectedRankView] = Field(
        description="Rank and score in each channel that has a value for the chunk"
    )
    question: str | None = Field(
        validation_alias="question_text",
        description="Nearest question of the chunk; null also if it is a user's and the key lacks the scope `read`",
    )
    left_out: Literal["absent", "filter", "min_score", "top_k", "max_tokens"] | None = Field(
        description="Reason why the chunk was not returned. `absent`: the collection has no such searchable chunk."
        " `filter`: the filter or `document_ids` of the query exclude it. `min_score`: its score is too low. `top_k`:"
        " other chunks rank higher or equal. `max_tokens`: this number was reached, or its text was returned already."
        " null: the chunk was returned"
    )


class Explanation(ReplyModel):
    stages: dict[str, StageExplanation] = Field(description="Result and duration of each stage")
    fusion: FusionName
    weights: dict[str, float] = Field(description="Weights of the searched channels")
    reference_scores: dict[str, float] = Field(
        description="By channel: the score above which a chunk is outstanding; empty unless `fusion` is `scores`"
    )
    candidates: CandidatesView | None = Field(None, description="With `explain: candidates`")
    expected: list[ExpectedChunkView] | None = Field(None, description="With `expected`, in the same order")
    rewritten: RewrittenQuestionView | None = Field(
        description="Additional searches; null if the question was not rewritten"
    )


class QueryMetadata(ReplyModel):
    query_id: UUID | None = Field(
        description="Id for POST /v1/feedback; null if the query was not recorded, or the ledger was unavailable"
    )
    question: str = Field(description="The searched question; with `history`, as it is understood alone")
    matched_questions: int
    unique_chunks: int
    usage: QueryUsage
    milliseconds: dict[str, float] = Field(description="Duration by stage, and `total`")
    skipped: dict[str, str] = Field(description="Skipped stages (`rewrite`, `rerank`) with their reasons")
    notice: str | None = Field(
        None,
        description="Why nothing was found although the documents may have the answer, or why results may be wrong or"
        " incomplete: no document has a field of the filter or passes it, the collection has no documents yet, or its"
        " index is being repaired",
    )
    notice_codes: list[NoticeCode] = Field(
        [], description="Reasons of the notice, for clients that write their own sentences; empty without a notice"
    )
    unknown_fields: list[str] = Field(
        [], description="Fields of `filter` that no document of the collection has, nor the collection declares"
    )
    explain: Explanation | None = Field(None, description="With `explain`: explanation of the ranking")


_METADATA_EXAMPLE = {
    "query_id": QUERY_ID,
    "question": "How much leave do I get?",
    "matched_questions": 4,
    "unique_chunks": 1,
    "usage": {"prompt_tokens": 312, "completion_tokens": 14},
    "milliseconds": {"embed": 12.1, "search": 6.4, "record": 0.9, "answer": 820.0, "total": 840.1},
    "skipped": {},
    "unknown_fields": [],
}

_FOUND_EXAMPLE = {
    "chunk_id": CHUNK_ID,
    "score": 0.87,
    "matched_question": "How many days of leave do I get?",
    "matched_question_source": "generated",
    "text": "All staff get 30 days of leave a year.",
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
FOUND_CITATION_EXAMPLE = {"number": 1} | {name: _FOUND_EXAMPLE[name] for name in _CITED} | {"sentences": [[0, 38]]}


class TokenEvent(ReplyModel):
    """`token`: the next piece of a streamed answer."""

    text: str


class RetrieveReply(ReplyModel):
    """The chunks that answer a question, best first. The list is empty if no chunk does."""

    model_config = example(chunks=[_FOUND_EXAMPLE], metadata=_METADATA_EXAMPLE)

    chunks: list[RetrievedChunkView]
    metadata: QueryMetadata


class QueryReply(ReplyModel):
    """An answer that uses only the documents."""

    model_config = example(
        answer="You have 30 days of leave a year [1].",
        found=True,
        form="generative",
        certain=True,
        incomplete_reason=None,
        citations=[FOUND_CITATION_EXAMPLE],
        removed_citations=[],
        chunks=[_FOUND_EXAMPLE],
        metadata=_METADATA_EXAMPLE,
    )

    answer: str
    found: bool = Field(description="`false` if the documents do not answer the question; the answer then says so")
    form: Form = Field(description="`extractive`: quoted from the documents, not written by a model")
    certain: bool = Field(
        description="`false` if the passages that the answer quotes or cites were found by weak evidence, whatever the"
        " form of the answer; an extractive answer then says so. `false` if a generative answer is incomplete or cites"
        " no passage"
    )
    incomplete_reason: IncompleteReason | None = Field(
        description="Why the answer is incomplete: `length` (the model's token limit), `content_filter`, or"
        " `interrupted` (the provider's stream ended without a sign of its end); null if it is complete"
    )
    citations: list[Citation] = Field(description="In order of appearance")
    removed_citations: list[int] = Field(description="Numbers that the model cited although no passage has them")
    chunks: list[RetrievedChunkView]
    metadata: QueryMetadata
