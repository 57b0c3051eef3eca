"""Costs of a provider's calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from shared.domain.spending.tiers import Tier


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens billed according to the provider.

    Args:
        prompt_tokens: all tokens of the prompts.
        completion_tokens: tokens of the replies.
        cached_tokens: part of the prompt tokens that was read from the provider's prompt cache.
        cache_write_tokens: part of the prompt tokens that was written to this cache.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens - other.prompt_tokens,
            self.completion_tokens - other.completion_tokens,
            self.cached_tokens - other.cached_tokens,
            self.cache_write_tokens - other.cache_write_tokens,
        )


UsageByTier = Mapping[Tier, Usage]
"""Billed tokens by the tier of the replies; without tiers that have none."""


def total(usage: UsageByTier) -> Usage:
    """Return the sum of all tiers."""
    return sum(usage.values(), Usage())


@dataclass(frozen=True, slots=True)
class BilledCalls:
    """Billed calls with their tokens."""

    usage_by_tier: UsageByTier
    calls: int

    @property
    def prompt_tokens(self) -> int:
        return total(self.usage_by_tier).prompt_tokens

    @property
    def completion_tokens(self) -> int:
        return total(self.usage_by_tier).completion_tokens


CostKind = Literal["generate", "embed"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs of one attempt, without earlier attempts.

    Args:
        token: fencing token of the attempt's lease. The ledger counts each token once, even if its costs are written
            repeatedly.
        tenant: tenant charged for it.
        collection_id: collection charged for it.
        document_id: document charged for it.
        kind: kind of the calls.
        model: called model.
        usage: billed tokens.
        calls: number of calls.
        tier: tier of the replies; standard if they differ.
        job_id: the job that caused the attempt; None without a job.
        is_estimated: whether tokens of a call are estimated, because the provider may charge for it, but has not
            reported its tokens.
    """

    token: int
    tenant: str
    collection_id: UUID
    document_id: UUID
    kind: CostKind
    model: str
    usage: Usage
    calls: int
    tier: Tier = Tier.STANDARD
    job_id: UUID | None = None
    is_estimated: bool = False


def with_cost(usage: UsageByTier, cost: Cost | None) -> UsageByTier:
    """Return the tokens by tier, including an attempt; None: nothing was billed for it."""
    if cost is None:
        return usage
    return {**usage, cost.tier: usage.get(cost.tier, Usage()) + cost.usage}
