"""What requests and replies hold. Requests are refused for what they do not know; replies are built as these models."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self
from uuid import UUID

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from shared.domain.errors import InvalidInput
from shared.domain.records import AcceptedState, ChunkState, DocumentState
from shared.ingest.generate import validate_template
from shared.query.answer import Form
from shared.query.retrieve import CHANNELS, Channel, FusionName, QuestionOrigin, ReturnOrder, ReturnUnit
from shared.query.rewrite import MAX_QUERIES, Intent

_METADATA_BYTES = 32 * 1024  # it is repeated in every point of the document
_METADATA_DEPTH = 8
_QUESTIONS_MAX = 20
_DOCUMENT_ID = "0b4f7c1e-8d0a-4f0e-9d55-3c7a1f6f2b11"
_ACCEPTED_ID = "a1b7c0de-22b1-5c0e-8f9a-6a0f9d1e2b33"
_QUERY_ID = "3f0f3c5e-7d2b-4c1f-8a69-5b0e2d9c4f77"

CollectionName = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$",
        description="small letters, digits, - and _; at most 63",
        examples=["default"],
    ),
]
ExternalId = Annotated[
    str, Field(min_length=1, max_length=500, pattern=r"^\P{Cc}+$", description="your own name for the document")
]


Reason = Annotated[
    str, Field(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$", description="the whole text of it")
]


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    if _is_deeper(value, _METADATA_DEPTH):
        raise ValueError(f"Metadata is nested at most {_METADATA_DEPTH} deep.")
    if len(orjson.dumps(value)) > _METADATA_BYTES:
        raise ValueError(f"Metadata has at most {_METADATA_BYTES:,} bytes as JSON.")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        groups = (v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list)))
        level = [child for group in groups for child in group]
    return bool(level)


def _template(value: str) -> str:
    try:
        validate_template(value)
    except InvalidInput as error:
        raise ValueError(error.message) from None
    return value


def _question_count(value: object) -> object:
    # One sentence, where a union would give one for each of its members.
    if value == "auto" or (type(value) is int and 1 <= value <= _QUESTIONS_MAX):
        return value
    raise ValueError(f"This is a whole number from 1 to {_QUESTIONS_MAX}, or auto.")


QuestionCount = Annotated[
    Annotated[int, Field(ge=1, le=_QUESTIONS_MAX)] | Literal["auto"], BeforeValidator(_question_count)
]


class BodyModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class ReplyModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _example(**example: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": example})


# Documents


class ReadyQuestionBody(BodyModel):
    text: str = Field(min_length=1, max_length=2_000, pattern=r"\S")
    quote: str | None = Field(None, max_length=20_000, description="a passage of the document that answers it")


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


class DocumentFields(BodyModel):
    """What may be said of a document, in whatever form its content comes."""

    collection: CollectionName = "default"
    external_id: ExternalId | None = Field(None, description="default: the filename, else a hash of the content")
    title: str | None = Field(None, max_length=1_000)
    metadata: Annotated[dict[str, Any], AfterValidator(_metadata)] = Field(
        default_factory=dict, description="kept with every chunk; queries can filter by it"
    )
    questions: list[_Question] | None = Field(
        None,
        max_length=20_000,
        description="ready-made questions; an empty list asks nothing; absent, the model writes them",
    )
    lane: Literal["interactive", "bulk"] = Field("interactive", description="bulk waits behind interactive")


class DocumentBody(DocumentFields):
    """A document in JSON: either `text` or `content_base64`."""

    model_config = _example(
        collection="handbook",
        filename="leave.md",
        title="Leave",
        text="# Leave\n\nEverybody has 30 days of leave a year.",
        metadata={"department": "hr", "year": 2026},
    )

    text: str | None = None
    content_base64: str | None = Field(None, description="the file's bytes in base 64")
    filename: str | None = Field(None, max_length=1_000, description="its last component is kept")
    media_type: str | None = Field(None, max_length=200, description="default: told by content and filename")

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        if (self.text is None) == (self.content_base64 is None):
            raise ValueError("Give the content once: as `text`, or as `content_base64`.")
        return self


class AcceptedDocument(ReplyModel):
    """A document that is durable; what is done with it is told by its state."""

    model_config = _example(
        document_id=_DOCUMENT_ID, state="queued", version=1, collection="handbook", external_id="leave.md"
    )

    document_id: UUID
    state: DocumentState
    version: int
    collection: str
    external_id: str


class ChunkCounts(ReplyModel):
    total: int
    generated: int = Field(description="questions written, or given; indexed ones included")
    indexed: int
    dead: int
    discarded: int = Field(description="dead, and given up by the owner")


class IngestUsage(ReplyModel):
    prompt_tokens: int
    completion_tokens: int
    calls: int
    cost: float = Field(description="by FOREASK_LLM_INPUT_PRICE and FOREASK_LLM_OUTPUT_PRICE")


class DocumentView(ReplyModel):
    """A document; counts and usage are those of its newest version."""

    model_config = _example(
        id=_DOCUMENT_ID,
        external_id="leave.md",
        collection="handbook",
        title="Leave",
        filename="leave.md",
        media_type="text/markdown",
        metadata={"department": "hr", "year": 2026},
        size_bytes=48,
        state="ready",
        version=1,
        live_version=1,
        error=None,
        created_at="2026-10-01T09:00:00Z",
        updated_at="2026-10-01T09:00:04Z",
        chunks={"total": 1, "generated": 1, "indexed": 1, "dead": 0, "discarded": 0},
        questions=3,
        usage={"prompt_tokens": 412, "completion_tokens": 57, "calls": 1, "cost": 0.0001},
    )

    id: UUID
    external_id: str
    collection: str
    title: str | None
    filename: str | None
    media_type: str | None
    metadata: dict[str, Any]
    size_bytes: int
    state: DocumentState
    version: int = Field(description="rises with every change of the content")
    live_version: int | None = Field(description="the version that queries see; null: none yet")
    error: str | None
    created_at: datetime
    updated_at: datetime
    chunks: ChunkCounts
    questions: int = Field(description="questions that were kept")
    usage: IngestUsage


class DocumentPage(ReplyModel):
    items: list[DocumentView]
    next_cursor: str | None = Field(description="null on the last page")


class ChunkQuestion(ReplyModel):
    text: str
    passed: bool | None = Field(description="null: not filtered yet")
    reason: str | None = Field(description="why it was dropped")


class ChunkView(ReplyModel):
    model_config = _example(
        id="5d4c9f0a-6f0e-5d7a-9a53-0a4b1f2c3d4e",
        ordinal=0,
        text="Everybody has 30 days of leave a year.",
        heading_path=["Leave"],
        span=[9, 47],
        page=None,
        state="indexed",
        error=None,
        questions=[{"text": "How many days of leave are there?", "passed": True, "reason": None}],
    )

    id: UUID
    ordinal: int
    text: str
    heading_path: list[str]
    span: tuple[int, int] = Field(description="where it stands in the document's text")
    page: int | None
    state: ChunkState
    error: str | None
    questions: list[ChunkQuestion]


class ChunkPage(ReplyModel):
    items: list[ChunkView]
    next_cursor: str | None = Field(description="null on the last page")


# Dead letters


class DeadLetterFilter(BodyModel):
    """Which dead letters; every one that is given narrows the choice."""

    model_config = _example(collection="handbook", reason="gave up after 8 attempts: the model did not answer in time")

    document_id: Annotated[UUID, Field(strict=False)] | None = None
    collection: CollectionName | None = None
    reason: Reason | None = None
    letter_id: Annotated[UUID, Field(strict=False)] | None = None
    all: bool = Field(default=False, description="every one, where nothing else is given; dropping asks for it")

    @model_validator(mode="after")
    def _all_or_some(self) -> Self:
        if self.all and self.is_narrowed:
            raise ValueError("Either `all`, or what narrows the choice, not both.")
        return self

    @property
    def is_narrowed(self) -> bool:
        return any(given is not None for given in (self.document_id, self.collection, self.reason, self.letter_id))


class AttemptView(ReplyModel):
    at: datetime
    attempt: int
    error: str


_LETTER_EXAMPLE = {
    "id": "5d4c9f0a-6f0e-5d7a-9a53-0a4b1f2c3d4e",
    "kind": "chunk",
    "document_id": _DOCUMENT_ID,
    "external_id": "leave.md",
    "collection": "handbook",
    "ordinal": 0,
    "reason": "gave up after 8 attempts: the model did not answer in time",
    "attempts": 8,
    "at": "2026-10-01T09:20:00Z",
}


class DeadLetterView(ReplyModel):
    """A document that could not be parsed, or a chunk that was given up."""

    model_config = _example(**_LETTER_EXAMPLE)

    id: UUID = Field(description="that of the document or of the chunk")
    kind: Literal["document", "chunk"]
    document_id: UUID
    external_id: str
    collection: str
    ordinal: int | None = Field(description="the chunk's place in its document; null for a document")
    reason: str
    attempts: int
    at: datetime = Field(description="when it was given up")


class DeadLetterHistory(DeadLetterView):
    model_config = _example(
        **_LETTER_EXAMPLE,
        history=[{"at": "2026-10-01T09:20:00Z", "attempt": 8, "error": _LETTER_EXAMPLE["reason"]}],
    )

    history: list[AttemptView] = Field(description="the last attempts that failed, at most 20, the oldest first")


class DeadLetterPage(ReplyModel):
    items: list[DeadLetterView]
    next_cursor: str | None = Field(description="null on the last page")


class DeadReasonView(ReplyModel):
    reason: str
    documents: int
    chunks: int


class DeadReasons(ReplyModel):
    model_config = _example(items=[{"reason": _LETTER_EXAMPLE["reason"], "documents": 0, "chunks": 12}])

    items: list[DeadReasonView] = Field(description="the most frequent first, at most 200")


class DeadLettersResolved(ReplyModel):
    """How many dead letters were tried again, or dropped."""

    model_config = _example(documents=0, chunks=12, in_work=0)

    documents: int
    chunks: int
    in_work: int = Field(description="chunks left alone, because their documents are in work")


# Collections


class CollectionChange(BodyModel):
    """A collection's options; what is absent or null follows the server's settings."""

    model_config = _example(questions_per_chunk=5, chunk_max_chars=2000, chunk_overlap_chars=100)

    questions_per_chunk: QuestionCount | None = Field(None, description="auto: by the length of the chunk, 3 to 10")
    prompt: Annotated[str, AfterValidator(_template)] | None = Field(
        None, description="the model's instructions, with {text} and, if wanted, {title}, {headings} and {count}"
    )
    chunk_max_chars: int | None = Field(None, ge=200, le=100_000)
    chunk_overlap_chars: int | None = Field(None, ge=0, le=10_000)
    prepend_questions: bool | None = Field(
        None, description="embed a chunk's text with its questions in front of it; default false"
    )
    section_max_chars: int | None = Field(
        None, ge=200, le=100_000, description="divide into sections of so many characters, and these into chunks"
    )


class CollectionOptionsView(ReplyModel):
    questions_per_chunk: int | Literal["auto"] | None
    prompt: str | None
    chunk_max_chars: int | None
    chunk_overlap_chars: int | None
    prepend_questions: bool | None
    section_max_chars: int | None


class CollectionView(ReplyModel):
    model_config = _example(
        name="handbook",
        embedding_model="text-embedding-3-small",
        options={
            "questions_per_chunk": 5,
            "prompt": None,
            "chunk_max_chars": 2000,
            "chunk_overlap_chars": 100,
            "prepend_questions": None,
            "section_max_chars": None,
        },
        created_at="2026-10-01T09:00:00Z",
        documents={"ready": 12, "generating": 1},
        points=310,
    )

    name: str
    embedding_model: str
    options: CollectionOptionsView = Field(description="null: as the server's settings say")
    created_at: datetime
    documents: dict[DocumentState, int] = Field(description="how many are in each state; states without any are absent")
    points: int | None = Field(description="points in Qdrant; null while Qdrant is away")
    calibration: CalibrationView | None = Field(None, description="null: the channels' weights are equal")


class ReindexReply(ReplyModel):
    model_config = _example(documents=1250)

    documents: int = Field(description="how many documents begin their next version")


class VerifyBody(BodyModel):
    """How to compare a collection with Qdrant."""

    model_config = _example(repair=True)

    repair: bool = Field(default=False, description="mend what differs; without it nothing is changed")


class FindingView(ReplyModel):
    """A point that differs."""

    model_config = _example(
        kind="missing",
        why="not stored",
        point_id="5d4c9f0a-6f0e-5d7a-9a53-0a4b1f2c3d4e",
        document_id=_DOCUMENT_ID,
        chunk_id="5d4c9f0a-6f0e-5d7a-9a53-0a4b1f2c3d4e",
        repaired=True,
    )

    kind: Literal["missing", "stale", "orphaned"]
    why: str
    point_id: str
    document_id: UUID | None
    chunk_id: UUID | None
    repaired: bool = Field(description="removed, shown, or its chunk is due to be indexed again without a call")


class VerificationCountsView(ReplyModel):
    """What a comparison found so far, or in all."""

    model_config = _example(documents=1250, points=31000, missing=6, stale=0, orphaned=2, repaired=8)

    documents: int = Field(description="documents that were not in work")
    points: int = Field(description="points that are stored")
    missing: int = Field(description="expected and not stored")
    stale: int = Field(description="of an old version, or hidden though they should be seen")
    orphaned: int = Field(description="stored, though their document, chunk or question is not in the ledger")
    repaired: int


class VerificationReply(VerificationCountsView):
    model_config = _example(documents=1250, points=31000, missing=6, stale=0, orphaned=2, repaired=8, findings=[])

    findings: list[FindingView] = Field(description="the first 1,000")


class LabelledQuestion(BodyModel):
    """A question and what answers it: chunks, or documents of which any chunk does."""

    question: str = Field(min_length=1, max_length=10_000, pattern=r"\S")
    chunk_ids: list[Annotated[UUID, Field(strict=False)]] = Field([], max_length=100)
    external_ids: list[str] = Field([], max_length=100)

    @model_validator(mode="after")
    def _has_an_answer(self) -> Self:
        if not self.chunk_ids and not self.external_ids:
            raise InvalidInput("A labelled question needs chunk_ids or external_ids that answer it.", field="questions")
        return self


class CalibrateBody(BodyModel):
    """Questions whose answers are known, as users ask them; without any, what can be measured without."""

    model_config = _example(questions=[{"question": "How much leave do I get?", "external_ids": ["leave.md"]}] * 10)

    questions: list[LabelledQuestion] | None = Field(
        None, min_length=10, max_length=1_000, description="30 are enough to help"
    )


class NDCG(ReplyModel):
    """nDCG@10 over the questions, with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


