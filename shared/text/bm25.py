"""BM25 as sparse vectors: the document's side here, the inverse document frequency in Qdrant (`modifier: idf`).

The weights are those of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), with a
fixed average length, as in Qdrant's BM25 model.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import snowballstemmer

_K1 = 1.2
_B = 0.75
_AVERAGE_WORDS = 256
MOST_OF_A_TERM = _K1 + 1  # the weight of a term that a document repeats without end
_WORD = re.compile(r"\w+")
_MAX_WORD_CHARS = 40  # longer words are encodings and separators
_STOPWORDS = frozenset(
    """
    a an and are as at be been but by can did do does for from had has have how i if in into is it its may more no
    not of on or our she he so such than that the their them then there these they this to was we were what when
    where which who whom whose why will with would you your
    """.split()  # noqa: SIM905  a list of 76 quoted words is not easier to read
)
_stem = lru_cache(maxsize=100_000)(snowballstemmer.stemmer("english").stemWord)


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Term ids in ascending order, and the weight of each."""

    indices: list[int]
    values: list[float]


def document_vector(text: str) -> SparseVector:
    """Weigh a document's terms by how often they occur, saturating, less in long documents."""
    counts = _counts(text)
    length = _K1 * (1 - _B + _B * sum(counts.values()) / _AVERAGE_WORDS)
    weights = {n: round(n * (_K1 + 1) / (n + length), 6) for n in set(counts.values())}
    return _vector({term: weights[n] for term, n in counts.items()})


def query_vector(text: str) -> SparseVector:
    """Weigh each term of a query once."""
    return _vector(dict.fromkeys(_counts(text), 1.0))


def _counts(text: str) -> dict[int, int]:
    """How often each term occurs; every word is looked up once, however often it occurs."""
    counts: dict[int, int] = {}
    for word, n in Counter(_WORD.findall(text.lower())).items():
        if (term := _term(word)) is not None:
            counts[term] = counts.get(term, 0) + n
    return counts


@lru_cache(maxsize=200_000)
def _term(word: str) -> int | None:
    if word in _STOPWORDS or len(word) > _MAX_WORD_CHARS:
        return None
    folded = "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))
    return zlib.crc32(_stem(folded or word).encode())


def _vector(weights: dict[int, float]) -> SparseVector:
    terms = sorted(weights)
    return SparseVector(terms, [weights[term] for term in terms])
