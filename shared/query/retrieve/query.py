"""A query: a question and its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from shared.domain.collections import Weights
from shared.query.rewrite import RewriteOptions

Channel = Literal["questions", "text", "bm25"]
QuestionOrigin = Literal["generated", "given", "user"]  # of a chunk's question
FusionName = Literal["scores", "mean", "rrf", "max"]
ReturnUnit = Literal["chunk", "section", "sentences"]
ReturnOrder = Literal["score", "section"]
CHANNELS: tuple[Channel, ...] = ("questions", "text", "bm25")


@dataclass(frozen=True, slots=True)
class Query:
    """A question and its options.

    Args:
        top_k: distinct units.
        min_score: the lowest fused score of a returned chunk.
        max_tokens: of all that is returned, counted by the model's tokenizer where that is known, else estimated.
        filter: a caller's filter over metadata; see `shared.vectors.filters`.
        required: another one, which the caller cannot take away: that of the key.
        channels: to search, unless their weight is 0.
        fusion: the way in which their scores become one; see `shared.query.retrieve.fusion`.
        weights: instead of the collection's.
        rewriting: the texts to search for besides the question.
        rewrite_budget: how long the query waits for a rewriting, instead of the configured time.
        rerank: whether a reranker orders the best chunks, where one is configured.
        diversity: from 0, by score alone, to 1: how much a chunk loses for being like a better one.
        unit: the text to return of each chunk; see `shared.query.retrieve.units`.
        window: sentences on each side of the nearest one, for the unit `sentences`.
        order: by score, or chunks under the same headings together.
        candidates: whether the retrieval has its candidates, from channels of weight 0 too, so that the fusion can be
            done again with other weights.
        expected: chunks whose places are wanted, wherever they stand; by the question as it was put, not rewritten.
    """

    question: str
    top_k: int = 10
    min_score: float | None = None
    max_tokens: int = 12_000
    filter: Mapping[str, Any] | None = None
    required: Mapping[str, Any] | None = None
    document_ids: Sequence[UUID] | None = None
    channels: Sequence[Channel] = CHANNELS
    fusion: FusionName = "scores"
    weights: Weights | None = None
    diversity: float = 0.0
    rewriting: RewriteOptions = RewriteOptions()
    rewrite_budget: timedelta | None = None
    rerank: bool = True
    unit: ReturnUnit = "chunk"
    window: int = 2
    order: ReturnOrder = "score"
    candidates: bool = False
    expected: Sequence[str] = ()