_INTERVAL = {"mean": 0.81, "low": 0.71, "high": 0.9}


class CalibrationView(ReplyModel):
    """The weights of a collection's channels, and what speaks for them."""

    model_config = _example(
        weights={"questions": 2.0, "text": 1.0, "bm25": 0.5},
        questions=42,
        channels={"questions": _INTERVAL, "text": _INTERVAL, "bm25": _INTERVAL},
        equal=_INTERVAL,
        chosen=_INTERVAL,
        source="labelled",
        baseline=0.04,
        chunks=310,
    )

    weights: dict[str, float] = Field(description="equal ones where no others were better by more than chance")
    questions: int
    channels: dict[str, NDCG] = Field(description="of each channel alone")
    equal: NDCG = Field(description="of equal weights")
    chosen: NDCG = Field(description="of the weights, on the questions that they were chosen by")
    source: Literal["labelled", "accepted", "generated"] = Field(
        "labelled", description="whose questions these are; by generated ones no weights are chosen"
    )
    baseline: float = Field(0.0, description="the mean cosine of questions with texts that do not answer them")
    chunks: int = Field(0, description="how many the collection had")


class CollectionPage(ReplyModel):
    items: list[CollectionView]
    next_cursor: str | None = Field(description="null on the last page")


# Queries


