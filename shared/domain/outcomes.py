"""The outcomes that workers report for their claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared.domain.batches import SentLine
from shared.domain.completeness import Completeness
from shared.domain.pages import PageOutcome, PagesOutcome
from shared.domain.questions import AcceptedQuestion
from shared.domain.retry import Dead, Decision
from shared.domain.states import AcceptedState
from shared.domain.tiers import Tier
from shared.domain.usage import Cost, Usage, UsageByTier, with_cost
from shared.domain.work import ChunkToGenerate, ChunkToIndex, DocumentToParse, Lease, NewChunk, PaidReply


@dataclass(frozen=True, slots=True)
class ParseOutcome:
    """A document's chunks; the title and the media type come from the file."""

    document: DocumentToParse
    title: str | None
    media_type: str
    chunks: Sequence[NewChunk]
    completeness: Completeness = Completeness()


@dataclass(frozen=True, slots=True)
class GenerateOutcome:
    """The generated questions of a chunk; the ledger stores them under the chunk's content key.

    `usage` and `calls` are the costs of the chunk, including failed attempts; `tier` is the tier of this attempt.
    `text` is the description of a picture; None for a text. `is_estimated` is set if tokens of this attempt are
    estimated.
    """

    chunk: ChunkToGenerate | SentLine
    model: str
    questions: tuple[str, ...]
    usage: Usage
    calls: int
    tier: Tier = Tier.STANDARD
    text: str | None = None
    is_estimated: bool = False

    @property
    def cost(self) -> Cost | None:
        return generate_cost(self.chunk, self.model, self.usage, self.calls, self.tier, is_estimated=self.is_estimated)

    @property
    def by_tier(self) -> UsageByTier:
        """The usage by tier."""
        return with_cost(self.chunk.by_tier, self.cost)


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


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt and the decision about the next one.

    `usage`, `by_tier` and `calls` are the costs of the chunk, including this attempt, and `cost` is this attempt's. The
    next attempt at the `tenant`'s content of `content_key` continues with `replies`. `is_bill_incomplete` is set if the
    provider may charge for a call that is not in `cost`. `chunk` is set if the attempt was about to write points.
    """

    lease: Lease
    decision: Decision
    usage: Usage = Usage()
    calls: int = 0
    content_key: bytes | None = None
    tenant: str | None = None
    replies: Sequence[PaidReply] = ()
    cost: Cost | None = None
    is_bill_incomplete: bool = False
    chunk: ChunkToIndex | None = None
    by_tier: UsageByTier = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexOutcome:
    """A chunk whose points Qdrant has confirmed.

    `questions` are `{"text", "passed", "reason", "similarity"}`; `accepted` are users' questions, each with its new
    state; `cost` is the attempt's share of its batch's.
    """

    chunk: ChunkToIndex
    questions: Sequence[dict[str, Any]]
    passed: int
    error: str | None = None
    accepted: Sequence[tuple[AcceptedQuestion, AcceptedState]] = ()
    cost: Cost | None = None


def refused(outcome: object, reason: str) -> FailedAttempt | None:
    """Return the failure that replaces an outcome that the ledger can never store, with the costs of the outcome.

    Args:
        outcome: the outcome of one row.
        reason: a sentence.

    Returns:
        The failure; None if the outcome is that failure already.
    """
    dead = Dead(reason)
    match outcome:
        case FailedAttempt():
            return None if outcome.decision == dead else replace(outcome, decision=dead, replies=())
        case GenerateOutcome():
            return FailedAttempt(
                outcome.chunk.lease,
                dead,
                outcome.usage,
                outcome.calls,
                outcome.chunk.content_key,
                outcome.chunk.tenant,
                cost=outcome.cost,
                by_tier=outcome.by_tier,
            )
        case IndexOutcome():
            return FailedAttempt(outcome.chunk.lease, dead, chunk=outcome.chunk)
        case PageOutcome():
            return FailedAttempt(outcome.page.lease, dead)
        case ParseOutcome() | PagesOutcome():
            return FailedAttempt(outcome.document.lease, dead)
        case _:
            return None
