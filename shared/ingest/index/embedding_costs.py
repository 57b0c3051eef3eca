"""Embedding costs: a request contains the texts of many chunks, and each chunk is charged its share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.domain.spending.usage import Cost, Usage
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.indexing import ChunkToIndex, IndexOutcome
from shared.domain.stages.work import Lease
from shared.providers.embedding import estimated_tokens


class EmbeddingCosts:
    """Costs of chunks in progress, until they are moved to outcomes or the chunks are released."""

    def __init__(self) -> None:
        self._costs: dict[int, Cost] = {}  # by the token of the lease

    def bill(
        self, chunks: Sequence[ChunkToIndex], texts: Sequence[str], usage: Usage, *, is_estimated: bool = False
    ) -> None:
        """Divide the cost of a request by its texts' estimated tokens; the first text's chunk is charged the call.

        Args:
            chunks: chunks of the texts, in order.
            texts: the embedded texts.
            usage: tokens billed by the provider.
            is_estimated: whether the tokens are estimated, because the provider has reported none.
        """
        tokens = [estimated_tokens(text) for text in texts]
        total, before, borne = sum(tokens), 0, 0
        for index, (chunk, share) in enumerate(zip(chunks, tokens, strict=True)):
            before += share
            until = usage.prompt_tokens * before // total  # rounded as a sum, so that the shares add up
            self._add(chunk, Usage(until - borne), calls=int(index == 0), is_estimated=is_estimated)
            borne = until

    def _add(self, chunk: ChunkToIndex, usage: Usage, *, calls: int, is_estimated: bool) -> None:
        token = chunk.lease.token
        cost = self._costs.get(token) or Cost(
            token,
            chunk.tenant,
            chunk.collection_id,
            chunk.document_id,
            "embed",
            chunk.embedding_model,
            Usage(),
            0,
            job_id=chunk.job_id,
        )
        self._costs[token] = replace(
            cost,
            usage=cost.usage + usage,
            calls=cost.calls + calls,
            is_estimated=cost.is_estimated or is_estimated,
        )

    def charge(self, outcomes: Sequence[IndexOutcome | FailedAttempt]) -> list[IndexOutcome | FailedAttempt]:
        """Move the costs of chunks to their outcomes, and return these."""
        return [replace(outcome, cost=self._costs.pop(_lease(outcome).token, None)) for outcome in outcomes]

    def take(self, leases: Sequence[Lease]) -> list[Cost]:
        """Return the costs of released chunks."""
        return [cost for lease in leases if (cost := self._costs.pop(lease.token, None))]


def _lease(outcome: IndexOutcome | FailedAttempt) -> Lease:
    return outcome.lease if isinstance(outcome, FailedAttempt) else outcome.chunk.lease
