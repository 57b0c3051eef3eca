"""The clients of OpenAI-compatible providers, and the limiters of their calls, as the settings describe them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from shared.domain.rates import Rates
from shared.providers.chat import ChatModel, OpenAIChat
from shared.providers.embedding import Embedder, OpenAIEmbedder, Prefixes
from shared.providers.limiter.limiter import Limiter, ProviderLimits, connect
from shared.providers.limiter.models import NEUTRAL, PING
from shared.providers.limiter.script import provider_id
from shared.providers.prompt_cache import has_explicit_cache
from shared.providers.provider import Provider
from shared.providers.reranking import Reranker
from shared.services.limits import limit_window, limits_of_a_tenant, limits_of_tenants
from shared.settings import Embedding, Settings, require

if TYPE_CHECKING:
    from shared.providers.batches import BatchProvider

_PROBE_TIMEOUT = timedelta(seconds=30)  # some servers load the model first


def chat_of(settings: Settings, stack: AsyncExitStack) -> OpenAIChat:
    """Create the language model; the stack closes its connections.

    Raises:
        InvalidInput: no model is named.
    """
    provider = Provider(
        component="llm",
        base_url=settings.llm_url,
        api_key=settings.llm_api_key,
        timeout=settings.llm_timeout,
    )
    stack.push_async_callback(provider.aclose)
    model = require(settings.llm_model, "FOREASK_LLM_MODEL")
    return OpenAIChat(provider, model, explicit_cache=has_explicit_cache(settings.llm_url, model))


def batch_api_of(settings: Settings, stack: AsyncExitStack) -> BatchProvider:
    """Create the client of the language model's batch API; the stack closes its connections."""
    from shared.providers.batches import BatchProvider  # it loads OpenAI's SDK, which most processes do not need

    provider = BatchProvider(
        component="llm",
        base_url=settings.llm_url,
        api_key=settings.llm_api_key,
        timeout=settings.llm_timeout,
    )
    stack.push_async_callback(provider.aclose)
    return provider


def embedders_of(settings: Settings, stack: AsyncExitStack) -> dict[str, OpenAIEmbedder]:
    """Create the configured embedding models, by name; the stack closes their connections.

    Raises:
        InvalidInput: no model is named for new collections.
    """
    require(settings.embedding_model, "FOREASK_EMBEDDING_MODEL")
    return {name: _embedder(name, entry, stack) for name, entry in settings.served_embeddings().items()}


def embedder_of(settings: Settings, stack: AsyncExitStack) -> OpenAIEmbedder:
    """Create only the embedding model of new collections.

    Raises:
        InvalidInput: no model is named.
    """
    name = require(settings.embedding_model, "FOREASK_EMBEDDING_MODEL")
    return _embedder(name, settings.served_embeddings()[name], stack)


def _embedder(name: str, embedding: Embedding, stack: AsyncExitStack) -> OpenAIEmbedder:
    provider = Provider(
        component="embedding",
        base_url=embedding.base_url or "",
        api_key=embedding.api_key,
        timeout=embedding.timeout,
    )
    stack.push_async_callback(provider.aclose)
    prefixes = Prefixes(embedding.query_prefix, embedding.passage_prefix)
    return OpenAIEmbedder(provider, embedding.model, embedding.dimensions, name=name, prefixes=prefixes)


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


def llm_limiter_of(settings: Settings, chat: ChatModel, stack: AsyncExitStack) -> Limiter:
    limits = llm_limits(settings, chat.name)
    return _limiter(settings, limits, partial(chat.complete, NEUTRAL), stack)


def embedding_limiter_of(
    settings: Settings, embedding: Embedding, embedder: Embedder, stack: AsyncExitStack
) -> Limiter:
    limits = embedding_limits(settings, embedding)
    return _limiter(settings, limits, partial(embedder.embed, [PING]), stack)


def llm_limits(settings: Settings, model: str) -> ProviderLimits:
    return ProviderLimits(
        component="llm",
        provider=provider_id("llm", settings.llm_url, model),
        rates=Rates(settings.llm_requests_per_minute, settings.llm_tokens_per_minute, limit_window(settings)),
        tenant_rates=limits_of_a_tenant(settings),
        tenants=limits_of_tenants(settings),
        in_flight=settings.llm_max_in_flight,
        probe_timeout=min(settings.llm_timeout, _PROBE_TIMEOUT),
        query_share=settings.query_share,
    )


def embedding_limits(settings: Settings, embedding: Embedding) -> ProviderLimits:
    return ProviderLimits(
        component="embedding",
        provider=provider_id("embedding", embedding.base_url or "", embedding.model),
        rates=Rates(embedding.requests_per_minute, embedding.tokens_per_minute, limit_window(settings)),
        in_flight=settings.tuning.embedding_max_in_flight,
        probe_timeout=min(embedding.timeout, _PROBE_TIMEOUT),
        query_share=settings.query_share,
    )


def _limiter(
    settings: Settings, limits: ProviderLimits, probe: Callable[[], Awaitable[object]], stack: AsyncExitStack
) -> Limiter:
    redis = connect(require(settings.redis_url, "FOREASK_REDIS_URL").get_secret_value())
    stack.push_async_callback(redis.aclose)
    limiter = Limiter(redis, limits, probe)
    stack.push_async_callback(limiter.aclose)
    return limiter
