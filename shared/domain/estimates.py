"""Estimates of the cost of a load or a rebuild."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shared.domain.chunks import ChunkContent
from shared.domain.collections import CollectionOptions
from shared.domain.usage import Usage


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated quantities and costs.

    Args:
        documents: all documents, including those without costs.
        chunks: their chunks.
        calls: calls of the language model for unpaid content, if no reply needs repair.
        prompt_tokens: tokens of the prompts.
        completion_tokens: tokens of the replies.
        embeddings: texts and questions to embed.
        embedding_tokens: tokens of these.
        points: points in Qdrant.
        exact: whether the calls are exact: each chunk was counted and looked up among paid content.
        llm_cost: price of the calls; None if unknown.
        embedding_cost: price of the embeddings; None if unknown.
        seconds: duration at the limits; None without limits and past rates.
        tightest: the limit that takes longest, such as `llm tokens`.
    """

    documents: int
    chunks: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    embeddings: int
    embedding_tokens: int
    points: int
    exact: bool
    llm_cost: float | None
    embedding_cost: float | None
    seconds: float | None
    tightest: str | None


@dataclass(frozen=True, slots=True)
class Spent:
    """The costs billed for a collection, with the fields of an estimate."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    embedding_tokens: int


@dataclass(frozen=True, slots=True)
class KeptEstimate:
    """The estimate at the start of a collection's last load, and the costs billed since.

    `estimate` has the fields of `Estimate` by name.
    """

    collection: str
    at: datetime
    estimate: Mapping[str, object]
    since: Spent


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk of a document's newest version.

    Args:
        ready_questions: questions submitted with the document; None if a model generates them.
        content_key: key of its questions.
        has_points: whether its points exist.
        reasons: reasons for dropping its questions, None for passed ones; empty until they are filtered.
    """

    document: str
    ordinal: int
    filename: str | None
    media_type: str | None
    content: ChunkContent
    ready_questions: int | None
    content_key: bytes
    has_points: bool
    reasons: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class BilledChunk:
    """A paid chunk: the options of its collection, its costs, and its results."""

    tenant: str
    options: CollectionOptions
    content: ChunkContent
    content_key: bytes
    usage: Usage
    calls: int
    questions: tuple[str, ...]
    passed: int
