"""Answers quoted from the passages: the sentences nearest to the question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from shared.domain.errors import Permanent
from shared.providers.embedding import Embedder, cosines_of, embed_each
from shared.query.answer.answer import Answer, Form, Passage, nothing_found
from shared.query.answer.certainty import is_supported, may_answer, strengths_of
from shared.query.answer.quotes import Quote, candidates

LEAD = "Quoted from the documents:"
UNCERTAIN_LEAD = "The documents may not answer this question. The nearest passages:"
MAX_QUOTES = 3

_MARGIN = 0.12  # maximum difference of another sentence from the best
_FLOOR = 0.3  # minimum cosine of a quoted sentence
_FRAGMENT = 0.05  # a complete sentence is preferred to a fragment that is nearer by less
_FOLLOWING = 0.05  # the sentence after a question is at most this much farther from the user's question


class ExtractiveAnswerer:
    """An `Answerer` that quotes sentences with citations, and marks its answers as quotations.

    Args:
        embedder: embeds the question and the passages' sentences, in one request.
        floor: lowest cosine of the question and the nearest sentence at which the documents answer.
        unrelated: cosine of unrelated texts with the embedding model.
    """

    def __init__(self, embedder: Embedder, floor: float = _FLOOR, unrelated: float = 0.0) -> None:
        self._embedder = embedder
        self._floor = floor
        self._unrelated = unrelated

    @property
    def form(self) -> Form:
        return "extractive"

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        """Quote the nearest sentences of the first passages; without passages no model is called and nothing is found.

        Raises:
            Transient: the provider is not available now.
            Refused: the provider refuses the question. A sentence that it refuses is not quoted.
        """
        quotes = candidates(passages)
        strengths = await asyncio.to_thread(strengths_of, question, passages, self._unrelated)
        if not quotes or not may_answer(strengths):
            return nothing_found(self.form)
        prefixes = self._embedder.prefixes
        texts = [prefixes.query(question), *prefixes.passages(quote.text for quote in quotes)]
        asked, *of_quotes = await embed_each(self._embedder, texts)
        if isinstance(asked, Permanent):
            raise asked
        similarities = _of_answers(quotes, cosines_of(asked, of_quotes))
        best = max(similarities)
        if best < self._floor:
            return nothing_found(self.form)
        ranked = _ranked(quotes, similarities)
        threshold = max(self._floor, best - _MARGIN)
        nearest = [index for index in ranked[:MAX_QUOTES] if similarities[index] >= threshold]
        if not is_supported({quotes[index].number for index in nearest}, strengths):
            return _answer(UNCERTAIN_LEAD, _of_first_passages(quotes, ranked), is_certain=False)
        return _answer(LEAD, [quotes[index] for index in sorted(nearest)])

    async def stream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | Answer]:
        """Yield the text line by line, then the complete `Answer`."""
        answer = await self.answer(question, passages)
        for line in answer.text.splitlines(keepends=True):
            yield line
        yield answer


def _of_answers(quotes: Sequence[Quote], similarities: Sequence[float]) -> list[float]:
    """Return the similarities; the similarity of a question is moved to the next sentence, which may answer it."""
    moved = list(similarities)
    for index, quote in enumerate(quotes):
        if not quote.is_question:
            continue
        following = index + 1
        if following < len(quotes) and quotes[following].number == quote.number:
            moved[following] = max(moved[following], moved[index] - _FOLLOWING)
        moved[index] = -1.0
    return moved


def _ranked(quotes: Sequence[Quote], similarities: Sequence[float]) -> list[int]:
    """Return the quotes without questions, nearest first."""
    worth = [
        similarity if quote.is_complete else similarity - _FRAGMENT
        for quote, similarity in zip(quotes, similarities, strict=True)
    ]
    answering = (index for index, quote in enumerate(quotes) if not quote.is_question)
    return sorted(answering, key=lambda index: -worth[index])


def _of_first_passages(quotes: Sequence[Quote], ranked: Sequence[int]) -> list[Quote]:
    """Return the best quote of each of the first passages."""
    best: dict[int, Quote] = {}
    for index in ranked:
        best.setdefault(quotes[index].number, quotes[index])
    return [best[number] for number in sorted(best)[:MAX_QUOTES]]


def _answer(lead: str, quotes: Sequence[Quote], *, is_certain: bool = True) -> Answer:
    lines = [lead, "", *(f"> {quote.text} [{quote.number}]" for quote in quotes)]
    cited = dict.fromkeys(quote.number for quote in quotes)
    support = tuple(quote.support for quote in quotes)
    return Answer("\n".join(lines), tuple(cited), form="extractive", is_certain=is_certain, support=support)
