"""The limiter: what the whole pool may ask of a provider, and when it is better left alone."""

from shared.limiter.exchange import provider_id
from shared.limiter.limiter import INGEST, QUERY, Limiter, Patience, ProviderLimits
from shared.limiter.models import NEUTRAL, PING, LimitedChat, LimitedEmbedder
from shared.limiter.rates import Rates, Window
from shared.limiter.usage import LimitUse

__all__ = [
    "INGEST",
    "NEUTRAL",
    "PING",
    "QUERY",
    "LimitUse",
    "LimitedChat",
    "LimitedEmbedder",
    "Limiter",
    "Patience",
    "ProviderLimits",
    "Rates",
    "Window",
    "provider_id",
]
