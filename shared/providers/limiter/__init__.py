"""The limiter: what the whole pool may ask of a provider, and when it is better left alone."""

from shared.providers.limiter.limiter import INGEST, QUERY, Limiter, Patience, ProviderLimits
from shared.providers.limiter.models import NEUTRAL, PING, LimitedChat, LimitedEmbedder
from shared.providers.limiter.script import Timing, provider_id
from shared.providers.limiter.usage import LimitUse

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
    "Timing",
    "provider_id",
]
