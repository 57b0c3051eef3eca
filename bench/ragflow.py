"""RAGFlow's search of chunks with generated questions, reduced to the steps that determine the order.

Written after reading the public source of infiniflow/ragflow: `rag/nlp/query.py` (commit 6591783), `rag/nlp/search.py`
(002fa17), `common/query_base.py` (168f1b8), `rag/utils/es_conn.py` (011bfe9) and, in
`rag/svr/task_executor_refactor`, `embedding_utils.py` (2f1e430). With the defaults for Elasticsearch:

1. A chunk has one vector: 0.9 of the vector of its questions, joined as one text, and 0.1 of its title's vector.
2. The first 70 chunks are those with the highest sum of 0.05 · BM25 and (1 + cosine) / 2. The second part is 0 if the
   cosine is below 0.2. A chunk must share a word with the question. Each word counts in the field in which it scores
   most; titles count tenfold, questions twentyfold and texts twofold.
3. They are ordered by 0.7 · share + 0.3 · cosine. The share is the weight of the question's words, and of its pairs of
   adjacent words, that the chunk contains. Numbers weigh five times as much as words. Chunks below 0.2 are dropped.

Simplified: words are cut and stemmed as in foreask, without stop words, in one language for the set. Synonyms, named
entities, and phrases in step 2 are left out. The title stands for the file's name.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bench.calibration import Scores
from bench.combinations import first
from shared.domain.text.words import terms_of, words_of
from shared.domain.vectors import Vectors

TITLE_SHARE = 0.1  # of a vector
_TITLE, _QUESTIONS, _TEXT = 10.0, 20.0, 2.0
_CANDIDATES = 70  # the multiple of a page of ten hits that is at least 64
_WORDS_FIRST = 0.05
_WORDS, _COSINE = 0.7, 0.3
_LEAST = 0.2
_ONE, _PAIR = 0.4, 0.6
_NUMBER, _SHORT = 5.2, 0.01  # weights relative to other words
_K1, _B = 1.2, 0.75


@dataclass(frozen=True)
class Chunk:
    title: str
    text: str
    questions: Sequence[str]


class Ragflow:
    """Chunks in memory.

    Args:
        chunks: the chunks.
        vectors: one vector for each chunk, shape `(chunks, dimensions)`, of any length.
        language: language of all words in ISO 639-1, or None.
    """

    def __init__(self, chunks: Sequence[Chunk], vectors: Vectors, language: str | None) -> None:
        self._language = language
        self._vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        titles, texts, questions = (
            [self._cut(text) for text in of_chunks]
            for of_chunks in (
                [chunk.title for chunk in chunks],
                [chunk.text for chunk in chunks],
                ["\n".join(chunk.questions) for chunk in chunks],
            )
        )
        self._fields = [Field(titles, _TITLE), Field(texts, _TEXT), Field(questions, _QUESTIONS)]
        self._contained = [
            contained([*dict.fromkeys(text), *title * 2, *asked * 6])
            for title, text, asked in zip(titles, texts, questions, strict=True)
        ]

    @property
    def terms(self) -> int:
        """The number of stored pairs of a term and a field of a chunk."""
        return sum(field.terms for field in self._fields)

    def scores(self, query: str, vector: Vectors) -> Scores:
        """Return the scores of a question with this vector, of shape `(dimensions,)`."""
        terms, cosines = self._cut(query), self._vectors @ vector
        candidates = first(first_scores(self._words(terms), cosines), _CANDIDATES)
        wanted = weighted_terms(terms)
        shares = [
            term_share(wanted, having) if np.isfinite(score) else -np.inf
            for score, having in zip(candidates, self._contained, strict=True)
        ]
        return last_scores(np.array(shares), cosines)

    def _words(self, terms: Sequence[str]) -> Scores:
        weights = [term_weight(term) for term in terms]
        total = sum(weights) or 1.0
        scores = np.zeros(len(self._vectors))
        for term, weight in zip(terms, weights, strict=True):
            scores += weight / total * np.max([field.scores(term) for field in self._fields], axis=0)
        return np.where(scores > 0, scores, -np.inf)

    def _cut(self, text: str) -> list[str]:
        return [term for word in words_of(text, self._language) for term in terms_of(word, self._language)]


class Field:
    """A field of all chunks, which BM25 searches.

    Args:
        texts: terms of the field, per chunk.
        boost: factor of all scores.
    """

    def __init__(self, texts: Sequence[Sequence[str]], boost: float) -> None:
        self._nothing = np.zeros(len(texts))
        counts = [Counter(terms) for terms in texts]
        lengths = np.array([len(terms) for terms in texts], dtype=float)
        longer = _K1 * (1 - _B + _B * lengths / max(1.0, float(lengths.mean())))
        having: dict[str, list[int]] = defaultdict(list)
        for index, of_chunk in enumerate(counts):
            for term in of_chunk:
                having[term].append(index)
        self._scores: dict[str, Scores] = {}
        for term, indexes in having.items():
            rarity = np.log(1 + (len(texts) - len(indexes) + 0.5) / (len(indexes) + 0.5))
            times = np.array([counts[index][term] for index in indexes], dtype=float)
            self._scores[term] = np.zeros(len(texts))
            self._scores[term][indexes] = boost * rarity * times / (times + longer[indexes])
        self.terms = sum(map(len, having.values()))

    def scores(self, term: str) -> Scores:
        """Return the scores of the chunks, shape `(chunks,)`, 0 without the term."""
        return self._scores.get(term, self._nothing)


def term_weight(term: str) -> float:
    if re.fullmatch(r"[\d.,]{2,}", term):
        return _NUMBER
    return _SHORT if re.fullmatch(r"[a-z]{1,2}", term) else 1.0


def weighted_terms(terms: Sequence[str]) -> dict[str, float]:
    """Return the weights of a question's terms and of its pairs of adjacent terms."""
    weights: dict[str, float] = defaultdict(float)
    for term in terms:
        weights[term] += _ONE * term_weight(term)
    for one, next_one in pairwise(terms):
        weights[f"{one} {next_one}"] += _PAIR * max(term_weight(one), term_weight(next_one))
    return dict(weights)


def contained(terms: Sequence[str]) -> set[str]:
    """Return the terms of a chunk and its pairs of adjacent terms."""
    return {*terms, *(f"{one} {next_one}" for one, next_one in pairwise(terms))}


def term_share(wanted: Mapping[str, float], having: AbstractSet[str]) -> float:
    """Return the share of the weights of a question's terms that a chunk contains."""
    return sum(weight for term, weight in wanted.items() if term in having) / (sum(wanted.values()) or 1.0)


def first_scores(words: Scores, cosines: Scores) -> Scores:
    """Return the scores of step 2; a chunk without a common word (-inf) is not found."""
    return _WORDS_FIRST * words + np.where(cosines >= _LEAST, (1 + cosines) / 2, 0.0)


def last_scores(shares: Scores, cosines: Scores) -> Scores:
    """Return the scores of step 3; a chunk that step 2 has not found has the share -inf."""
    scores = _WORDS * shares + _COSINE * cosines
    return np.where(scores >= _LEAST, scores, -np.inf)
