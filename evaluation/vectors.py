"""Vectors of an evaluation: each text is embedded once, whatever strategies and runs use it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from evaluation.tools import Tools, patiently
from shared.domain.errors import Permanent, Refused
from shared.domain.vectors import Vectors
from shared.providers.embedding import embed_each, pack

_MOST_INPUTS = 64  # seconds for a small model on a busy machine; what is in work when a run is stopped is lost


async def embed_all(tools: Tools, what: str, texts: Iterable[str]) -> set[str]:
    """Embed texts that have no vector yet; what is done is kept if the process ends.

    Returns:
        The texts that the provider refuses.

    Raises:
        Transient: the provider is away for longer than our patience.
    """
    distinct = list(dict.fromkeys(texts))
    missing = tools.kept.missing(tools.vectors_of, distinct)
    settings = tools.settings
    done, refused = len(distinct) - len(missing), set[str]()
    gate = asyncio.Semaphore(settings.tuning.embedding_max_in_flight)

    async def embed(part: Sequence[str]) -> None:
        nonlocal done
        async with gate:
            vectors = await patiently(lambda: embed_each(tools.embedder, part), settings.tuning.max_attempts)
        pairs = list(zip(part, vectors, strict=True))
        refused.update(text for text, vector in pairs if isinstance(vector, Permanent))
        tools.kept.keep_vectors(
            tools.vectors_of, {text: vector for text, vector in pairs if not isinstance(vector, Permanent)}
        )
        done += len(part)
        tools.progress(what, done, len(distinct))

    tools.progress(what, done, len(distinct))
    most = min(settings.tuning.embedding_batch_size, _MOST_INPUTS)
    ranges = pack(missing, max_inputs=most, max_tokens=settings.tuning.embedding_batch_tokens)
    await asyncio.gather(*(embed(missing[part.start : part.stop]) for part in ranges))
    return refused


class CachedEmbedder:
    """An `Embedder` that embeds a text the first time that it is asked, and keeps the vector."""

    def __init__(self, tools: Tools) -> None:
        self._tools = replace(tools, progress=lambda *_: None)

    @property
    def name(self) -> str:
        return self._tools.embedder.name

    async def dimensions(self) -> int:
        return await self._tools.embedder.dimensions()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if await embed_all(self._tools, "", texts):
            raise Refused("the embedding provider refused one of the texts")
        vectors = self._tools.kept.vectors(self._tools.vectors_of, texts)
        return np.stack([vectors[text] for text in texts])
