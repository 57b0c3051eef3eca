"""Chunks to generate, and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from shared.domain.corpus.chunks import ChunkContent, ChunkContext
from shared.domain.corpus.collections import CollectionOptions
from shared.domain.retry import Dead
from shared.domain.spending.budgets import Reserve
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Cost, Usage, UsageByTier, with_cost
from shared.domain.stages.attempts import FailedAttempt, Outcome, PaidReply
from shared.domain.stages.work import Lease


@dataclass(frozen=True, slots=True)
class ChunkToGenerate:
    """A claimed chunk without questions.

    Args:
        content_key: key of the request as it would be sent now.
        replies: replies paid by earlier attempts at this content.
        usage: tokens billed for the attempts at this chunk.
        calls: number of calls billed for the attempts at this chunk.
        by_tier: `usage` by tier.
        job_id: its document's job; None without a job.
        reserve: highest use of its next call, which its claim has reserved; None if no budget covers it.
        picture: a JPEG file, if it is a picture to be described.
    """

    lease: Lease
    document_id: UUID
    tenant: str
    collection_id: UUID
    options: CollectionOptions
    content: ChunkContent
    content_key: bytes
    attempts: int
    lost_leases: int
    replies: tuple[PaidReply, ...] = ()
    usage: Usage = Usage()
    calls: int = 0
    by_tier: UsageByTier = field(default_factory=dict)
    traceparent: str | None = None
    job_id: UUID | None = None
    reserve: Reserve | None = None
    picture: bytes | None = None


@dataclass(frozen=True, slots=True)
class SentLine:
    """A line of a batch whose result is to be settled, with the attributes of a `ChunkToGenerate` that this needs.

    Args:
        usage: tokens billed for earlier attempts at its chunk.
        calls: number of earlier calls.
        by_tier: `usage` by tier.
        questions: number of requested questions.
        context: whether a context was requested, too.
        job_id: job of its document when it was planned; None without a job.
    """

    lease: Lease
    document_id: UUID
    tenant: str
    collection_id: UUID
    content_key: bytes
    usage: Usage
    calls: int
    by_tier: UsageByTier
    questions: int
    context: bool
    job_id: UUID | None


@dataclass(frozen=True, slots=True)
class GenerateOutcome(Outcome):
    """The generated questions of a chunk; the ledger stores them under the chunk's content key.

    `usage` and `calls` are the costs of the chunk, including failed attempts; `tier` is the tier of this attempt.
    `text` is the description of a picture; None for a text. `context` is the context of a text; None without one.
    `is_estimated` is set if tokens of this attempt are estimated.
    """

    chunk: ChunkToGenerate | SentLine
    model: str
    questions: tuple[str, ...]
    usage: Usage
    calls: int
    tier: Tier = Tier.STANDARD
    text: str | None = None
    context: ChunkContext | None = None
    is_estimated: bool = False

    @property
    def cost(self) -> Cost | None:
        return generate_cost(self.chunk, self.model, self.usage, self.calls, self.tier, is_estimated=self.is_estimated)

    @property
    def by_tier(self) -> UsageByTier:
        """The usage by tier."""
        return with_cost(self.chunk.by_tier, self.cost)

    def refused(self, reason: str) -> FailedAttempt:
        return FailedAttempt(
            self.chunk.lease,
            Dead(reason),
            self.usage,
            self.calls,
            self.chunk.content_key,
            self.chunk.tenant,
            cost=self.cost,
            by_tier=self.by_tier,
        )


def generate_cost(
    chunk: ChunkToGenerate | SentLine, model: str, usage: Usage, calls: int, tier: Tier, *, is_estimated: bool = False
) -> Cost | None:
    """Return an attempt's part of its chunk's costs; None if no call was billed."""
    if calls == chunk.calls:
        return None
    return Cost(
        chunk.lease.token,
        chunk.tenant,
        chunk.collection_id,
        chunk.document_id,
        "generate",
        model,
        usage - chunk.usage,
        calls - chunk.calls,
        tier,
        chunk.job_id,
        is_estimated,
    )
