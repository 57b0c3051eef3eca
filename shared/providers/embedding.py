"""Embedding models: texts in, unit vectors out, packed into as few requests as the provider's limits allow."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from shared.domain.errors import Permanent, Refused, Unavailable
from shared.domain.usage import Usage
from shared.domain.vectors import Vectors

if TYPE_CHECKING:
    from shared.providers.provider import Provider

_CHARS_PER_TOKEN = 3  # English has about 4; packing needs an estimate on the safe side


Bill = Callable[[Usage], None]


def free(_: Usage) -> None:
    """Stand for a bill that nobody counts."""


class Embedder(Protocol):
    """A model that embeds texts."""

    @property
    def name(self) -> str: ...

    async def dimensions(self) -> int:
        """The length of the vectors; the first call embeds a text to learn it.

        Raises:
            Transient: the model is not available.
        """
        ...

    async def embed(self, texts: Sequence[str], billed: Bill = free) -> Vectors:
        """Embed at most one request's worth of texts.

        Args:
            texts: what to embed.
            billed: is told what the provider says it billed, also where its reply holds no vectors.

        Returns:
            Shape `(n, dimensions)`, unit length; row i belongs to text i.

        Raises:
            Transient: worth another attempt later.
            Refused: the provider does not take one of the texts.
        """
        ...


class OpenAIEmbedder:
    """An `Embedder` behind `/embeddings`."""

    def __init__(self, provider: Provider, model: str, dimensions: int | None = None) -> None:
        self._provider = provider
        self._model = model
        self._shortened = dimensions
        self._seen: int | None = None

    @property
    def name(self) -> str:
        return self._model

    async def dimensions(self) -> int:
        if self._seen is None:
            await self.embed(["How long are the vectors of this model?"])
        assert self._seen is not None
        return self._seen

    async def embed(self, texts: Sequence[str], billed: Bill = free) -> Vectors:
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "base64"}
        if self._shortened is not None:
            body["dimensions"] = self._shortened
        reply = await self._provider.post("/embeddings", body)
        billed(Usage(int((reply.get("usage") or {}).get("prompt_tokens") or 0)))
        vectors = _vectors(reply, len(texts))
        self._seen = vectors.shape[1]
        return vectors


def _vectors(reply: dict[str, Any], count: int) -> Vectors:
    try:
        rows = sorted(reply["data"], key=lambda row: row["index"])
        vectors = np.stack([_decode(row["embedding"]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise Unavailable(
            "the embedding provider sent a reply without vectors", component="embedding", answered=True
        ) from error
    if len(vectors) != count:
        raise Unavailable(
            f"the embedding provider sent {len(vectors)} vectors for {count} texts", component="embedding"
        )
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(norms)):
        raise Unavailable(
            "the embedding provider sent a vector that is not finite", component="embedding", answered=True
        )
    norms[norms == 0] = 1
    scaled: Vectors = vectors / norms
    return scaled


def _decode(value: str | list[float]) -> Vectors:
    # An endpoint that does not know `encoding_format` answers with lists.
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value), dtype="<f4")
    return np.asarray(value, dtype=np.float32)


def estimated_tokens(text: str) -> int:
    return len(text) // _CHARS_PER_TOKEN + 1


def pack(texts: Sequence[str], *, max_inputs: int, max_tokens: int) -> Iterator[range]:
    """Split a sequence into consecutive ranges that each fit one request; a text over the limit goes alone."""
    start, tokens = 0, 0
    for index, text in enumerate(texts):
        cost = estimated_tokens(text)
        if index > start and (index - start >= max_inputs or tokens + cost > max_tokens):
            yield range(start, index)
            start, tokens = index, 0
        tokens += cost
    if start < len(texts):
        yield range(start, len(texts))


async def embed_each(embedder: Embedder, texts: Sequence[str], billed: Bill = free) -> list[Vectors | Permanent]:
    """Embed one request's worth of texts; a text that the provider refuses fails alone, found by bisection.

    Returns:
        For text i its vector, shape `(dimensions,)`, or the reason why it has none.

    Raises:
        Transient: nothing was embedded; worth another attempt later.
    """
    try:
        return list(await embedder.embed(texts, billed))
    except Refused as refusal:
        if len(texts) == 1:
            return [refusal]
        middle = len(texts) // 2
        first = await embed_each(embedder, texts[:middle], billed)
        return first + await embed_each(embedder, texts[middle:], billed)
