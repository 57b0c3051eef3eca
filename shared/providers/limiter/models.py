"""Models whose calls respect the shared limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from shared.domain.usage import Usage
from shared.domain.vectors import Vectors
from shared.providers.chat import ChatModel, ChatRequest, Completion, Message
from shared.providers.embedding import Bill, Embedder, Input, Prefixes, estimated_tokens, free
from shared.providers.limiter.limiter import INGEST, Limiter, MaxWait

PING = Input("ping")
NEUTRAL = ChatRequest((Message("user", "Reply with OK."),), max_tokens=16)  # quotes no document

_TOKENS_A_MESSAGE = 4  # overhead of the chat format
_TOKENS_A_PICTURE = 1_000  # of 1,024 pixels, for most models


@dataclass(frozen=True, slots=True)
class LimitedChat:
    """A `ChatModel` that waits for a grant before each call, charged to a tenant.

    `before_call` is called when a call is granted, and may reject the call by an error.
    """

    chat: ChatModel
    limiter: Limiter
    tenant: str
    max_wait: MaxWait = INGEST
    before_call: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return self.chat.name

    async def complete(self, request: ChatRequest) -> Completion:
        async with self.limiter.call(self.tenant, _tokens(request), request.max_tokens, self.max_wait) as call:
            self.before_call()
            completion = await self.chat.complete(request)
            call.took(completion.usage.prompt_tokens, completion.usage.completion_tokens)
            return completion

    async def stream(self, request: ChatRequest) -> AsyncIterator[str | Usage]:
        async with (
            self.limiter.call(self.tenant, _tokens(request), request.max_tokens, self.max_wait) as call,
            aclosing(self.chat.stream(request)) as events,  # type: ignore[type-var]
        ):
            async for event in events:
                if isinstance(event, Usage):
                    call.took(event.prompt_tokens, event.completion_tokens)
                yield event


@dataclass(slots=True)
class LimitedEmbedder:
    """An `Embedder` that waits for a grant before each request. One request may contain the texts of many tenants."""

    embedder: Embedder
    limiter: Limiter
    tenant: str = ""
    max_wait: MaxWait = INGEST
    seen: int | None = None

    @property
    def name(self) -> str:
        return self.embedder.name

    @property
    def prefixes(self) -> Prefixes:
        return self.embedder.prefixes

    async def dimensions(self) -> int:
        if self.seen is None:
            await self.embed([PING])
        assert self.seen is not None
        return self.seen

    async def embed(self, texts: Sequence[Input], billed: Bill = free) -> Vectors:
        async with self.limiter.call(self.tenant, sum(map(estimated_tokens, texts)), 0, self.max_wait):
            vectors = await self.embedder.embed(texts, billed)
        self.seen = vectors.shape[1]
        return vectors


def _tokens(request: ChatRequest) -> int:
    picture = _TOKENS_A_PICTURE if request.picture else 0
    return picture + sum(estimated_tokens(message.content) + _TOKENS_A_MESSAGE for message in request.messages)
