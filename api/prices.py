"""Prices: what usage costs, by the prices that the settings name."""

from __future__ import annotations

from shared.domain.usage import CostKind, Usage
from shared.settings import Embedding, Settings

_MILLION = 1_000_000  # tokens, which a price is for


def price(settings: Settings, kind: CostKind, usage: Usage, embedding: Embedding | None = None) -> float:
    """Return the price of calls of a kind, in the currency of the settings; 0 where no price is set.

    `embedding` is what embedded, None where no setting describes it any more.
    """
    if kind == "embed":
        total = usage.prompt_tokens * (settings.embedding_price if embedding is None else embedding.price)
    else:
        total = usage.prompt_tokens * settings.llm_input_price + usage.completion_tokens * settings.llm_output_price
    return round(total / _MILLION, 8)
