"""Replies of the API. Fields that a newer server adds are kept as attributes without a type."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Json = dict[str, Any]
KeyScope = Literal["read", "ask", "feedback", "write", "manage"]
Lane = Literal["interactive", "bulk", "batch"]
Version = Literal["latest", "live"]


class Model(BaseModel):
    model_config = ConfigDict(extra="allow", protected_namespaces=())


class ChunkCounts(Model):
    total: int
    searchable: int
    generated: int
    indexed: int
    dead: int
    discarded: int


class Usage(Model):
    """Tokens and cost of model calls; `cost` is `None` if a price is unknown."""

    prompt_tokens: int
    completion_tokens: int
    calls: int = 0
    cost: float | None = None


class Loss(Model):
    """A part of a file that misses words; `sample` has some of them."""

    location: str
    missing: int
    sample: list[str]


class Document(Model):
    """A document; its counts and usage refer to its newest version.

    `pages` have no text and are read by OCR; `pages_unread` of them could not be read. `text_coverage` is the share of
    the words of the file that arrived; None if they were not counted. `losses` are parts that miss words, and `unread`
    has a sentence for each part that was not read. `outdated`: an older reader has read the file.
    """

    id: str
    external_id: str
    collection: str
    title: str | None
    filename: str | None
    media_type: str | None
    metadata: Json | None
    size_bytes: int
    state: str
    version: int
    live_version: int | None
    error: str | None
    created_at: datetime
    updated_at: datetime
    chunks: ChunkCounts
    pages: int = 0
    pages_read: int = 0
    pages_unread: int = 0
    text_coverage: float | None = None
    losses: list[Loss] = Field(default_factory=list)
    unread: list[str] = Field(default_factory=list)
    outdated: bool = False
    questions: int
    usage: Usage


class BatchLine(Model):
    """The result of one document of a batch: `document`, or the problem details of its rejection as `error`."""

    line: int
    status: int
    external_id: str | None = None
    document: Document | None = None
    error: Json | None = None


class UploadOffer(Model):
    upload: str
    url: str = Field(repr=False)  # signed: it permits writing without a key
    method: str
    headers: dict[str, str]
    expires_in_seconds: int


class Question(Model):
    """A question of a chunk; `source` is `generated`, `given` or `user`."""

    text: str
    passed: bool | None
    reason: str | None
    source: str
    similarity: float | None
    accepted: Json | None = None


class Chunk(Model):
    """A chunk of a document; `span` counts characters of the document's text.

    `confidence` is the mean confidence of the words of scanned pages, from 0 to 100.
    """

    id: str
    document_id: str
    version: int
    ordinal: int
    text: str
    title: str | None
    heading_path: list[str]
    span: tuple[int, int]
    section: tuple[int, int] | None
    page: int | None
    confidence: int | None = None
    language: str | None
    state: str
    error: str | None
    attempts: list[Json]
    usage: Usage
    questions: list[Question]


class ChunkInContext(Model):
    """A chunk with its document and its neighbours, in order."""

    document: Document
    before: list[Chunk]
    chunk: Chunk
    after: list[Chunk]


class FoundChunk(Model):
    """A chunk in the result of a query.

    `matched_question` is `None` if the chunk's text matched best, or if the question is a user's and the key lacks the
    scope `read`.
    """

    chunk_id: str
    score: float
    matched_question: str | None
    matched_question_source: str | None
    text: str
    document_id: str
    external_id: str
    title: str | None
    filename: str | None
    heading_path: list[str]
    page: int | None
    language: str | None
    span: tuple[int, int]
    chunk_span: tuple[int, int]
    version: int
    metadata: Json
    also_in: list[str] = []
    tokens: int
    rerank_score: float | None
    channels: Json | None = None
    evidence: Json | None = None


class QueryMetadata(Model):
    """Facts about a query; `query_id` identifies it for feedback and is `None` if the query was not recorded.

    `question` is the searched question, which differs from the sent one if that was part of a conversation.
    """

    query_id: str | None
    question: str = ""  # servers before this field do not return it
    matched_questions: int
    unique_chunks: int
    usage: Usage
    milliseconds: dict[str, float]
    skipped: dict[str, str]
    notice: str | None = None  # why results may be wrong or incomplete
    explain: Json | None = None


class Retrieval(Model):
    chunks: list[FoundChunk]
    metadata: QueryMetadata


class Citation(Model):
    """A passage that the answer cites by its `number`; `sentences` are spans of `text` that support the answer."""

    number: int
    document_id: str
    external_id: str
    title: str | None
    heading_path: list[str]
    page: int | None
    span: tuple[int, int]
    text: str
    chunk_id: str
    sentences: list[tuple[int, int]] = []


_INCOMPLETE = {
    "length": "the model reached its token limit",
    "content_filter": "the provider's content filter stopped it",
    "interrupted": "the model's reply was interrupted",
}


class Answer(Model):
    """An answer from the documents only.

    If `found` is false, the documents do not answer the question. If `certain` is false, they may not answer it.
    `incomplete_reason` names the reason of an incomplete answer: `length`, `content_filter` or `interrupted`.
    """

    answer: str
    found: bool
    form: str
    certain: bool = True
    incomplete_reason: str | None = None
    citations: list[Citation]
    removed_citations: list[int]
    chunks: list[FoundChunk]
    metadata: QueryMetadata

    @property
    def why_incomplete(self) -> str | None:
        """The sentence that a reader of an incomplete answer needs; None if the answer is complete."""
        if self.incomplete_reason is None:
            return None
        reason = _INCOMPLETE.get(self.incomplete_reason, _INCOMPLETE["interrupted"])
        return f"This answer is incomplete: {reason}."


class Feedback(Model):
    outcome: str
    chunk_id: str
    question: str
    accepted_id: str | None


class AuditEntry(Model):
    """A recorded change.

    Attributes:
        tenant: None in the list of a tenant.
        changes: `before` and `after` of each changed field, without secrets and contents.
    """

    id: str
    tenant: str | None = None
    created_at: datetime
    actor: Json
    action: str
    object: str
    object_name: str
    changes: Json


class AcceptedQuestion(Model):
    """A user's question that became a question of a chunk."""

    id: str
    document_id: str
    external_id: str
    chunk_id: str
    question: str
    query_id: str | None
    accepted_by: str | None = None
    state: str
    created_at: datetime


