"""Rows of costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.domain.spending.usage import Cost
from shared.ledger.model.estimated import marked
from shared.ledger.model.rows.encoding import encoded


def cost_rows(costs: Sequence[Cost]) -> dict[str, Any]:
    return encoded(
        {
            "token": cost.token,
            "tenant": cost.tenant,
            "collection_id": cost.collection_id,
            "document_id": cost.document_id,
            "kind": cost.kind,
            "model": marked(cost.model, is_estimated=cost.is_estimated),
            "tier": cost.tier,
            "job_id": cost.job_id,
            "prompt_tokens": cost.usage.prompt_tokens,
            "completion_tokens": cost.usage.completion_tokens,
            "cached_tokens": cost.usage.cached_tokens,
            "cache_write_tokens": cost.usage.cache_write_tokens,
            "calls": cost.calls,
        }
        for cost in costs
    )
