"""The limits of tenants that the settings declare."""

from __future__ import annotations

from shared.domain.spending.rates import Rates, Window
from shared.domain.stages.page_limits import PageLimits
from shared.settings import Settings, TenantLimits


def limits_of_a_tenant(settings: Settings) -> Rates:
    """Return the limits of each tenant for the language model, unless it has its own."""
    return _rates(settings.limits_of_others, limit_window(settings))


def limits_of_tenants(settings: Settings) -> dict[str, Rates]:
    """Return the tenants that have limits of their own."""
    window = limit_window(settings)
    return {tenant: _rates(settings.limits_of(tenant), window) for tenant in settings.tenants_with_limits}


def page_limits(settings: Settings) -> PageLimits:
    """Return the limits of tenants for pages."""
    return PageLimits(
        {tenant: settings.limits_of(tenant).pages_per_day for tenant in settings.tenants_with_limits},
        settings.limits_of_others.pages_per_day,
    )


def _rates(limits: TenantLimits, window: Window) -> Rates:
    return Rates(limits.llm_requests_per_minute, limits.llm_tokens_per_minute, window)


def limit_window(settings: Settings) -> Window:
    """Return the window of all limits."""
    tuning = settings.tuning
    return Window(
        seconds=tuning.limit_window.total_seconds(),
        burst_seconds=tuning.limit_burst.total_seconds(),
        jitter_seconds=tuning.limit_jitter.total_seconds(),
    )
