"""Answers quoted from the passages: the sentences, list items and table rows that answer the question best."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from shared.domain.errors import Permanent
from shared.providers.embedding import Embedder, cosines_of, embed_each
from shared.query.answer.answer import Answer, Form, Passage, Support, nothing_found
from shared.query.answer.certainty import is_supported, may_answer, strengths_of
from shared.query.answer.quotes import Quote, candidates
from shared.query.answer.selection import of_answers, select, shortlist, turned

LEAD = "Quoted from the documents:"
UNCERTAIN_LEAD = "The documents may not answer this question. The nearest passages:"

_FLOOR = 0.3  # minimum cosine of the nearest quote


class ExtractiveAnswerer:
    """An `Answerer` that quotes sentences with citations, and marks its answers as quotations.

    Args:
        embedder: embeds the question, the passages' sentences and the headings above them, in one request.
        floor: lowest cosine of the question and the nearest quote at which the documents answer.
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
        """Quote the best sentences of the first passages; without passages no model is called and nothing is found.

        Raises:
            Transient: the provider is not available now.
            Refused: the provider refuses the question. A sentence that it refuses is not quoted.
        """
        shortlisted = shortlist(question, passages, self._unrelated)
        strengths = await asyncio.to_thread(strengths_of, question, passages, self._unrelated)
        if not shortlisted or not may_answer(strengths):
            return nothing_found(self.form)
        quotes = [each.quote for each in shortlisted]
        headings = list(dict.fromkeys(quote.heading for quote in quotes if quote.heading))
        prefixes = self._embedder.prefixes
        texts = prefixes.passages([*(quote.text for quote in quotes), *headings])
        asked, *vectors = await embed_each(self._embedder, [prefixes.query(question), *texts])
        if isinstance(asked, Permanent):
            raise asked
        of_quotes, of_headings = vectors[: len(quotes)], dict(zip(headings, vectors[len(quotes) :], strict=True))
        best = max(of_answers(quotes, cosines_of(asked, of_quotes)))
        if best < self._floor:
            return nothing_found(self.form)
        under = [
            turned(vector, of_headings.get(quote.heading)) for quote, vector in zip(quotes, of_quotes, strict=True)
        ]
        chosen = select(question, passages, shortlisted, of_answers(quotes, cosines_of(asked, under)))
        is_certain = is_supported({quote.number for quote in chosen}, strengths)
        return _answer(LEAD if is_certain else UNCERTAIN_LEAD, chosen, is_certain=is_certain)

    async def stream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | Answer]:
        """Yield the text line by line, then the complete `Answer`."""
        answer = await self.answer(question, passages)
        for line in answer.text.splitlines(keepends=True):
            yield line
        yield answer


def quoted_sentences(text: str, passages: Iterable[Passage]) -> tuple[Support, ...]:
    """Return the sentences of an answer of this module in the passages that it cites, in order of the passages.

    They are found by the answer's lines. Its words are not enough: a quoted row also has the words of its header.
    """
    lines = set(text.splitlines())
    ordered = sorted(passages, key=lambda passage: passage.number)
    return _support(quote for quote in candidates(ordered) if _line(quote) in lines)


def _answer(lead: str, quotes: Sequence[Quote], *, is_certain: bool) -> Answer:
    lines = [lead, "", *map(_line, quotes)]
    cited = dict.fromkeys(quote.number for quote in quotes)
    return Answer("\n".join(lines), tuple(cited), form="extractive", is_certain=is_certain, support=_support(quotes))


def _line(quote: Quote) -> str:
    return f"> {quote.text} [{quote.number}]"


def _support(quotes: Iterable[Quote]) -> tuple[Support, ...]:
    support = {each for quote in quotes for each in quote.supports}
    return tuple(sorted(support, key=lambda each: (each.number, each.start)))
