"""What is looked for, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from shared.domain.records import Weights
from shared.query.rewrite import RewriteOptions

Channel = Literal["questions", "text", "bm25"]
QuestionOrigin = Literal["generated", "user"]  # of a chunk's question
FusionName = Literal["scores", "rrf", "max"]
ReturnUnit = Literal["chunk", "section", "sentences"]
ReturnOrder = Literal["score", "section"]
CHANNELS: tuple[Channel, ...] = ("questions", "text", "bm25")


@dataclass(frozen=True, slots=True)
class Query:
    """A question and how it is searched for.

    Args:
        top_k: distinct units.
        min_score: of the fused score; chunks below it are left out.
        max_tokens: of all that is returned, counted by the model's tokenizer where that is known, else estimated.
        filter: a caller's filter over metadata, checked on use.
        channels: those that are searched; one with no weight is not.
        fusion: how their scores become one; see `shared.query.retrieve.fusion`.
        weights: instead of the collection's.
        rewriting: what else than the question itself is searched for.
        rewrite_budget: how long the query waits for that, instead of the configured time.
        rerank: whether a reranker orders the best, where there is one.
        diversity: from 0, by score alone, to 1: how much a chunk loses that is like one before it.
        unit: what is returned of each chunk that is found; see `shared.query.retrieve.units`.
        window: sentences on each side of the nearest, where sentences are returned.
        order: by score, or those under the same headings together.
    """

    question: str
    top_k: int = 10
    min_score: float | None = None
    max_tokens: int = 12_000
    filter: Mapping[str, Any] | None = None
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
