"""The reranker, as the settings describe it."""

from __future__ import annotations

from contextlib import AsyncExitStack

from shared.providers.provider import Provider
from shared.providers.reranking import Reranker
from shared.settings import Settings


def reranker_of(settings: Settings, stack: AsyncExitStack) -> Reranker | None:
    """Create the reranker; None if no URL is configured."""
    if settings.rerank_base_url is None:
        return None
    tuning = settings.tuning
    provider = Provider(
        component="rerank",
        base_url=settings.rerank_base_url,
        api_key=settings.rerank_api_key,
        timeout=2 * tuning.rerank_budget,  # a waiting query stops earlier
    )
    stack.push_async_callback(provider.aclose)
    return Reranker(provider, settings.rerank_model, budget=tuning.rerank_budget, candidates=tuning.rerank_candidates)
