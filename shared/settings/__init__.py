"""Settings of a process: read once, then passed down."""

from shared.settings.api_keys import ApiKey, is_tenant
from shared.settings.embeddings import Embedding
from shared.settings.settings import (
    EMBEDDED_EMBEDDING,
    EMBEDDED_LLM,
    EMBEDDED_MULTILINGUAL,
    OPENAI_URL,
    EffectiveSetting,
    Settings,
    load,
    require,
)
from shared.settings.tenant_limits import TenantLimits
from shared.settings.tuning import Tuning

__all__ = [
    "EMBEDDED_EMBEDDING",
    "EMBEDDED_LLM",
    "EMBEDDED_MULTILINGUAL",
    "OPENAI_URL",
    "ApiKey",
    "EffectiveSetting",
    "Embedding",
    "Settings",
    "TenantLimits",
    "Tuning",
    "is_tenant",
    "load",
    "require",
]