class AskedQuestion(Model):
    """A question that users asked, with the number of times."""

    query_id: str
    question: str
    times: int
    found: bool
    best_score: float | None
    helpful: bool | None
    helpful_chunk_id: str | None = None
    chunk_ids: list[str]
    first_at: datetime
    last_at: datetime


class GapQuestion(Model):
    """A question of a gap, with the number of times."""

    question: str
    times: int
    last_at: datetime


class NearestPassage(Model):
    """The passage with the highest score for a question of a gap."""

    chunk_id: str
    document_id: str
    external_id: str
    score: float


class Resolution(Model):
    """The document that resolves a gap."""

    document_id: str
    external_id: str
    at: datetime


class Gap(Model):
    """Questions that mean the same and that the documents did not answer.

    Attributes:
        question: the question that was asked most often.
        questions: its questions, most often asked first, at most 20.
        distinct_questions: number of different questions.
        times: number of queries with these questions.
        per_day: queries on each of the last days in UTC; the last item is today.
        last_week: queries in the last 7 days; `week_before` in the 7 days before.
        state: `open`, `assigned` or `resolved`.
        resolved_by: the resolving document, also if the gap is open again.
    """

    id: str
    question: str
    questions: list[GapQuestion]
    distinct_questions: int
    times: int
    per_day: list[int]
    last_week: int
    week_before: int
    first_at: datetime
    last_at: datetime
    nearest: NearestPassage | None
    state: str
    assigned_to: str | None
    resolved_by: Resolution | None


class CollectionOptions(Model):
    """Options of a collection; None means that the server's setting applies."""

    questions_per_chunk: int | Literal["auto"] | None = None
    prompt: str | None = None
    chunk_max_chars: int | None = None
    chunk_overlap_chars: int | None = None
    prepend_questions: bool | None = None
    section_max_chars: int | None = None
    ocr_languages: str | None = None
    captions: bool | None = None
    filterable: dict[str, str] = {}


class Collection(Model):
    """A collection; `documents` has counts by state, `points` is `None` while Qdrant is unavailable.

    `points_age_seconds` is the time since the points were counted.
    """

    name: str
    embedding_model: str
    options: CollectionOptions
    created_at: datetime
    languages: list[str]
    documents: dict[str, int]
    points: int | None
    points_age_seconds: float | None = None
    calibration: Json | None = None
    notice: str | None = None


class Build(Model):
    """A build of a collection: its points for one embedding and one set of options."""

    build: int
    state: str
    embedding_model: str
    options: CollectionOptions
    created_at: datetime
    live_until: datetime | None
    source_documents: int
    copied: int
    documents: dict[str, int]
    gate: Json | None = None


class DeadLetter(Model):
    """A document that could not be parsed, a page that could not be read, or a chunk that failed.

    `ordinal` is the position of the chunk, from 0, or the number of the page, from 1. Only a single dead letter has a
    `history`.
    """

    id: str
    kind: str
    document_id: str
    external_id: str
    collection: str
    ordinal: int | None
    reason: str
    attempts: int
    at: datetime
    history: list[Json] = []


class DeadReason(Model):
    reason: str
    documents: int
    pages: int = 0
    chunks: int


class DeadLettersResolved(Model):
    """Numbers of retried or discarded documents, pages and chunks; chunks `in_progress` were not changed."""

    documents: int
    pages: int = 0
    chunks: int
    in_progress: int


class Erasure(Model):
    """The progress of an erasure; its `state` is `running` or `finished`."""

    id: str
    collection: str | None
    document_id: str | None
    state: str
    documents_left: int
    deleted: dict[str, int]
    started_at: datetime
    finished_at: datetime | None


