"""Prices: those in the settings, else the list prices of known providers."""

from __future__ import annotations

from functools import lru_cache

from shared.domain.usage import CostKind, Usage
from shared.settings import Settings

_MILLION = 1_000_000  # tokens per price unit


def price(settings: Settings, kind: CostKind, usage: Usage, model: str | None = None) -> float | None:
    """Return the price of calls of a kind, or None if unknown.

    Prices in the settings may have any currency. List prices are in dollars, without discounts for caches and batches.

    Args:
        settings: prices, and the address of the provider.
        kind: kind of the calls.
        usage: billed tokens.
        model: the model, an embedding by its name; by default the model in the settings.
    """
    prices = _prices(settings, kind, model)
    if prices is None:
        return None
    return round((usage.prompt_tokens * prices[0] + usage.completion_tokens * prices[1]) / _MILLION, 8)


def _prices(settings: Settings, kind: CostKind, model: str | None) -> tuple[float, float] | None:
    """The prices of a million prompt tokens and of a million completion tokens."""
    if kind == "embed":
        embedding = settings.served_embeddings().get(model or settings.embedding_model or "")
        return None if embedding is None or embedding.price is None else (embedding.price, 0.0)
    if settings.llm_input_price is None and settings.llm_output_price is None:
        return _listed(settings.llm_url, model or settings.llm_model or "")
    return settings.llm_input_price or 0.0, settings.llm_output_price or 0.0


@lru_cache(maxsize=256)
def _listed(url: str, model: str) -> tuple[float, float] | None:
    """The list prices of a model at a provider's address, from a table in the package: nothing is fetched.

    They are read for a thousand tokens: some providers take more for requests that are very long.
    """
    from genai_prices import Usage as Tokens  # noqa: PLC0415 - 23 MB, where a price is asked for
    from genai_prices import calc_price  # noqa: PLC0415

    try:
        prompt = calc_price(Tokens(input_tokens=1_000), model, provider_api_url=url).total_price
        reply = calc_price(Tokens(output_tokens=1_000), model, provider_api_url=url).total_price
    except LookupError:  # unknown provider or model
        return None
    return float(prompt) * 1_000, float(reply) * 1_000
