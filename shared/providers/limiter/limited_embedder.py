"""An embedding model whose calls respect the shared limits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from shared.domain.errors import FailsOnText, Misconfigured
from shared.domain.vectors import Vectors
from shared.providers.embedding import Billing, Embedder, Input, Prefixes, estimated_tokens, free
from shared.providers.limiter.judge import Neutral
from shared.providers.limiter.limiter import INGEST, Limiter, MaxWait

PING = Input("ping")

_REPEATS_SECONDS = (0.2, 1.0)  # pauses before a text on which the provider fails is sent again
_SIZE_PAUSE = timedelta(seconds=30)


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

    async def embed(self, texts: Sequence[Input], billed: Billing = free) -> Vectors:
        """Embed texts; a single text on which the provider fails is sent again before it is the cause."""
        for pause in _REPEATS_SECONDS:
            try:
                return await self._embed(texts, billed)
            except FailsOnText:
                if len(texts) > 1:
                    raise
            await asyncio.sleep(pause)
        return await self._embed(texts, billed)

    async def _embed(self, texts: Sequence[Input], billed: Billing) -> Vectors:
        ping = partial(self._of_same_size, [PING])
        of_batch = len(texts) > 1
        neutral = Neutral(None, ping, self.max_wait.kind, 1, 0, is_plain=True, is_of_batch=of_batch)
        tokens = sum(map(estimated_tokens, texts))
        async with self.limiter.call(self.tenant, tokens, 0, self.max_wait, neutral):
            return await self._of_same_size(texts, billed)

    async def _of_same_size(self, texts: Sequence[Input], billed: Billing = free) -> Vectors:
        vectors = await self.embedder.embed(texts, billed)
        size = vectors.shape[1]
        if self.seen not in {None, size}:
            raise Misconfigured(
                f"the embedding model {self.name} returns {size} dimensions now, and returned {self.seen} before: its"
                " server has another model under this name",
                component="embedding",
                retry_after=_SIZE_PAUSE,
            )
        self.seen = size
        return vectors
