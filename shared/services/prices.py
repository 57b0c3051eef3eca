"""The prices of calls in the settings, and the part of the settings in budgets."""

from __future__ import annotations

from dataclasses import replace

from shared.domain.errors import InvalidInput
from shared.domain.spending.budgets import BILLIONTHS, BudgetTerms, BudgetUnit
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import CostKind, Usage, UsageByTier
from shared.ingest.prices import Prices, cost_of, list_prices
from shared.settings import Settings


def budget_terms(settings: Settings) -> BudgetTerms:
    """Return the part of the settings in budgets: the daily budgets of tenants, and the prices of calls."""

    def limits_of(tenant: str) -> dict[BudgetUnit, int]:
        limits, found = settings.limits_of(tenant), dict[BudgetUnit, int]()
        if limits.tokens_per_day is not None:
            found[BudgetUnit.TOKENS] = limits.tokens_per_day
        if limits.cost_per_day is not None:
            found[BudgetUnit.MONEY] = round(limits.cost_per_day * BILLIONTHS)
        return found

    def price_of(kind: CostKind, usage: Usage, model: str, tier: Tier) -> int | None:
        known = price(settings, kind, usage, model, tier)
        return None if known is None else round(known * BILLIONTHS)

    return BudgetTerms(limits_of, price_of)


def price(
    settings: Settings, kind: CostKind, usage: Usage, model: str | None = None, tier: Tier = Tier.STANDARD
) -> float | None:
    """Return the price of calls of a kind, or None if unknown.

    Prices in the settings may have any currency. List prices are in dollars.

    Args:
        settings: prices, and the address of the provider.
        kind: kind of the calls.
        usage: billed tokens.
        model: the model, an embedding by its name; by default the model in the settings.
        tier: tier of the replies.
    """
    prices = _prices(settings, kind, model)
    return None if prices is None else cost_of(usage, prices, settings.tier_prices.get(tier, 1.0))


def price_by_tier(settings: Settings, usage: UsageByTier) -> float | None:
    """Return the price of the calls for documents and chunks, each in its tier; None if unknown.

    It is 0 without calls, so that uploads do not load the list prices, which takes 0.3 s.
    """
    prices = [price(settings, "generate", tokens, tier=tier) for tier, tokens in usage.items()]
    known = [each for each in prices if each is not None]
    return round(sum(known), 8) if len(known) == len(prices) else None


def list_price(settings: Settings, model: str, usage: Usage, tier: Tier) -> float | None:
    """Return the list price in dollars of calls with any language model of the provider, or None if unknown."""
    prices = list_prices(settings.llm_url, model)
    return None if prices is None else cost_of(usage, prices, settings.tier_prices.get(tier, 1.0))


def _prices(settings: Settings, kind: CostKind, model: str | None) -> Prices | None:
    if kind == "embed":
        return _of_embedding(settings, model or settings.embedding_model or "")
    prompt, completion = settings.llm_input_price, settings.llm_output_price
    if prompt is not None and completion is not None:
        return Prices(prompt, completion, cached=prompt, written=prompt)
    listed = list_prices(settings.llm_url, model or settings.llm_model or "")
    if listed is not None and completion is not None:
        return replace(listed, completion=completion)
    if listed is not None and prompt is not None:
        return Prices(prompt, listed.completion, cached=prompt, written=prompt)
    return listed


def _of_embedding(settings: Settings, name: str) -> Prices | None:
    embedding = settings.served_embeddings().get(name)
    if embedding is None:
        return None
    if embedding.price is None:
        return list_prices(embedding.base_url or "", embedding.model)
    return Prices(embedding.price, 0.0, cached=embedding.price, written=embedding.price)


def models_without_price(settings: Settings) -> list[str]:
    """Return the configured models whose price is unknown, each with the variables to set."""
    lacking = []
    if settings.llm_model and _prices(settings, "generate", None) is None:
        lacking.append(f"{settings.llm_model} (set FOREASK_LLM_INPUT_PRICE and FOREASK_LLM_OUTPUT_PRICE)")
    for name in settings.served_embeddings():
        if _of_embedding(settings, name) is None:
            where = "its price in FOREASK_EMBEDDINGS" if name in settings.embeddings else "FOREASK_EMBEDDING_PRICE"
            lacking.append(f"{name} (set {where})")
    return lacking


def require_prices(settings: Settings, limit: str) -> None:
    """Check that every model has a price, because a limit in money would count calls without a price as free.

    Args:
        settings: the models and their prices.
        limit: the limit that needs them, for the message.

    Raises:
        InvalidInput: a model has no price; the message contains the remedy.
    """
    if lacking := models_without_price(settings):
        raise InvalidInput(
            f"{limit} needs the price of a million tokens of every model, and none is known of {', '.join(lacking)}."
            " A price may be 0. Limits in tokens need no prices."
        )
