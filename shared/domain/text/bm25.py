"""BM25 as sparse vectors: term weights are computed here, inverse document frequencies in Qdrant (`modifier: idf`).

The weights follow Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with a fixed
average length, as in Qdrant's BM25 model.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from shared.domain.text.words import terms_of, variants_of, words_of

_K1 = 1.2
_B = 0.75
_AVERAGE_WORDS = 256
MOST_OF_A_TERM = _K1 + 1  # the weight of a term that a document repeats without end
_WEIGHT_IN_OTHER_LANGUAGES = 0.5


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Term ids in ascending order, and the weight of each."""

    indices: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class QueryVector(SparseVector):
    """The terms of a query in all languages of the collection; a text contains at most about `words` of them."""

    words: int


def document_vector(text: str, language: str | None = None) -> SparseVector:
    """Weight a document's terms by their frequency, saturating, less in long documents.

    Args:
        text: text of the document.
        language: language of the text in ISO 639-1; None if unknown.
    """
    counts = _counts(text, language)
    length = _K1 * (1 - _B + _B * sum(counts.values()) / _AVERAGE_WORDS)
    weights = {n: round(n * (_K1 + 1) / (n + length), 6) for n in set(counts.values())}
    terms = sorted(counts)
    return SparseVector(terms, [weights[counts[term]] for term in terms])


def query_vector(text: str, languages: Iterable[str] = ()) -> QueryVector:
    """Weight each term of a query, stemmed for each of these languages, and for texts of unknown language.

    The query's own language is probably the language with most of the query's words as stop words: these are ignored,
    even if they have a meaning in other languages, and stems of other languages count half. Otherwise texts with a
    wrongly detected language would rank first, because their terms are rare in the collection.
    """
    cuts = {language: words_of(text, language) for language in (None, *languages)}
    terms = {language: [terms_of(word, language) for word in words] for language, words in cuts.items()}
    unsaid = {language: sum(not of_word for of_word in of_words) for language, of_words in terms.items()}
    likely = max(unsaid, key=lambda language: unsaid[language])
    weights: dict[int, float] = {}
    for language, words in cuts.items():
        weight = 1.0 if unsaid[language] == unsaid[likely] else _WEIGHT_IN_OTHER_LANGUAGES
        for word, wanted in zip(words, terms[likely], strict=False):
            for term in variants_of(word, language) if wanted else ():
                weights[_id(term)] = max(weight, weights.get(_id(term), 0.0))
    own = {term for of_word in terms[likely] for term in of_word}
    ids = sorted(weights)
    return QueryVector(ids, [weights[term] for term in ids], words=len(own))


def _counts(text: str, language: str | None) -> dict[int, int]:
    """Return the count of each term by its id."""
    counts: dict[int, int] = {}
    for word, n in Counter(words_of(text, language)).items():
        for term in _ids_of(word, language):
            counts[term] = counts.get(term, 0) + n
    return counts


@lru_cache(maxsize=20_000)  # 8 MB; more words save no time, because most are rare
def _ids_of(word: str, language: str | None) -> tuple[int, ...]:
    return tuple(map(_id, terms_of(word, language)))


def _id(term: str) -> int:
    return zlib.crc32(term.encode())
