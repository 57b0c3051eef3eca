"""The engines and models of an evaluation, and the retries of their calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from foreask_evaluation.cache import EvaluationCache
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
ProgressReport = Callable[[str, int, int], None]
"""Called with a stage's name, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class EvaluationServices:
    """Engines and models.

    Args:
        cache: cache of earlier runs, so that no text is embedded twice and no call is paid twice.
        chat: generates questions for sets without questions; None: they stay without questions.
        answerer: writes the answers to evaluate; None: only rankings are evaluated.
        rewriter: rewrites queries; None: strategies that need it are left out.
        reranker: orders the best chunks; None: strategies that need it are left out.
    """

    settings: Settings
    embedder: Embedder
    index: Index
    cache: EvaluationCache
    chat: ChatModel | None
    progress: ProgressReport
    answerer: Answerer | None = None
    rewriter: Rewriter | None = None
    reranker: Reranker | None = None

    @property
    def vector_model(self) -> str:
        """The name under which vectors are cached; it depends on the model, the dimensions and the prefixes."""
        return self.settings.served_embeddings()[self.embedder.name].space

    @property
    def model(self) -> str:
        """The server's name of the embedding model."""
        return self.settings.served_embeddings()[self.embedder.name].model


async def retry_transient(call: Callable[[], Awaitable[T]], attempts: int) -> T:
    """Repeat a call after a transient error, at the earliest after the error's `retry_after`.

    Raises:
        Transient: the last attempt failed.
    """
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(Transient), stop=stop_after_attempt(attempts), wait=_wait, reraise=True
    )

    async def attempt() -> T:
        return await call()

    return await retrying(attempt)


def _wait(state: RetryCallState) -> float:
    """Return seconds until the next attempt."""
    error = state.outcome.exception() if state.outcome else None
    retry_after = error.retry_after if isinstance(error, Transient) else None
    return _BACKOFF(state) + (retry_after or timedelta()).total_seconds()
