"""A query: a question and its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from shared.domain.access.restriction import UNRESTRICTED, Restriction
from shared.domain.corpus.collections import Weights
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
        top_k: number of distinct units.
        min_score: lowest fused score of a returned chunk.
        max_tokens: maximum tokens of all returned texts, counted by the model's tokenizer if known, else estimated.
        filter: filter over metadata; see `shared.vectors.schema.filters`.
        restriction: the part of the documents that the caller can find, whatever the other fields say.
        channels: channels to search, unless their weight is 0.
        fusion: method that combines their scores; see `shared.query.retrieve.scores.fusion`.
        weights: weights instead of the collection's.
        rewriting: texts to search for in addition to the question.
        rewrite_budget: time to wait for a rewriting, instead of the configured time.
        rerank: whether a reranker orders the best chunks, if one is configured.
        diversity: from 0, by score only, to 1: the loss of a chunk by similarity to a better one.
        unit: text to return for each chunk; see `shared.query.retrieve.units`.
        window: sentences on each side of the nearest one, for the unit `sentences`.
        order: by score, or chunks under the same headings together.
        candidates: whether to return the candidates, also of channels with weight 0, so that the fusion can be repeated
            with other weights.
        expected: chunks whose ranks are requested, for the original question.
    """

    question: str
    top_k: int = 10
    min_score: float | None = None
    max_tokens: int = 12_000
    filter: Mapping[str, Any] | None = None
    restriction: Restriction = UNRESTRICTED
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
