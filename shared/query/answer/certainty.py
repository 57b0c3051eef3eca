"""How far the retrieval of its passages supports an answer, whatever the form of the answer is.

    strength = similarity * (1/2 + coverage)
    similarity = 3/4 * text + 1/4 * max(text, question)

`text` and `question` are cosines of the user's question with a passage and with its nearest stored question, as the
embedding model computes them, so that no calibration changes a strength. Where two unrelated texts have a high cosine
with a model, its cosines are shifted. `coverage` is the share of the question's words that the passage or that stored
question contains. A word counts more if few of the best passages contain it, and most if none does: a passage about
Kubernetes does not explain Terraform. Neither is enough alone: a passage about the same subject is near, and
names of the subject occur in passages that do not answer. A language that the model does not know has high cosines with
all texts, but words only with some.

A strength is a number between 0 and 1.5. It depends on the words of the ten best passages, but neither on their number
beyond ten nor on the size of the collection. `docs/decisions/0032-certainty-by-retrieval.md` has the measurements.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import nlargest
from itertools import chain
from math import log1p

from shared.domain.corpus.collections import Baseline
from shared.domain.text.words import pieces_of, terms_of, variants_of, words_of
from shared.query.answer.answer import Passage
from shared.query.retrieve.chunks import Cosines

FOUND = 0.25
CERTAIN = 0.47

_MOST_PASSAGES = 10  # with the strongest of 10, results are those with the strongest of 3
_BY_TEXT = 0.75
_WITHOUT_WORDS = 0.5
# Cosines of unrelated questions and texts in languages that these models know.
_UNRELATED = {"all-minilm-l6-v2": 0.0, "multilingual-e5": 0.75}
_USUAL_BASELINE = 0.3  # of a collection with texts about one subject, under a model that needs no shift

Strengths = Mapping[int, float]
"""Strengths by the numbers of passages."""


def strengths_of(question: str, passages: Sequence[Passage], unrelated: float) -> Strengths:
    """Return the strength of each of the best passages that were retrieved for the question.

    Args:
        question: the question for which the passages were retrieved.
        passages: passages in any order. If only words were searched, they have no strength.
        unrelated: cosine of unrelated texts with the embedding model.
    """
    best = nlargest(_MOST_PASSAGES, passages, key=lambda passage: passage.score)
    return {
        passage.number: strength(similarity_of(passage, unrelated), coverage)
        for passage, coverage in zip(best, coverages_of(question, best), strict=True)
        if passage.cosines != Cosines()
    }


def may_answer(strengths: Strengths) -> bool:
    """Return whether a passage may answer the question; True if no strength is known."""
    return not strengths or max(strengths.values()) >= FOUND


def is_supported(cited: Collection[int], strengths: Strengths) -> bool:
    """Return whether an answer cites a passage that surely is about the question."""
    return any(strengths.get(number, 0.0) >= CERTAIN for number in cited)


def strength(similarity: float, coverage: float) -> float:
    """Return the strength of a passage with this similarity and coverage, each from 0 to 1."""
    return similarity * (_WITHOUT_WORDS + coverage)


def similarity_of(passage: Passage, unrelated: float) -> float:
    """Return the similarity of a passage to its question, from 0 to 1."""
    question, text = passage.cosines
    question = question or 0.0
    by_text = question if text is None else text  # texts were not searched
    mixed = _BY_TEXT * by_text + (1 - _BY_TEXT) * max(by_text, question)
    return max(0.0, (mixed - unrelated) / (1 - unrelated))


def coverages_of(question: str, passages: Sequence[Passage]) -> list[float]:
    """Return the share of a question's words, without stop words, that each passage contains, from 0 to 1.

    Words are stemmed in the language of the passage. In a script without spaces their pieces are counted. A word counts
    1 plus its inverse document frequency over the passages.
    """
    contained = [_terms_of(passage) for passage in passages]
    wanted = {
        language: _weighted(_variants_of(question, language), contained)
        for language in {passage.language for passage in passages}
    }
    return [_covered(terms, wanted[passage.language]) for terms, passage in zip(contained, passages, strict=True)]


_Variants = Sequence[str]
"""Terms of which a text contains one if it contains a word."""


def _terms_of(passage: Passage) -> set[str]:
    language = passage.language
    texts = (passage.title, *passage.heading_path, passage.question, passage.text)
    words = set(chain.from_iterable(words_of(text, language) for text in texts if text))
    return set(chain.from_iterable(terms_of(word, language) for word in words))


def _variants_of(question: str, language: str | None) -> list[_Variants]:
    asked = dict.fromkeys(chain.from_iterable(map(pieces_of, words_of(question, language))))
    return [variants for piece in asked if (variants := variants_of(piece, language))]


def _weighted(words: Sequence[_Variants], contained: Sequence[set[str]]) -> list[tuple[_Variants, float]]:
    counts = [sum(not terms.isdisjoint(variants) for terms in contained) for variants in words]
    of_all = len(contained)
    weights = [1 + log1p((of_all - count + 0.5) / (count + 0.5)) for count in counts]
    return list(zip(words, weights, strict=True))


def _covered(terms: set[str], wanted: Sequence[tuple[_Variants, float]]) -> float:
    covered = sum(weight for variants, weight in wanted if not terms.isdisjoint(variants))
    return covered / (sum(weight for _, weight in wanted) or 1.0)


def unrelated_cosine(model: str, baseline: Baseline | None = None) -> float:
    """Return the cosine of unrelated texts, of a model by the prefix of its name, or as a collection measured it.

    A collection's texts may share a subject, or a language that the model does not know. So the cosine of a known model
    counts, and of another one only a baseline that no subject explains: nothing below 0.3, and all of it from 0.6 on.
    """
    name = model.lower().rsplit("/", 1)[-1]
    cosine = baseline.similarity if baseline else 0.0
    measured = min(cosine, max(0.0, 2 * (cosine - _USUAL_BASELINE)))
    return next((known for prefix, known in _UNRELATED.items() if name.startswith(prefix)), measured)
