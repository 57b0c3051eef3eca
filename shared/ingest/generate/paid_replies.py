"""Paid replies: an interrupted attempt stores its replies for the next attempt, which repeats no call."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import orjson

from shared.domain.budgets import Reserve
from shared.domain.errors import Refused
from shared.domain.tiers import Tier
from shared.domain.usage import Usage
from shared.domain.work import ChunkToGenerate, PaidReply
from shared.ingest.generate.bills import highest_usage
from shared.ingest.generate.replies import storable
from shared.providers.chat import ChatModel, ChatRequest, Completion


class Keep(Protocol):
    """Commits a chunk's replies, its costs and the tier of this attempt's replies, and reserves the next call."""

    async def __call__(
        self, replies: Sequence[PaidReply], usage: Usage, calls: int, following: Reserve, *, tier: Tier
    ) -> None: ...


class PaidReplies:
    """A `ChatModel` for the calls of one chunk, in order.

    A call that an earlier attempt paid is answered from its reply. Before each further call the replies so far are
    committed, so that a kill costs only the call in flight; a chunk with a single call commits nothing here.

    Args:
        model: answers the other calls.
        chunk: the chunk with the replies and costs of earlier attempts.
        keep: commits the replies and the costs until now, and reserves the next call; an error ends the attempt before
            the next payment.
    """

    def __init__(self, model: ChatModel, chunk: ChunkToGenerate, keep: Keep) -> None:
        self._model = model
        self._keep = keep
        self.replies = list(chunk.replies)
        self._kept = len(self.replies)  # number of replies in the ledger
        self._next = 0  # index of the next call's reply
        self.usage = chunk.usage
        self.calls = chunk.calls
        self._reserve = chunk.reserve
        self._tier: Tier | None = None

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def tier(self) -> Tier:
        """The tier of this attempt's replies; standard if they differ, so that the costs are never booked too low."""
        return self._tier or Tier.STANDARD

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
            await self._keep(self.replies, self.usage, self.calls, following, tier=self.tier)
            self._kept = len(self.replies)
            self._reserve = following
        try:
            completion = await self._model.complete(request)
        except Refused as refusal:
            if refusal.usage is not None:
                self._spend(refusal.usage, refusal.tier)
            raise
        self._spend(completion.usage, completion.tier)
        return PaidReply(digest, storable(completion.text), completion.finish_reason, completion.usage)

    def _exceeds(self, following: Reserve) -> bool:
        """Return whether a call may use more than the claim has reserved: the repair of a stored reply may."""
        if self._reserve is None:
            return False
        reserved, usage = self._reserve.usage, following.usage
        return usage.prompt_tokens > reserved.prompt_tokens or usage.completion_tokens > reserved.completion_tokens

    def _spend(self, usage: Usage, tier: Tier) -> None:
        self.usage += usage
        self.calls += 1
        self._tier = tier if self._tier in (None, tier) else Tier.STANDARD

    def stream(self, request: ChatRequest) -> AsyncIterator[str | Completion]:
        """Stream a reply without storing it."""
        return self._model.stream(request)