class ChannelWeights(BodyModel):
    """How much each channel counts; only their ratios matter, and 0 leaves one out."""

    questions: float = Field(1.0, ge=0, le=1_000)
    text: float = Field(1.0, ge=0, le=1_000)
    bm25: float = Field(1.0, ge=0, le=1_000)


def _three(value: object) -> object:
    return 3 if value is True else 0 if value is False else value


class RewriteBody(BodyModel):
    """What the question is rewritten to, with one call to the language model; it is searched for as it is, too."""

    hyde: bool = Field(default=False, description="a passage that would answer it")
    queries: Annotated[int, BeforeValidator(_three)] = Field(
        0, ge=0, le=MAX_QUERIES, description="so many other wordings; true is 3"
    )
    step_back: bool = Field(default=False, description="a more general question")
    intent: bool = Field(default=False, description="what it asks for; told with `explain`, the order is the same")
    entities: bool = Field(default=False, description="the names in it; chunks that have them go up a little")
    budget_ms: int | None = Field(
        None, ge=1, le=60_000, description="then it goes on without; default FOREASK_TUNING__REWRITE_BUDGET"
    )

    @property
    def budget(self) -> timedelta | None:
        return None if self.budget_ms is None else timedelta(milliseconds=self.budget_ms)


class RetrieveBody(BodyModel):
    """A question, and where and how to look for what answers it."""

    model_config = _example(
        collection="handbook", question="How much leave do I get?", top_k=5, filter={"department": "hr"}
    )

    question: str = Field(min_length=1, max_length=10_000, pattern=r"\S")
    collection: CollectionName = "default"
    top_k: int = Field(10, ge=1, description="distinct chunks; at most FOREASK_TUNING__TOP_K_MAX")
    min_score: float | None = Field(None, ge=-1, le=1, description="chunks with a lower score are left out")
    max_tokens: int = Field(
        12_000, ge=1, le=1_000_000, description="of all texts together, counted by FOREASK_LLM_TOKENIZER or estimated"
    )
    filter: dict[str, Any] | None = Field(
        None,
        description="metadata of chunks: each a value, {any: [...]}, {none: [...]}, {gt, gte, lt, lte} or {text}",
    )
    document_ids: list[Annotated[UUID, Field(strict=False)]] | None = Field(None, min_length=1, max_length=1_000)
    channels: list[Channel] = Field(list(CHANNELS), min_length=1, description="the ways to find a chunk that are used")
    fusion: FusionName = Field("scores", description="how the channels' scores become one")
    weights: ChannelWeights | None = Field(None, description="of the channels, instead of the collection's")
    rewrite: RewriteBody | None = Field(None, description="what else to search for than the question as it is")
    rerank: bool = Field(default=True, description="have the best chunks ordered by FOREASK_RERANK_BASE_URL, if set")
    diversity: float = Field(0.0, ge=0, le=1, description="how much a chunk loses that is like one before it")
    unit: ReturnUnit = Field(
        "chunk",
        description="what is returned of a chunk that was found: it, its section (section_max_chars), or some of its"
        " sentences",
    )
    window: int = Field(2, ge=0, le=100, description="with `unit: sentences`: so many on each side of the nearest")
    order: ReturnOrder = Field(
        "score", description="section: chunks under the same headings together, as they stand in their document"
    )
    record: bool = Field(default=True, description="keep the question, so that feedback can name it by its query_id")
    explain: bool = Field(
        default=False,
        description="say what each channel found of each chunk, with what weights, and what each stage did",
    )


