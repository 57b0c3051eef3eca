"""Estimates of the cost of a load or a rebuild."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage


@dataclass(frozen=True, slots=True)
class TierEstimate:
    """The calls with a model in a tier.

    Args:
        model: the language model.
        tier: the tier.
        llm_cost: price of the calls; None if unknown. Other models than the configured one have their list price, and
            their tokens are assumed to be the same.
        seconds: duration at the limits; None if unknown. It is the shortest possible one in the tier `flex`, and the
            longest one in the tier `batch`.
        bottleneck: the limit that takes longest.
        fills: number of times that the calls fill the provider's queue of batches; None if unknown, or in other tiers.
    """

    model: str
    tier: Tier
    llm_cost: float | None
    seconds: float | None
    bottleneck: str | None
    fills: int | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated quantities and costs.

    Args:
        documents: all documents, including those without costs.
        chunks: their chunks.
        paid_chunks: chunks whose questions are paid for already.
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
        bottleneck: the limit that takes longest, such as `llm tokens`.
        margin: half of the 90 % interval of the calls, tokens and costs, relative to them; None if they are exact, or
            without a sample of at least two documents.
        tiers: the configured model, and each requested one, in every tier.
        pages: scanned pages that must be read by OCR.
    """

    documents: int
    chunks: int
    paid_chunks: int
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
    bottleneck: str | None
    margin: float | None
    tiers: tuple[TierEstimate, ...]
    pages: int = 0


@dataclass(frozen=True, slots=True)
class Spent:
    """The costs billed for a collection, with the fields of an estimate."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    embedding_tokens: int


@dataclass(frozen=True, slots=True)
class StoredEstimate:
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
