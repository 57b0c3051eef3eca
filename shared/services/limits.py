"""The limits that the settings declare, for each provider and each tenant."""

from __future__ import annotations

from datetime import timedelta

from shared.domain.rates import Rates, Window
from shared.providers.limiter.limiter import ProviderLimits
from shared.providers.limiter.script import provider_id
from shared.settings import Embedding, Settings, TenantLimits

_PROBE_TIMEOUT = timedelta(seconds=30)  # some servers load the model first


def llm_limits(settings: Settings, model: str) -> ProviderLimits:
    return ProviderLimits(
        component="llm",
        provider=provider_id("llm", settings.llm_url, model),
        rates=Rates(settings.llm_requests_per_minute, settings.llm_tokens_per_minute, _window(settings)),
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
        rates=Rates(embedding.requests_per_minute, embedding.tokens_per_minute, _window(settings)),
        in_flight=settings.tuning.embedding_max_in_flight,
        probe_timeout=min(embedding.timeout, _PROBE_TIMEOUT),
        query_share=settings.query_share,
    )


def limits_of_a_tenant(settings: Settings) -> Rates:
    """Return the limits of each tenant for the language model, unless it has its own."""
    return _rates(settings.limits_of_others, _window(settings))


def limits_of_tenants(settings: Settings) -> dict[str, Rates]:
    """Return the tenants that have limits of their own."""
    window = _window(settings)
    return {tenant: _rates(settings.limits_of(tenant), window) for tenant in settings.tenants_with_limits}


def _rates(limits: TenantLimits, window: Window) -> Rates:
    return Rates(limits.llm_requests_per_minute, limits.llm_tokens_per_minute, window)


def _window(settings: Settings) -> Window:
    tuning = settings.tuning
    return Window(
        seconds=tuning.limit_window.total_seconds(),
        burst_seconds=tuning.limit_burst.total_seconds(),
        jitter_seconds=tuning.limit_jitter.total_seconds(),
    )
