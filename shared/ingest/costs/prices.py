"""Prices of calls, and the list prices of well-known providers."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from shared.domain.usage import CostKind, Usage

_MILLION = 1_000_000  # tokens per price unit

PriceOf = Callable[[CostKind, Usage, str | None], float | None]
"""Returns the price of calls of a kind with a model, or None if unknown."""


def cost_of(usage: Usage, prices: tuple[float, float]) -> float:
    """Return the price of tokens at the prices of a million prompt tokens and of a million completion tokens."""
    return round((usage.prompt_tokens * prices[0] + usage.completion_tokens * prices[1]) / _MILLION, 8)


@lru_cache(maxsize=256)
def list_prices(url: str, model: str) -> tuple[float, float] | None:
    """Return the list prices of a model at a provider's address, or None if unknown.

    The table is part of the package: nothing is fetched. The prices are for requests of a thousand tokens, because some
    providers charge more for very long requests.
    """
    from genai_prices import Usage as Tokens  # noqa: PLC0415 - 23 MB, loaded when a price is requested
    from genai_prices import calc_price  # noqa: PLC0415

    try:
        prompt = calc_price(Tokens(input_tokens=1_000), model, provider_api_url=url).total_price
        reply = calc_price(Tokens(output_tokens=1_000), model, provider_api_url=url).total_price
    except LookupError:  # unknown provider or model
        return None
    return float(prompt) * 1_000, float(reply) * 1_000
