"""Vectors of an evaluation: each text is embedded once for all strategies and runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from foreask_evaluation.services import EvaluationServices, retry_transient
from shared.domain.errors import Permanent, Refused
from shared.domain.vectors import Vectors
from shared.providers.embedding import Billing, Input, Prefixes, embed_each, free, pack

_MAX_INPUTS = 64  # seconds of work for a small model on a busy machine; a run that is stopped loses no more


async def embed_all(services: EvaluationServices, stage: str, texts: Iterable[Input]) -> set[Input]:
    """Embed the texts without a vector; each batch is saved as soon as it is embedded.

    Returns:
        The texts that the provider refuses.

    Raises:
        Transient: the provider was unavailable for the maximum number of attempts.
    """
    distinct = list(dict.fromkeys(texts))
    missing = services.cache.missing_vectors(services.vector_model, distinct)
    settings = services.settings
    done, refused = len(distinct) - len(missing), set[Input]()
    gate = asyncio.Semaphore(settings.tuning.embedding_max_in_flight)

    async def embed(batch: Sequence[Input]) -> None:
        nonlocal done
        async with gate:
            vectors = await retry_transient(lambda: embed_each(services.embedder, batch), settings.tuning.max_attempts)
        pairs = list(zip(batch, vectors, strict=True))
        refused.update(text for text, vector in pairs if isinstance(vector, Permanent))
        services.cache.save_vectors(
            services.vector_model, {text: vector for text, vector in pairs if not isinstance(vector, Permanent)}
        )
        done += len(batch)
        services.progress(stage, done, len(distinct))

    services.progress(stage, done, len(distinct))
    max_inputs = min(settings.tuning.embedding_batch_size, _MAX_INPUTS)
    ranges = pack(missing, max_inputs=max_inputs, max_tokens=settings.tuning.embedding_batch_tokens)
    await asyncio.gather(*(embed(missing[part.start : part.stop]) for part in ranges))
    return refused


class CachedEmbedder:
    """An `Embedder` with a cache: each text is embedded once."""

    def __init__(self, services: EvaluationServices) -> None:
        self._services = replace(services, progress=lambda *_: None)

    @property
    def name(self) -> str:
        return self._services.embedder.name

    @property
    def prefixes(self) -> Prefixes:
        return self._services.embedder.prefixes

    async def dimensions(self) -> int:
        return await self._services.embedder.dimensions()

    async def embed(self, texts: Sequence[Input], _billed: Billing = free) -> Vectors:
        """Embed texts; the costs are not counted.

        Returns:
            Shape `(len(texts), dimensions)`; row i belongs to text i.

        Raises:
            Refused: the provider refuses one of the texts.
            Transient: the provider is not available.
        """
        if await embed_all(self._services, "", texts):
            raise Refused("the embedding provider refused one of the texts")
        vectors = self._services.cache.load_vectors(self._services.vector_model, texts)
        return np.stack([vectors[text] for text in texts])
