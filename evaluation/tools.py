"""What an evaluation works with, and its patience with providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from evaluation.cache import EvaluationCache
from shared.domain.errors import Transient
from shared.providers.chat import ChatModel
from shared.providers.embedding import Embedder
from shared.providers.reranking import Reranker
from shared.query.answer import Answerer
from shared.query.rewrite import Rewriter
from shared.settings import Settings
from shared.vectors.index import Index

_BACKOFF = wait_random_exponential(multiplier=0.5, max=30)

T = TypeVar("T")
Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, and how much there is


@dataclass(frozen=True, slots=True)
class Tools:
    """Engines and models.

    Args:
        chat: writes questions for sets that have none; None: they go without.
        answerer: answers, for an evaluation of answers; None: rankings alone are evaluated.
        rewriter: rewrites queries; None: strategies that need it are left out.
        reranker: orders what is found; None: strategies that need it are left out.
    """

    settings: Settings
    embedder: Embedder
    index: Index
    kept: EvaluationCache
    chat: ChatModel | None
    progress: Progress
    answerer: Answerer | None = None
    rewriter: Rewriter | None = None
    reranker: Reranker | None = None

    @property
    def vectors_of(self) -> str:
        """The name under which vectors are kept: a model may be asked for shorter ones."""
        return f"{self.embedder.name}/{self.settings.embedding_dimensions or 'all'}"


async def patiently(call: Callable[[], Awaitable[T]], attempts: int) -> T:
    """Call again while the error is transient, not before the time that it names."""
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(Transient), stop=stop_after_attempt(attempts), wait=_wait, reraise=True
    )

    async def attempt() -> T:
        return await call()

    return await retrying(attempt)


def _wait(state: RetryCallState) -> float:
    """Seconds until the next attempt."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, Transient) else None
    return _BACKOFF(state) + (asked or timedelta()).total_seconds()