class QueryBody(RetrieveBody):
    """A question to be answered."""

    model_config = _example(collection="handbook", question="How much leave do I get?", stream=False)

    stream: bool = Field(default=False, description="answer as server-sent events: retrieved, token, done, error")


class ChannelRankView(ReplyModel):
    rank: int = Field(description="in the channel, from 1")
    score: float = Field(description="cosine; for bm25 the share of what a chunk could reach")


class RetrievedChunkView(ReplyModel):
    chunk_id: str
    score: float = Field(
        description="the weighted mean of the channels' scores; with `fusion`, what that makes of them"
    )
    matched_question: str | None = Field(description="null: its text was nearest")
    matched_question_source: QuestionOrigin | None = Field(
        description="user: a question that was accepted from feedback"
    )
    text: str
    document_id: str
    external_id: str
    title: str | None
    filename: str | None
    heading_path: list[str]
    page: int | None
    span: tuple[int, int] = Field(description="of the text in the document, in characters of what was extracted")
    chunk_span: tuple[int, int] = Field(description="of the chunk that was found")
    version: int = Field(description="of the document")
    metadata: dict[str, Any]
    also_in: list[str] = Field([], description="external ids of documents in which the same text was found")
    tokens: int = Field(description="of the text, counted by FOREASK_LLM_TOKENIZER or estimated")
    rerank_score: float | None = Field(description="of the reranker, on its own scale; null: not reranked")
    channels: dict[str, ChannelRankView] | None = Field(None, description="with `explain`: where each channel has it")


