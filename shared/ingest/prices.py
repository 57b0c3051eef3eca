"""Prices of calls, and the list prices of well-known providers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import CostKind, Usage

_MILLION = 1_000_000  # tokens per price unit


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million tokens in the standard tier.

    Args:
        prompt: tokens of prompts.
        completion: tokens of replies.
        cached: tokens of prompts that are read from the provider's prompt cache.
        written: tokens of prompts that are written to this cache.
    """

    prompt: float
    completion: float
    cached: float
    written: float


class PriceOf(Protocol):
    """Returns the price of calls."""

    def __call__(
        self, kind: CostKind, usage: Usage, model: str | None = None, tier: Tier = Tier.STANDARD
    ) -> float | None:
        """Return the price of calls of a kind with a model, in a tier; None if unknown, which is not 0."""
        ...


def cost_of(usage: Usage, prices: Prices, factor: float = 1.0) -> float:
    """Return the price of tokens; `factor` is the share of the price of the standard tier that their tier costs."""
    plain_tokens = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
    total = (
        plain_tokens * prices.prompt
        + usage.cached_tokens * prices.cached
        + usage.cache_write_tokens * prices.written
        + usage.completion_tokens * prices.completion
    )
    return round(factor * total / _MILLION, 8)


@lru_cache(maxsize=256)
def list_prices(url: str, model: str) -> Prices | None:
    """Return the list prices of a model at a provider's address, or None if unknown.

    The table is part of the package: nothing is fetched. The prices are for requests of a thousand tokens, because some
    providers charge more for very long requests. A model without prices of a cache charges its tokens like any others.
    """
    from genai_prices import Usage as Tokens  # noqa: PLC0415 - 23 MB, loaded when a price is requested
    from genai_prices import calc_price  # noqa: PLC0415

    def price_of_million(tokens: Tokens) -> float:
        return float(calc_price(tokens, model, provider_api_url=url).total_price) * 1_000

    try:
        return Prices(
            prompt=price_of_million(Tokens(input_tokens=1_000)),
            completion=price_of_million(Tokens(output_tokens=1_000)),
            cached=price_of_million(Tokens(input_tokens=1_000, cache_read_tokens=1_000)),
            written=price_of_million(Tokens(input_tokens=1_000, cache_write_tokens=1_000)),
        )
    except LookupError:  # unknown provider or model
        return None
