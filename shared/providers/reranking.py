"""Reranking: a model reads the question with each chunk and scores how well they fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shared.domain.errors import BadReply
from shared.providers.replies.reading import reading

if TYPE_CHECKING:
    from shared.providers.provider import Provider


class Reranker:
    """A model over `/rerank` as defined by Jina and Cohere; llama.cpp, vLLM and Infinity serve it, too.

    Args:
        provider: its endpoint.
        model: name of the model, if the endpoint expects one.
        budget: time that a query waits for the scores.
        candidates: number of best chunks of a query that are scored.
    """

    def __init__(
        self,
        provider: Provider,
        model: str | None = None,
        *,
        budget: timedelta = timedelta(seconds=1),
        candidates: int = 50,
    ) -> None:
        self._provider = provider
        self._model = model
        self.budget = budget
        self.candidates = candidates

    async def score(self, question: str, documents: Sequence[str]) -> list[float]:
        """Score every document against the question, in one call.

        Returns:
            Score i belongs to document i; higher is better, on a scale of the model's own.

        Raises:
            Transient: the endpoint is not available.
            Refused: the endpoint rejects this request.
            BadReply: the reply has not one score for each document.
        """
        body: dict[str, Any] = {"query": question, "documents": list(documents), "top_n": len(documents)}
        if self._model is not None:
            body["model"] = self._model
        reply = await self._provider.post_any("/rerank", body)
        with reading("rerank"):
            return scores_in(reply, len(documents))


def scores_in(reply: object, count: int) -> list[float]:
    """Read `{"results": [{"index", "relevance_score"}]}`, or only the list; `score` is accepted as a name, too.

    Raises:
        BadReply: the reply has not one finite score for each of `count` documents.
    """
    results = reply.get("results") if isinstance(reply, Mapping) else reply
    if not isinstance(results, list):
        raise BadReply("the rerank provider sent no list of results")
    scores = dict(_score(result) for result in results)
    if len(results) != count or scores.keys() != set(range(count)):
        raise BadReply(f"the rerank provider did not send one result for each of the {count} documents")
    return [scores[index] for index in range(count)]


def _score(result: object) -> tuple[int, float]:
    if isinstance(result, Mapping):
        index, score = result.get("index"), result.get("relevance_score", result.get("score"))
        if type(index) is int and type(score) in {int, float} and math.isfinite(score):
            return index, float(score)
    raise BadReply("the rerank provider sent a result without an index and a score")