class Citation(ReplyModel):
    number: int = Field(description="as it stands in the answer: [1]")
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
    intent: Intent | None
    entities: list[str]


class StageExplanation(ReplyModel):
    milliseconds: float | None = Field(description="null: it was not timed by itself")
    did: str | None = Field(description="null: nothing that could be said of it")
    skipped: str | None = Field(description="why the query went on without it")


class Explanation(ReplyModel):
    stages: dict[str, StageExplanation] = Field(description="what each stage did, and how long that took")
    fusion: FusionName
    weights: dict[str, float] = Field(description="of the channels that were searched")
    rewritten: RewrittenQuestionView | None = Field(
        description="what else was searched for; null: only the question itself"
    )


class QueryMetadata(ReplyModel):
    query_id: UUID | None = Field(
        description="names the question to POST /v1/feedback; null: it is not kept, or the ledger was away"
    )
    matched_questions: int
    unique_chunks: int
    usage: QueryUsage
    milliseconds: dict[str, float] = Field(description="by stage, and `total`")
    skipped: dict[str, str] = Field(description="by stage (`rewrite`, `rerank`), why it was done without")
    explain: Explanation | None = Field(None, description="with `explain`: how the chunks were ranked")


_METADATA_EXAMPLE = {
    "query_id": _QUERY_ID,
    "matched_questions": 4,
    "unique_chunks": 1,
    "usage": {"prompt_tokens": 312, "completion_tokens": 14},
    "milliseconds": {"embed": 12.1, "search": 6.4, "record": 0.9, "answer": 820.0, "total": 840.1},
    "skipped": {},
}
_FOUND_EXAMPLE = {
    "chunk_id": "5d4c9f0a-6f0e-5d7a-9a53-0a4b1f2c3d4e",
    "score": 0.87,
    "matched_question": "How many days of leave are there?",
    "matched_question_source": "generated",
    "text": "Everybody has 30 days of leave a year.",
    "document_id": _DOCUMENT_ID,
    "external_id": "leave.md",
    "title": "Leave",
    "filename": "leave.md",
    "heading_path": ["Leave"],
    "page": None,
    "span": [9, 47],
    "chunk_span": [9, 47],
    "version": 1,
    "also_in": [],
    "metadata": {"department": "hr"},
    "tokens": 13,
    "rerank_score": None,
}
_CITED = ("document_id", "external_id", "title", "heading_path", "page", "span", "text", "chunk_id")


