"""Metering: reports the tokens that a query spends on models, while it spends them.

A prompt is reported when its call starts, and corrected by the billed tokens when it ends, so that a client that
disconnects pays for the calls that it started. Embedding tokens are estimated from the length of the texts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass

from shared.domain.spending.usage import CostKind, Usage
from shared.domain.vectors import Vectors
from shared.providers.chat import ChatModel, ChatRequest, Completion
from shared.providers.embedding import Billing, Embedder, Input, Prefixes, estimated_tokens, free

Report = Callable[[CostKind, str, Usage], None]
"""Receives the kind of a call, its model, and tokens; a correction may be negative."""

_report: ContextVar[Report | None] = ContextVar("report", default=None)


def report_to(report: Report | None) -> None:
    """Report the tokens of the current request and its tasks to this function; None stops the reports."""
    _report.set(report)


def _spend(kind: CostKind, model: str, usage: Usage) -> None:
    if (report := _report.get()) is not None and usage != Usage():
        report(kind, model, usage)


def spend_embedding(embedding: str, texts: Sequence[str]) -> None:
    """Report the embedding of texts.

    Args:
        embedding: name of the embedding.
        texts: the embedded texts, also if a worker embeds them after the request.
    """
    _spend("embed", embedding, Usage(sum(map(estimated_tokens, texts))))


@dataclass(frozen=True, slots=True)
class MeteredChat:
    """A `ChatModel` that reports its tokens."""

    chat: ChatModel

    @property
    def name(self) -> str:
        return self.chat.name

    async def complete(self, request: ChatRequest) -> Completion:
        prompt = _prompt(request)
        _spend("generate", self.name, prompt)
        completion = await self.chat.complete(request)
        _spend("generate", self.name, completion.usage - prompt)
        return completion

    async def stream(self, request: ChatRequest) -> AsyncIterator[str | Completion]:
        reported = _prompt(request)
        _spend("generate", self.name, reported)
        billed: Usage | None = None
        pieces = 0
        try:
            async with aclosing(self.chat.stream(request)) as events:  # type: ignore[type-var]
                async for event in events:
                    if isinstance(event, Completion):
                        billed = event.usage
                    else:
                        pieces += 1  # about a token each
                    yield event
        finally:  # also if the client disconnects
            _spend("generate", self.name, (billed or reported + Usage(0, pieces)) - reported)


@dataclass(frozen=True, slots=True)
class MeteredEmbedder:
    """An `Embedder` that reports its tokens."""

    embedder: Embedder

    @property
    def name(self) -> str:
        return self.embedder.name

    @property
    def prefixes(self) -> Prefixes:
        return self.embedder.prefixes

    async def dimensions(self) -> int:
        return await self.embedder.dimensions()

    async def embed(self, texts: Sequence[Input], billed: Billing = free) -> Vectors:
        spend_embedding(self.name, texts)
        return await self.embedder.embed(texts, billed)


def _prompt(request: ChatRequest) -> Usage:
    return Usage(request.prompt_tokens)
