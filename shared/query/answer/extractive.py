"""Answers quoted from the passages: the sentences nearest to the question."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from shared.domain.corpus.collections import Baseline
from shared.domain.errors import Permanent
from shared.providers.embedding import Embedder, cosines_of, embed_each
from shared.query.answer.answer import Answer, Form, Passage, nothing_found
from shared.query.answer.quotes import Quote, candidates
from shared.query.retrieve.scores.scale import scale_of

LEAD = "Quoted from the documents:"
UNCERTAIN_LEAD = "The documents may not answer this question. The nearest passages:"
MAX_QUOTES = 3

_MARGIN = 0.12  # maximum difference of another sentence from the best
# Minimum similarity of the nearest sentence; below it the documents do not answer. MiniLM on 120 search-engine
# questions: at 0.4 it answers 96 %, 63 % if the passage with the answer is withheld but its neighbours are not, and 1 %
# from unrelated passages; at 0.5 82, 24 and 0 % (`bench.questions --answers`).
_FLOORS = {"all-minilm-l6-v2": 0.4}
_DEFAULT_FLOOR = 0.3
_UNCERTAIN = 0.1  # above the floor, on the scale of the baseline, an answer is uncertain: see the shares above
_FRAGMENT = 0.05  # a complete sentence is preferred to a fragment that is nearer by less
_FOLLOWING = 0.05  # the sentence after a question is at most this much farther from the user's question


class ExtractiveAnswerer:
    """An `Answerer` that quotes sentences with citations, and marks its answers as quotations.

    Args:
        embedder: embeds the question and the passages' sentences, in one request.
        floor: lowest cosine of the question and the nearest sentence at which the documents answer; None: the model's
            measured floor.
        baseline: cosines of unrelated texts in the collection, which decide whether an answer is certain.
    """

    def __init__(self, embedder: Embedder, floor: float | None = None, baseline: Baseline | None = None) -> None:
        self._embedder = embedder
        self._floor = answer_floor(embedder.name) if floor is None else floor
        self._certain = self._floor + _UNCERTAIN
        self._scale = scale_of(baseline or Baseline()) or float

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
        if not quotes:
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
        if self._scale(best) < self._certain:
            return _answer(UNCERTAIN_LEAD, _of_first_passages(quotes, ranked), is_certain=False)
        threshold = max(self._floor, best - _MARGIN)
        nearest = [index for index in ranked[:MAX_QUOTES] if similarities[index] >= threshold]
        return _answer(LEAD, [quotes[index] for index in sorted(nearest)])

    async def stream(self, question: str, passages: Sequence[Passage]) -> AsyncIterator[str | Answer]:
        """Yield the text line by line, then the complete `Answer`."""
        answer = await self.answer(question, passages)
        for line in answer.text.splitlines(keepends=True):
            yield line
        yield answer


def answer_floor(model_name: str) -> float:
    """Return the measured floor of a model, by the prefix of its name."""
    name = model_name.lower().rsplit("/", 1)[-1]
    return next((floor for prefix, floor in _FLOORS.items() if name.startswith(prefix)), _DEFAULT_FLOOR)


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