class RetrieveReply(ReplyModel):
    """The chunks that answer a question, best first; none where nothing is found."""

    model_config = _example(chunks=[_FOUND_EXAMPLE], metadata=_METADATA_EXAMPLE)

    chunks: list[RetrievedChunkView]
    metadata: QueryMetadata


class QueryReply(ReplyModel):
    """An answer from the documents alone."""

    model_config = _example(
        answer="You have 30 days of leave a year [1].",
        found=True,
        form="generative",
        citations=[{"number": 1} | {name: _FOUND_EXAMPLE[name] for name in _CITED}],
        removed_citations=[],
        chunks=[_FOUND_EXAMPLE],
        metadata=_METADATA_EXAMPLE,
    )

    answer: str
    found: bool = Field(description="false: the documents do not answer the question, and the answer says so")
    form: Form = Field(description="extractive: quoted from the documents, not written by a model")
    citations: list[Citation] = Field(description="in order of appearance")
    removed_citations: list[int] = Field(description="numbers that the model cited though there was no such passage")
    chunks: list[RetrievedChunkView]
    metadata: QueryMetadata


# Feedback


class FeedbackBody(BodyModel):
    """Whether a chunk answered the question of a query that returned it."""

    model_config = _example(query_id=_QUERY_ID, chunk_id=_FOUND_EXAMPLE["chunk_id"], helpful=True)

    query_id: Annotated[UUID, Field(strict=False)] = Field(description="`metadata.query_id` of the reply")
    chunk_id: Annotated[UUID, Field(strict=False)]
    helpful: bool = Field(description="true: the question becomes one of the chunk; false: it is taken back")


class FeedbackReply(ReplyModel):
    """What was done."""

    model_config = _example(
        outcome="accepted",
        chunk_id=_FOUND_EXAMPLE["chunk_id"],
        question="How much leave do I get?",
        accepted_id=_ACCEPTED_ID,
    )

    outcome: Literal["accepted", "already_accepted", "already_asked", "taken_back", "not_accepted"] = Field(
        description="already_asked: the chunk has the question word for word; not_accepted: nothing to take back"
    )
    chunk_id: UUID
    question: str
    accepted_id: UUID | None = Field(description="of the accepted question, where there is or was one")


