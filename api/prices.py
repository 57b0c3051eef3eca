"""Prices: what usage costs, by the prices that the settings name."""

from __future__ import annotations

from shared.domain.usage import CostKind, Usage
from shared.settings import Settings

_MILLION = 1_000_000  # tokens, which a price is for


def price(settings: Settings, kind: CostKind, usage: Usage) -> float:
    """Return the price of calls of a kind, in the currency of the settings; 0 where no price is set."""
    if kind == "embed":
        total = usage.prompt_tokens * settings.embedding_price
    else:
        total = usage.prompt_tokens * settings.llm_input_price + usage.completion_tokens * settings.llm_output_price
    return round(total / _MILLION, 8)
