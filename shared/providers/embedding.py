"""Embedding models, which convert texts to unit vectors, in as few requests as the provider's limits allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NewType, Protocol

import structlog

from shared.domain.errors import Conflict, Misconfigured, Permanent, Refused, TimedOut, UnusableReply
from shared.domain.spending.usage import Usage
from shared.domain.vectors import Vectors
from shared.process.telemetry.metrics import EMBEDDED_INPUTS
from shared.providers.replies.chat import usage_of
from shared.providers.replies.estimates import tokens_in
from shared.providers.replies.reading import FewerVectors, reading

if TYPE_CHECKING:
    from shared.providers.provider import Provider

log = structlog.get_logger()

_WRONG_SIZE_PAUSE = timedelta(seconds=30)  # until a person changes the setting
_CHARS_PER_TOKEN = 3  # English has about 4; packing needs an estimate on the safe side


class Billing(Protocol):
    """Receives the billed tokens of each request."""

    def __call__(self, usage: Usage, /, *, is_estimated: bool = False) -> None:
        """Count a request; `is_estimated` if the provider has not reported its tokens."""
        ...


def free(_: Usage, *, is_estimated: bool = False) -> None:
    """Accept a bill without counting it."""


Input = NewType("Input", str)
"""A text as the model reads it: with the prefix of its kind."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Prefixes that a model expects before questions and texts, such as E5's "query: " and "passage: ".

    Stored questions are embedded as queries, too: users' questions are compared with them, and models with prefixes
    expect the same prefix for both questions.
    """

    of_query: str = ""
    of_passage: str = ""

    def query(self, question: str) -> Input:
        """Return the model's input for a user's question or a stored question."""
        return Input(self.of_query + question)

    def passage(self, text: str) -> Input:
        """Return the model's input for the text of a chunk or for a sentence."""
        return Input(self.of_passage + text)

    def queries(self, questions: Iterable[str]) -> list[Input]:
        return [self.query(question) for question in questions]

    def passages(self, texts: Iterable[str]) -> list[Input]:
        return [self.passage(text) for text in texts]


NO_PREFIXES = Prefixes()


class Embedder(Protocol):
    """A model that embeds texts; `name` is the name by which collections choose it."""

    @property
    def name(self) -> str: ...

    @property
    def prefixes(self) -> Prefixes: ...

    async def dimensions(self) -> int:
        """Return the length of the vectors; the first call embeds a text to learn it.

        Raises:
            Transient: the model is not available.
        """
        ...

    async def embed(self, texts: Sequence[Input], billed: Billing = free) -> Vectors:
        """Embed texts that fit into one request.

        Args:
            texts: texts, each with its prefix.
            billed: receives the billed tokens, even if the reply contains no vectors.

        Returns:
            Shape `(n, dimensions)`, unit length; row i belongs to text i.

        Raises:
            Transient: worth another attempt later.
            Refused: the provider rejects one of the texts.
        """
        ...


class Embedders:
    """The embedding models of this process, by the names under which collections choose them."""

    def __init__(self, embedders: Iterable[Embedder]) -> None:
        self._embedders = {embedder.name: embedder for embedder in embedders}

    @property
    def names(self) -> list[str]:
        return list(self._embedders)

    def named(self, name: str) -> Embedder:
        """Return the embedder of that name.

        Raises:
            Conflict: the settings of this process describe none.
        """
        try:
            return self._embedders[name]
        except KeyError:
            raise Conflict(unserved(name), field="collection") from None


def unserved(name: str) -> str:
    """Return the remedy for an embedding that no process serves."""
    return (
        f"No setting describes the embedding '{name}': name it in FOREASK_EMBEDDINGS, or set FOREASK_EMBEDDING_MODEL to"
        " it."
    )


