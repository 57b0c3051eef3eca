"""The highest bill of a call, and the bill of a chunk, which includes calls without a usable reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from math import ceil

from shared.domain.errors import Refused, TimedOut, UnusableReply
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.providers.chat import ChatModel, ChatRequest, Completion
from shared.providers.limiter.endings import USABLE
from shared.providers.replies.estimates import tokens_in

_MARGIN = 1.2
_TOKENS_BESIDE = 100  # the schema, and the overhead of the chat format
_TOKENS_A_PICTURE = 4_000  # 765 to 3,800 for 1,024 pixels, by model; gpt-4o-mini counts up to 26,000


def highest_usage(request: ChatRequest) -> Usage:
    """Return the tokens that a provider may bill for a call: a high estimate of the prompt, and the longest reply."""
    prompt = tokens_in(message.content for message in request.messages)
    picture = _TOKENS_A_PICTURE if request.picture else 0
    return Usage(ceil(prompt * _MARGIN) + _TOKENS_BESIDE + picture, request.max_tokens or 0)


class ChunkBill:
    """The costs of a chunk until now: of earlier attempts, and of this attempt's calls.

    Args:
        usage: tokens billed for earlier attempts.
        calls: number of calls of earlier attempts.
    """

    def __init__(self, usage: Usage, calls: int) -> None:
        self.usage = usage
        self.calls = calls
        self.endings: list[str] = []
        """The endings of this attempt's calls, as of `Endings`; a call that timed out has none."""
        self.is_estimated = False
        """Whether `usage` contains a call of this attempt whose tokens are estimated."""
        self._tier: Tier | None = None

    @property
    def tier(self) -> Tier:
        """The tier of this attempt's replies; standard if they differ, so that the costs are never booked too low."""
        return self._tier or Tier.STANDARD

    def add(self, usage: Usage, tier: Tier, *, is_estimated: bool = False) -> None:
        """Add a call; `is_estimated` if the provider has not reported its tokens."""
        self.usage += usage
        self.calls += 1
        self.is_estimated |= is_estimated
        self._tier = tier if self._tier in (None, tier) else Tier.STANDARD

    def add_failed(self, reported: Usage | None, highest: Usage) -> None:
        """Add a call without a usable reply: with the highest possible tokens, if the provider reported none."""
        self.add(reported or highest, Tier.STANDARD, is_estimated=reported is None)


class BilledChat:
    """A `ChatModel` that adds its calls to a bill, also those for which the provider may charge without a usable reply.

    It wraps the model itself, because the limiter replaces errors.
    """

    def __init__(self, chat: ChatModel, bill: ChunkBill) -> None:
        self._chat = chat
        self._bill = bill

    @property
    def name(self) -> str:
        return self._chat.name

    async def complete(self, request: ChatRequest) -> Completion:
        """Make one call; raise the errors of the model."""
        try:
            completion = await self._chat.complete(request)
        except Refused as refusal:
            if refusal.usage is not None:
                self._bill.add(refusal.usage, refusal.tier, is_estimated=refusal.is_estimated)
                self._bill.endings.append(refusal.message)
            raise
        except UnusableReply as error:
            self._bill.endings.append(error.message)
            self._bill.add_failed(error.usage, highest_usage(request))
            raise
        except TimedOut:
            self._bill.add_failed(None, highest_usage(request))
            raise
        self._bill.add(completion.usage, completion.tier, is_estimated=completion.is_estimated)
        self._bill.endings.append(USABLE)
        return completion

    def stream(self, request: ChatRequest) -> AsyncIterator[str | Completion]:
        """Stream a reply without adding it to the bill."""
        return self._chat.stream(request)
