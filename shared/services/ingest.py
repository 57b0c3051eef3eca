"""The settings of the ingest: default options, the similarity floor, prices and budgets."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from shared.domain.usage import CostKind, Usage
from shared.ingest.costs.budgets import Budget, Budgets
from shared.ingest.costs.prices import cost_of, list_prices
from shared.ingest.generate import GenerationOptions, floor_for, strategy_for
from shared.ingest.generate.types import Strategy
from shared.ingest.options import IngestDefaults
from shared.ingest.parse.document import ChunkingOptions
from shared.ledger.work.costs import Costs
from shared.settings import Embedding, Settings, TenantLimits


def ingest_defaults(settings: Settings, model: str) -> IngestDefaults:
    """Return the default options with the strategy for a language model."""
    return IngestDefaults(
        ChunkingOptions(settings.chunk_max_chars, settings.chunk_overlap_chars),
        GenerationOptions(generation_strategy(settings, model), settings.questions_per_chunk),
    )


def generation_strategy(settings: Settings, model: str) -> Strategy:
    """Return the strategy for a language model."""
    return settings.tuning.question_strategy or strategy_for(model)


def similarity_floor(settings: Settings, embedding: Embedding) -> float | None:
    """Return the lowest similarity of a question and its text that passes the filter; None: all pass."""
    floor = settings.tuning.similarity_floor
    return floor_for(embedding.model) if floor is None else floor


def slots_of_parser(settings: Settings) -> int:
    """Return the number of documents in progress of a parse worker."""
    return settings.parse_workers * 4  # some wait for a free child while others are committed


def batch_provider_name(settings: Settings) -> str:
    """Return the address of the language model without credentials: batches belong to it."""
    parts = urlsplit(settings.llm_url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.hostname}{port}{parts.path.rstrip('/')}"


def budgets_of(settings: Settings, costs: Costs) -> Budgets:
    tenants = {tenant: _budget(settings.limits_of(tenant)) for tenant in settings.tenants_with_limits}
    return Budgets(costs, partial(price, settings), tenants, _budget(settings.limits_of_others))


def _budget(limits: TenantLimits) -> Budget:
    return Budget(limits.tokens_per_day, limits.cost_per_day)


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
    return None if prices is None else cost_of(usage, prices)


def _prices(settings: Settings, kind: CostKind, model: str | None) -> tuple[float, float] | None:
    """Return the prices of a million prompt tokens and of a million completion tokens."""
    if kind == "embed":
        embedding = settings.served_embeddings().get(model or settings.embedding_model or "")
        return None if embedding is None or embedding.price is None else (embedding.price, 0.0)
    if settings.llm_input_price is None and settings.llm_output_price is None:
        return list_prices(settings.llm_url, model or settings.llm_model or "")
    return settings.llm_input_price or 0.0, settings.llm_output_price or 0.0