class OpenAIEmbedder:
    """An `Embedder` over `/embeddings`.

    Args:
        provider: the server.
        model: the server's name of the model.
        dimensions: requested dimensions; None for the model's own.
        name: name by which collections choose it; by default the model.
        prefixes: prefixes of questions and texts.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        dimensions: int | None = None,
        *,
        name: str | None = None,
        prefixes: Prefixes = NO_PREFIXES,
    ) -> None:
        self._provider = provider
        self._model = model
        self._shortened = dimensions
        self._name = name or model
        self._prefixes = prefixes
        self._seen: int | None = None
        self._embeds_first_only = False  # whether its server embeds only the first text of a request

    @property
    def name(self) -> str:
        return self._name

    @property
    def prefixes(self) -> Prefixes:
        return self._prefixes

    async def dimensions(self) -> int:
        if self._seen is None:
            await self.embed([Input("How long are the vectors of this model?")])
        assert self._seen is not None
        return self._seen

    async def embed(self, texts: Sequence[Input], billed: Billing = free) -> Vectors:
        if len(texts) > 1 and self._embeds_first_only:
            return await self._embed_each(texts, billed)
        try:
            return await self._embed(texts, billed)
        except FewerVectors as error:
            if len(texts) == 1:
                raise
            if error.vectors == 1:
                self._embeds_first_only = True
                log.warning("embedding.one_by_one", embedding=self._name, reason=error.message)
            return await self._embed_each(texts, billed)

    async def _embed_each(self, texts: Sequence[Input], billed: Billing) -> Vectors:
        """Embed texts in one request each: some servers embed only the first text of a request, or lose one."""
        import numpy as np  # noqa: PLC0415 - as in `_embed`

        return np.concatenate([await self._embed([text], billed) for text in texts])

    async def _embed(self, texts: Sequence[Input], billed: Billing) -> Vectors:
        # Generate workers embed nothing, and NumPy takes 10 MB and 0.1 s.
        from shared.providers.replies.vectors import vectors_in  # noqa: PLC0415

        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "base64"}
        if self._shortened is not None:
            body["dimensions"] = self._shortened
        EMBEDDED_INPUTS.observe(len(texts))
        usage = Usage()
        try:
            reply = await self._provider.post_any("/embeddings", body)
            usage = usage_of(reply.get("usage")) if isinstance(reply, dict) else usage
            with reading("embedding", lambda: usage):
                vectors = vectors_in(reply, len(texts))
        except (TimedOut, UnusableReply) as error:
            reported = error.usage if isinstance(error, UnusableReply) else None
            billed(reported or Usage(tokens_in(texts)), is_estimated=reported is None)
            raise
        is_estimated = usage == Usage()
        billed(Usage(tokens_in(texts)) if is_estimated else usage, is_estimated=is_estimated)
        if self._shortened not in {None, vectors.shape[1]}:
            raise Misconfigured(
                f"the model {self._model} returns vectors of {vectors.shape[1]} dimensions although"
                f" {self._shortened} are requested: set FOREASK_EMBEDDING_DIMENSIONS to {vectors.shape[1]}, or choose"
                " a model that can shorten its vectors",
                component="embedding",
                retry_after=_WRONG_SIZE_PAUSE,
            )
        self._seen = vectors.shape[1]
        return vectors


def estimated_tokens(text: str) -> int:
    return len(text) // _CHARS_PER_TOKEN + 1


def pack(texts: Sequence[str], *, max_inputs: int, max_tokens: int) -> Iterator[range]:
    """Split texts into consecutive ranges that each fit one request; a text over the limit is a range by itself."""
    start, tokens = 0, 0
    for index, text in enumerate(texts):
        cost = estimated_tokens(text)
        if index > start and (index - start >= max_inputs or tokens + cost > max_tokens):
            yield range(start, index)
            start, tokens = index, 0
        tokens += cost
    if start < len(texts):
        yield range(start, len(texts))


def cosines_of(question: Vectors, vectors: Iterable[Vectors | Permanent]) -> list[float]:
    """Return the cosines of a question and of texts as `embed_each` returns them; a refused text is opposite to it."""
    return [-1.0 if isinstance(vector, Permanent) else float(vector @ question) for vector in vectors]


async def embed_each(
    embedder: Embedder, texts: Sequence[Input], billed: Billing = free, *, is_part: bool = False
) -> list[Vectors | Permanent]:
    """Embed the texts of one request; a text that the provider refuses is found by bisection and fails separately.

    A text whose every batch times out, and then the text alone, too, is refused.

    Args:
        embedder: the model.
        texts: texts that fit into one request.
        billed: receives the billed tokens.
        is_part: whether they are a part of a request that was refused.

    Returns:
        For text i its vector, shape `(dimensions,)`, or the reason for its failure.

    Raises:
        Transient: nothing was embedded; worth another attempt later.
    """
    try:
        return list(await embedder.embed(texts, billed))
    except Refused as refusal:
        if len(texts) == 1:
            return [refusal]
    except TimedOut as late:
        if len(texts) == 1 and is_part:
            return [Refused(f"{late.message}, and answers others")]
        raise
    middle = len(texts) // 2
    first = await embed_each(embedder, texts[:middle], billed, is_part=True)
    return first + await embed_each(embedder, texts[middle:], billed, is_part=True)
