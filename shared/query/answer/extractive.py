"""Answers quoted from the passages: the sentences nearest to the question."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import islice

from shared.domain.text.sentences import sentences
from shared.providers.embedding import Embedder
from shared.query.answer.answer import Answer, Form, Passage, nothing_found

LEAD = "Quoted from the documents:"
MAX_SENTENCES = 96
MAX_QUOTES = 3

_PASSAGES = 8
_MARGIN = 0.12  # maximum difference of another sentence from the best
# Minimum similarity of the nearest sentence; below it the documents do not answer. MiniLM on 120 search-engine
# questions: at 0.4 it answers 96 %, 63 % if the passage with the answer is withheld but its neighbours are not, and 1 %
# from unrelated passages; at 0.5 82, 24 and 0 % (`bench.questions --answers`).
_FLOORS = {"all-minilm-l6-v2": 0.4}
_DEFAULT_FLOOR = 0.3
_CITATION_LIKE = re.compile(r"\s*\[\d{1,3}\]")
_CONTENT = re.compile(r"\w{2}")


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of a passage."""

    number: int  # of its passage
    position: int  # among all candidates
    text: str


class ExtractiveAnswerer:
    """An `Answerer` that quotes sentences with citations, and marks its answers as quotations.

    Args:
        embedder: embeds the question and the passages' sentences, in one request.
        floor: lowest cosine of the question and the nearest sentence at which the documents answer; None: the model's
            measured floor.
    """

    def __init__(self, embedder: Embedder, floor: float | None = None) -> None:
        self._embedder = embedder
        self._floor = answer_floor(embedder.name) if floor is None else floor

    @property
    def form(self) -> Form:
        return "extractive"

    async def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        """Quote the nearest sentences of the first passages; without passages no model is called and nothing is found.

        Raises:
            Transient: the provider is not available now.
            Refused: the provider refuses one of the texts.
        """
        quotes = candidates(passages)
        if not quotes:
            return nothing_found(self.form)
        prefixes = self._embedder.prefixes
        texts = [prefixes.query(question), *prefixes.passages(quote.text for quote in quotes)]
        vectors = await self._embedder.embed(texts)
        chosen = _nearest((vectors[1:] @ vectors[0]).tolist(), self._floor)
        return _answer([quotes[index] for index in chosen]) if chosen else nothing_found(self.form)

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


def candidates(passages: Sequence[Passage]) -> list[Quote]:
    """Return the sentences of the first passages, the best passages first, each once."""
    quotes: dict[str, Quote] = {}
    share = MAX_SENTENCES // max(1, min(len(passages), _PASSAGES))
    for passage in passages[:_PASSAGES]:
        spans = (span for span in sentences(passage.text) if span.kind != "heading")
        for span in islice(spans, share):
            text = _CITATION_LIKE.sub("", " ".join(passage.text[span.start : span.end].split()))
            if _CONTENT.search(text):
                quotes.setdefault(text, Quote(passage.number, len(quotes), text))
    return list(quotes.values())


def _nearest(similarities: Sequence[float], floor: float) -> list[int]:
    """Return the best sentence and nearly equal ones in the order of the text; none if the best is below the floor."""
    ranked = sorted(range(len(similarities)), key=lambda index: -similarities[index])
    threshold = max(floor, similarities[ranked[0]] - _MARGIN)
    return sorted(index for index in ranked[:MAX_QUOTES] if similarities[index] >= threshold)


def _answer(quotes: Sequence[Quote]) -> Answer:
    lines = [LEAD, "", *(f"> {quote.text} [{quote.number}]" for quote in quotes)]
    cited = dict.fromkeys(quote.number for quote in quotes)
    return Answer("\n".join(lines), tuple(cited), form="extractive")
