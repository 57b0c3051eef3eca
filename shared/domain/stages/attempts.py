"""Attempts at claimed rows: their outcomes, and the replies that they have paid for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from shared.domain.retry import Dead, Decision
from shared.domain.spending.usage import Cost, Usage, UsageByTier
from shared.domain.stages.work import Lease


@dataclass(frozen=True, slots=True)
class PaidReply:
    """A model's reply to one of the calls for a content, retained until its questions are complete.

    `request` is the digest of the request: the reply is reused for an identical request only.
    """

    request: str
    text: str
    finish_reason: str
    usage: Usage


class Outcome:
    """The outcome of an attempt at a claimed row."""

    __slots__ = ()

    def refused(self, reason: str) -> FailedAttempt | None:
        """Return the failure that replaces this outcome if the ledger can never store it, with its costs.

        Args:
            reason: a sentence.

        Returns:
            The failure; None if the outcome is that failure already.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FailedAttempt(Outcome):
    """A failed attempt and the decision about the next one.

    `usage`, `by_tier` and `calls` are the costs of the chunk, including this attempt, and `cost` is this attempt's. The
    next attempt at the `tenant`'s content of `content_key` continues with `replies`. `is_bill_incomplete` is set if the
    provider may charge for a call that is not in `cost`.
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
    by_tier: UsageByTier = field(default_factory=dict)

    def refused(self, reason: str) -> FailedAttempt | None:
        dead = Dead(reason)
        return None if self.decision == dead else replace(self, decision=dead, replies=())
