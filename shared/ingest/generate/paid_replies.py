"""Paid replies: an interrupted attempt stores its replies for the next attempt, which repeats no call."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import orjson

from shared.domain.spending.budgets import Reserve
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.domain.stages.attempts import PaidReply
from shared.domain.stages.generation import ChunkToGenerate
from shared.ingest.generate.bills import ChunkBill, highest_usage
from shared.ingest.generate.replies import storable
from shared.providers.chat import ChatModel, ChatRequest, Completion


class CommitReplies(Protocol):
    """Commits a chunk's replies, its costs and the tier of this attempt's replies, and reserves the next call."""

    async def __call__(
        self,
        replies: Sequence[PaidReply],
        usage: Usage,
        calls: int,
        following: Reserve,
        *,
        tier: Tier,
        is_estimated: bool,
    ) -> None: ...


class PaidReplies:
    """A `ChatModel` for the calls of one chunk, in order.

    A call that an earlier attempt paid is answered from its reply. Before each further call the replies so far are
    committed, so that a kill costs only the call in flight; a chunk with a single call commits nothing here.

    Args:
        model: answers the other calls.
        chunk: the chunk with the replies of earlier attempts.
        bill: costs of the chunk until now, to which the model adds its calls.
        keep: commits the replies and the costs until now, and reserves the next call; an error ends the attempt before
            the next payment.
    """

    def __init__(self, model: ChatModel, chunk: ChunkToGenerate, bill: ChunkBill, keep: CommitReplies) -> None:
        self._model = model
        self._bill = bill
        self._keep = keep
        self.replies = list(chunk.replies)
        self._kept = len(self.replies)  # number of replies in the ledger
        self._next = 0  # index of the next call's reply
        self._reserve = chunk.reserve

    @property
    def name(self) -> str:
        return self._model.name

    async def complete(self, request: ChatRequest) -> Completion:
        """Make one call, or answer it from its reply; raise the errors of the model and of `keep`."""
        digest = hashlib.sha256(orjson.dumps(request.body(self.name))).hexdigest()
        if self._next < len(self.replies) and self.replies[self._next].request != digest:
            del self.replies[self._next :]  # the prompt has changed, and with it every call from here on
            self._kept = min(self._kept, self._next)
        if self._next == len(self.replies):
            self.replies.append(await self._paid(request, digest))
        reply = self.replies[self._next]
        self._next += 1
        return Completion(reply.text, reply.finish_reason, reply.usage)

    async def _paid(self, request: ChatRequest, digest: str) -> PaidReply:
        following = Reserve(self.name, highest_usage(request))
        if self._kept < len(self.replies) or self._exceeds(following):
            bill = self._bill
            await self._keep(
                self.replies, bill.usage, bill.calls, following, tier=bill.tier, is_estimated=bill.is_estimated
            )
            self._kept = len(self.replies)
            self._reserve = following
        completion = await self._model.complete(request)
        return PaidReply(digest, storable(completion.text), completion.finish_reason, completion.usage)

    def _exceeds(self, following: Reserve) -> bool:
        """Return whether a call may use more than the claim has reserved: the repair of a stored reply may."""
        if self._reserve is None:
            return False
        reserved, usage = self._reserve.usage, following.usage
        return usage.prompt_tokens > reserved.prompt_tokens or usage.completion_tokens > reserved.completion_tokens

    def stream(self, request: ChatRequest) -> AsyncIterator[str | Completion]:
        """Stream a reply without storing it."""
        return self._model.stream(request)
