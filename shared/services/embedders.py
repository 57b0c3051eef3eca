"""The embedding models and their limiters, as the settings describe them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from shared.domain.spending.rates import Rates
from shared.providers.embedding import Embedder, OpenAIEmbedder, Prefixes
from shared.providers.limiter.limited_embedder import PING
from shared.providers.limiter.limiter import Limiter, ProviderLimits
from shared.providers.limiter.script import provider_id
from shared.providers.provider import Provider
from shared.services.limiters import PROBE_TIMEOUT, limiter_of
from shared.services.limits import limit_window
from shared.settings import Embedding, Settings, require


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


def embedding_limiter_of(
    settings: Settings, embedding: Embedding, embedder: Embedder, stack: AsyncExitStack
) -> Limiter:
    limits = embedding_limits(settings, embedding)
    return limiter_of(settings, limits, partial(embedder.embed, [PING]), stack)


def embedding_limits(settings: Settings, embedding: Embedding) -> ProviderLimits:
    return ProviderLimits(
        component="embedding",
        provider=provider_id("embedding", embedding.base_url or "", embedding.model),
        rates=Rates(embedding.requests_per_minute, embedding.tokens_per_minute, limit_window(settings)),
        in_flight=settings.tuning.embedding_max_in_flight,
        probe_timeout=min(embedding.timeout, PROBE_TIMEOUT),
        query_share=settings.query_share,
    )