class Job(Model):
    """Long work with progress, such as a load, a sync, a reindex, a build or an evaluation."""

    id: str
    kind: str
    state: str
    collection: str | None
    pause_reason: str | None
    budget_id: str | None = None
    closed: bool
    done: int
    total: int
    documents: dict[str, int]
    points: int | None = None
    eta_seconds: int | None
    cost: float | None = None
    message: str | None
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class Batch(Model):
    """Requests for the questions of chunks, which the provider's batch API answers within a day.

    `part_of` is the rejected batch whose requests were divided. `done` requests have a result at the provider, and
    `settled` requests have a stored result or are repeated elsewhere. Tokens and cost include stored results only.
    """

    id: str
    part_of: str | None
    state: str
    model: str
    jobs: list[str]
    lines: int
    settled: int
    done: int
    bytes: int
    provider_id: str | None
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    age_seconds: int
    error: str | None
    created_at: datetime
    submitted_at: datetime | None
    progressed_at: datetime
    cancelled_at: datetime | None
    ended_at: datetime | None


class Key(Model):
    """A key, without the key itself."""

    id: str
    name: str
    prefix: str | None = None
    scopes: list[str]
    filter: Json | None
    limits: Json = {}
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewKey(Key):
    """A new key. `key` is part of this reply only, and of no repr."""

    key: str = Field(repr=False)


class Budget(Model):
    """A budget of the ingest and its use; amounts are tokens, or money in the currency of the prices."""

    id: str
    collection: str | None
    job_id: str | None
    period: str
    unit: str
    set_by: str
    limit: float
    spent: float
    reserved: float
    exhausted: bool
    ends_at: datetime | None
    notice: str | None


class RefusedEntry(Model):
    """An entry that a sync could not read."""

    key: str
    reason: str


class Sync(Model):
    """A sync of a source; its id is the id of its job."""

    id: str
    source: str
    collection: str
    state: str
    seen: int
    created: int
    changed: int
    unchanged: int
    missing: int
    deleted: int
    withheld: int
    refused: int
    refused_entries: list[RefusedEntry]
    waiting: str | None
    approved: int | None
    error: str | None
    created_at: datetime
    listed_at: datetime | None
    ended_at: datetime | None


class Lookup(Model):
    """The newest lookup of a source's hints."""

    state: str
    waiting: str | None
    error: str | None
    ended_at: datetime | None


class Source(Model):
    """A source with its newest sync. Its documents have the external ids `NAME/KEY`."""

    name: str
    collection: str
    kind: str
    uri: str
    options: Json
    secret_name: str | None
    schedule: str | None
    time_zone: str
    max_delete_share: float
    created_at: datetime
    next_sync_at: datetime | None
    schedule_error: str | None
    newest_sync: Sync | None
    newest_lookup: Lookup | None
    removing: bool


class Withheld(Model):
    """Deletions of a source that need approval, with the first keys."""

    job_id: str | None
    deletions: int
    items: int
    keys: list[str]


class Webhook(Model):
    id: str
    url: str
    events: list[str]
    created_at: datetime
    failing_since: datetime | None
    disabled_at: datetime | None


class Delivery(Model):
    """A message to a webhook, with the result of its last attempt."""

    id: str
    message_id: str
    type: str
    data: Json
    state: str
    created_at: datetime
    next_attempt_at: datetime | None
    attempts: int
    status: int | None
    response: str | None
    error: str | None
    delivered_at: datetime | None


class NewWebhook(Webhook):
    """A new webhook with its secret, which is part of no repr."""

    secret: str = Field(repr=False)


class Me(Model):
    """The tenant and permissions of the key, and properties of the server."""

    tenant: str | None
    key: str | None
    scopes: list[str]
    filter: Json | None
    version: str
    answer: Json
    chat: str | None
    embedding: str | None
    embeddings: list[Json]
    prices: Json | None
    limits: Json
    key_limits: Json
    query_retention_days: int
    shared_answer_retention_days: int = 0  # servers before this field do not return it
    conversation_retention_days: int = 0
    estimates: bool


class LabelledSetSize(Model):
    set: str
    questions: int
    changed_at: datetime


class LabelledSet(Model):
    """Questions with the documents or the chunks that answer them."""

    set: str
    questions: list[Json]
    changed_at: datetime


class Evaluation(Model):
    """An evaluation, which runs on the server.

    Attributes:
        labelled_set: name of the set; None if the request contained the questions.
        state: `queued`, `running`, `done` or `failed`.
        done: number of finished queries, out of `total`.
        results: the content of `results.json` of `foreask eval`; None before the end; in lists only its `rows`.
    """

    id: str
    labelled_set: str | None
    questions: int
    state: str
    strategy: str | None
    done: int
    total: int
    error: str | None
    created_at: datetime
    ended_at: datetime | None
    results: Json | None


class Event(Model):
    """A server-sent event."""

    name: str
    data: Json
