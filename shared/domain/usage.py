"""What a provider's calls cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a provider says it billed."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)

    def __sub__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens - other.prompt_tokens, self.completion_tokens - other.completion_tokens)


CostKind = Literal["generate", "embed"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one attempt has cost, without the attempts before it.

    Args:
        token: of the attempt's lease. The ledger counts each token once, however often its cost is written.
        tenant: who pays.
        collection_id: the collection that it was paid for.
        document_id: the document that it was paid for.
        kind: what the calls were for.
        model: the model that was called.
        usage: what the provider says it billed.
        calls: how many calls that were.
    """

    token: int
    tenant: str
    collection_id: UUID
    document_id: UUID
    kind: CostKind
    model: str
    usage: Usage
    calls: int