class AcceptedQuestionView(ReplyModel):
    """A user's question that became one of a chunk."""

    model_config = _example(
        id=_ACCEPTED_ID,
        document_id=_DOCUMENT_ID,
        external_id="leave.md",
        chunk_id=_FOUND_EXAMPLE["chunk_id"],
        question="How much leave do I get?",
        query_id=_QUERY_ID,
        state="indexed",
        created_at="2026-10-01T09:30:00Z",
    )

    id: UUID
    document_id: UUID
    external_id: str
    chunk_id: UUID
    question: str
    query_id: UUID | None
    state: AcceptedState = Field(
        description="waiting: to be indexed, once its document is not in work and its chunk not dead; refused: the"
        " embedding model does not take it"
    )
    created_at: datetime


class AcceptedPage(ReplyModel):
    items: list[AcceptedQuestionView]
    next_cursor: str | None = Field(description="null on the last page")


# Health and problems


class LiveReply(ReplyModel):
    model_config = _example(status="live")

    status: Literal["live"] = "live"


class ReadyReply(ReplyModel):
    model_config = _example(
        status="degraded", components={"ledger": "up", "broker": "down", "qdrant": "up"}, down=["broker"]
    )

    status: Literal["ready", "degraded", "unavailable"]
    components: dict[Literal["ledger", "broker", "qdrant"], Literal["up", "down"]]
    down: list[str]


class StageView(ReplyModel):
    """Documents that wait for `parse`, chunks that wait for `generate` and `index`."""

    due: int = Field(description="may begin now")
    in_flight: int = Field(description="in work")
    later: int = Field(description="tried before, and due again at a time to come")
    oldest_seconds: float | None = Field(description="for how long the one that has waited longest has been due")


class LimitView(ReplyModel):
    name: str
    per_minute: int | None = Field(description="null: nothing is declared, so calls in flight are limited instead")
    used: int = Field(description="in the last minute")
    in_flight: int = Field(description="calls under way, of all workers together")
    in_flight_limit: int | None
    breaker: Literal["closed", "open", "half-open"]
    cooldown_seconds: float = Field(description="for how long the provider asked everyone to wait")


class StatusView(ReplyModel):
    model_config = _example(
        documents={"generating": 12, "ready": 240},
        stages={
            "parse": {"due": 3, "in_flight": 2, "later": 0, "oldest_seconds": 1.2},
            "generate": {"due": 810, "in_flight": 64, "later": 4, "oldest_seconds": 31.5},
            "index": {"due": 0, "in_flight": 12, "later": 0, "oldest_seconds": None},
        },
        dead=1,
        chunks_per_minute=2310.0,
        eta_seconds=23,
        limits=[
            {
                "name": "llm requests",
                "per_minute": 2400,
                "used": 2310,
                "in_flight": 37,
                "in_flight_limit": None,
                "breaker": "closed",
                "cooldown_seconds": 0.0,
            }
        ],
    )

    documents: dict[str, int] = Field(description="how many are in each state")
    stages: dict[Literal["parse", "generate", "index"], StageView]
    dead: int = Field(description="documents that failed and chunks that are dead: GET /v1/dead lists them")
    chunks_per_minute: float = Field(description="chunks that ended in the last minute")
    eta_seconds: int | None = Field(description="how long the open chunks take at that rate")
    limits: list[LimitView] | None


class FieldError(ReplyModel):
    field: str
    message: str


class ProblemDetails(ReplyModel):
    """An error (RFC 9457); `detail` says what to do."""

    model_config = _example(
        type="urn:foreask:problem:invalid-input",
        title="The request cannot be done as it stands",
        status=422,
        detail="top_k: Input should be greater than or equal to 1.",
        instance="/v1/retrieve",
        field="top_k",
        errors=[{"field": "top_k", "message": "Input should be greater than or equal to 1."}],
    )

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = None
    field: str | None = Field(None, description="the part of the request to change")
    errors: list[FieldError] | None = None
    component: str | None = Field(None, description="which part is down: ledger, broker, qdrant, llm or embedding")
