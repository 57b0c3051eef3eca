"""The language model, its batch API and its limiter, as the settings describe them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from shared.domain.spending.rates import Rates
from shared.providers.chat import ChatModel, OpenAIChat
from shared.providers.limiter.limited_chat import NEUTRAL
from shared.providers.limiter.limiter import Limiter, ProviderLimits
from shared.providers.limiter.script import provider_id
from shared.providers.prompt_cache import has_explicit_cache
from shared.providers.provider import Provider
from shared.services.limiters import PROBE_TIMEOUT, limiter_of
from shared.services.limits import limit_window, limits_of_a_tenant, limits_of_tenants
from shared.settings import Settings, require

if TYPE_CHECKING:
    from shared.providers.batches import BatchProvider


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


def llm_limiter_of(settings: Settings, chat: ChatModel, stack: AsyncExitStack) -> Limiter:
    limits = llm_limits(settings, chat.name)
    return limiter_of(settings, limits, partial(chat.complete, NEUTRAL), stack)


def llm_limits(settings: Settings, model: str) -> ProviderLimits:
    return ProviderLimits(
        component="llm",
        provider=provider_id("llm", settings.llm_url, model),
        rates=Rates(settings.llm_requests_per_minute, settings.llm_tokens_per_minute, limit_window(settings)),
        tenant_rates=limits_of_a_tenant(settings),
        tenants=limits_of_tenants(settings),
        in_flight=settings.llm_max_in_flight,
        probe_timeout=min(settings.llm_timeout, PROBE_TIMEOUT),
        query_share=settings.query_share,
    )
