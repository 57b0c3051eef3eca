"""Rows of claims and their attempts: leases, failures, and the paid replies of incomplete questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.domain.retry import Dead, Decision
from shared.domain.spending.usage import Usage, UsageByTier
from shared.domain.stages.attempts import FailedAttempt, PaidReply
from shared.domain.stages.work import Lease
from shared.ledger.model import tier_tokens
from shared.ledger.model.rows.encoding import bytea, encoded
from shared.ledger.postgres.connections import Row


def lease_of(row: Row) -> Lease:
    return Lease(id=row["id"], version=row["version"], token=row["lease_token"])


def lease_columns(lease: Lease) -> dict[str, Any]:
    return {"id": lease.id, "version": lease.version, "token": lease.token}


def lease_rows(leases: Sequence[Lease]) -> dict[str, Any]:
    return encoded(map(lease_columns, leases))


def usage_by_tier(row: Row) -> UsageByTier:
    """Return the tokens of a chunk's calls by tier."""
    return tier_tokens.decoded(row["tier_tokens"], row["prompt_tokens"], row["completion_tokens"])


def usage_columns(usage: Usage, calls: int, by_tier: UsageByTier) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "calls": calls,
        "tier_tokens": tier_tokens.encoded(by_tier),
    }


def replies_of(values: Sequence[Mapping[str, Any]] | None) -> tuple[PaidReply, ...]:
    """Return the replies of a row; NULL means no replies."""
    return tuple(map(_reply, values or ()))


def _reply(value: Mapping[str, Any]) -> PaidReply:
    usage = Usage(value["prompt_tokens"], value["completion_tokens"])
    return PaidReply(value["request"], value["text"], value["finish_reason"], usage)


def reply_values(replies: Sequence[PaidReply]) -> list[dict[str, Any]]:
    return [
        {
            "request": reply.request,
            "text": reply.text,
            "finish_reason": reply.finish_reason,
            "prompt_tokens": reply.usage.prompt_tokens,
            "completion_tokens": reply.usage.completion_tokens,
        }
        for reply in replies
    ]


def failure_rows(failures: Sequence[FailedAttempt]) -> dict[str, Any]:
    return encoded(
        lease_columns(failure.lease)
        | usage_columns(failure.usage, failure.calls, failure.by_tier)
        | _decision(failure.decision)
        | {
            "content_key": None if failure.content_key is None else bytea(failure.content_key),
            "tenant": failure.tenant,
            "replies": reply_values(failure.replies) or None,
        }
        for failure in failures
    )


def _decision(decision: Decision) -> dict[str, Any]:
    if isinstance(decision, Dead):
        return {"error": decision.reason, "dead": True, "after_seconds": 0, "burned": 1}
    after_seconds = decision.after.total_seconds()
    return {
        "error": decision.reason,
        "dead": False,
        "after_seconds": after_seconds,
        "burned": int(decision.burns_attempt),
    }
