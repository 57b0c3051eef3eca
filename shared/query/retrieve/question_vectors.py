"""Vectors of questions, which are remembered: a repeated question, or the next page of its hits, costs no call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from uuid import UUID

import numpy as np

from shared.domain.corpus.collections import Collection
from shared.domain.vectors import Vectors
from shared.providers.embedding import Embedders

_Key = tuple[UUID, str, str]


class QuestionVectors:
    """Embeds questions with the embedding of their collection.

    Each collection remembers its own questions: the time of an answer must not disclose the questions of other tenants.

    Args:
        embedders: the embeddings.
        most: maximum number of remembered questions; the longest unused ones are forgotten.
    """

    def __init__(self, embedders: Embedders, most: int) -> None:
        self._embedders = embedders
        self._most = most
        self._remembered = OrderedDict[_Key, Vectors]()

    async def embed(self, questions: Sequence[str], collection: Collection) -> Vectors:
        """Return unit vectors of shape `(n, dimensions)`; row i belongs to question i.

        Raises:
            Conflict: no setting describes the collection's embedding.
            Transient: the provider is not available, and a question is new.
        """
        embedder = self._embedders.named(collection.embedding_model)
        keys = [(collection.id, embedder.name, question) for question in questions]
        new = [key for key in dict.fromkeys(keys) if key not in self._remembered]
        found = {key: self._remembered[key] for key in keys if key in self._remembered}
        if new:
            vectors = await embedder.embed(embedder.prefixes.queries(question for *_, question in new))
            found |= zip(new, vectors, strict=True)
        self._remember(found)
        return np.stack([found[key] for key in keys])

    def _remember(self, used: dict[_Key, Vectors]) -> None:
        for key, vector in used.items():
            self._remembered[key] = vector.copy()  # not a view, which would keep the vectors of the whole request
            self._remembered.move_to_end(key)
        while len(self._remembered) > self._most:
            self._remembered.popitem(last=False)
