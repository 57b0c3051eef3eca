"""The choice of the quotes of an answer.

The worth of a quote is the sum of

- its nearness: the cosine of the question and the quote, whose vector is turned towards the vector of the heading above
  it, because a sentence rarely repeats its subject,
- its words: the share of the question's words that the quote or its heading has, by rarity,
- the score of its passage, relative to the best passage, and
- its origin, if a stored question matched: the sentence with most words of that question is probably the one from which
  it was written, and counts the square of the cosine of both questions.

Each has a measurable effect, and small changes of their weights have none: `python -m bench quotes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import log1p

from shared.domain.errors import Permanent
from shared.domain.text.bm25 import document_vector, query_vector
from shared.domain.text.words import stop_word_share
from shared.domain.vectors import Vectors
from shared.query.answer.answer import Passage
from shared.query.answer.quotes import Quote, candidates

MAX_SENTENCES = 24  # that are embedded for an answer; with 48 the quotes are the same, for twice the time
MAX_QUOTES = 3

_HEADING = (
    0.25  # length of the heading's vector that is added to the quote's; with 1, quotes of a section differ little
)
_WORDS = 0.3
_PASSAGE = 0.3
_ORIGIN = 0.2
_MARGIN = 0.12  # maximum difference of another quote's worth from the best
_FRAGMENT = 0.05  # a complete sentence is preferred to a fragment that is worth more by less
_FOLLOWING = 0.05  # the sentence after a question is at most this much farther from the user's question


@dataclass(frozen=True, slots=True)
class Candidate:
    """A quote with its worth by words and passage, without its nearness."""

    quote: Quote
    worth: float


def shortlist(question: str, passages: Sequence[Passage], unrelated: float = 0.0) -> list[Candidate]:
    """Return the quotes that are worth embedding, in order of their passages.

    Args:
        question: the question.
        passages: the passages to quote.
        unrelated: cosine of unrelated texts with the embedding model.
    """
    quotes = candidates(passages)
    best = max((passage.score for passage in passages), default=0.0) or 1.0
    of_passages = {passage.number: _PASSAGE * passage.score / best for passage in passages}
    languages = {passage.number: passage.language for passage in passages}
    terms = [_terms(quote, languages[quote.number]) for quote in quotes]
    shares = _shares(question, terms, languages.values())
    origins = _origins(quotes, terms, passages, unrelated)
    worth = [
        _WORDS * share + of_passages[quote.number] + _ORIGIN * origins.get(index, 0.0)
        for index, (quote, share) in enumerate(zip(quotes, shares, strict=True))
    ]
    first = sorted(range(len(quotes)), key=lambda index: -worth[index])[:MAX_SENTENCES]
    return [Candidate(quotes[index], worth[index]) for index in sorted(first)]


def shares_of_words(question: str, quotes: Sequence[Quote], languages: Mapping[int, str | None]) -> list[float]:
    """Return for each quote the share of the question's words that it or its heading has, from 0 to 1.

    Words are stemmed, and count by their inverse document frequency over the quotes. Words that no quote has are
    ignored.

    Args:
        question: the question.
        quotes: the quotes.
        languages: language of each passage by its number.
    """
    return _shares(question, [_terms(quote, languages[quote.number]) for quote in quotes], languages.values())


def _shares(question: str, terms: Sequence[Collection[int]], languages: Iterable[str | None]) -> list[float]:
    wanted = set(query_vector(question, sorted(filter(None, set(languages)))).indices)
    found = [wanted.intersection(each) for each in terms]
    counts = Counter(chain.from_iterable(found))
    weights = {term: log1p((len(terms) - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    total = sum(weights.values()) or 1.0
    return [sum(weights[term] for term in each) / total for each in found]


def _origins(
    quotes: Sequence[Quote], terms: Sequence[Collection[int]], passages: Sequence[Passage], unrelated: float
) -> dict[int, float]:
    """Return how much the sentences with most words of their passage's stored question count, by their index.

    Sentences with equally many words share the count.
    """
    of_passages: dict[int, list[int]] = {}
    for index, quote in enumerate(quotes):
        of_passages.setdefault(quote.number, []).append(index)
    counts: dict[int, float] = {}
    for passage in passages:
        cosine = ((passage.cosines.question or 0.0) - unrelated) / (1 - unrelated)
        if passage.question is None or cosine <= 0:
            continue
        own = of_passages.get(passage.number, [])
        shares = _shares(passage.question, [terms[index] for index in own], [passage.language])
        most = max(shares, default=0.0)
        nearest = [index for index, share in zip(own, shares, strict=True) if share == most > 0]
        counts |= dict.fromkeys(nearest, cosine**2 / max(1, len(nearest)))
    return counts


def turned(vector: Vectors | Permanent, heading: Vectors | Permanent | None) -> Vectors | Permanent:
    """Return the unit vector of a quote under a heading; the quote's own vector if the heading has none."""
    if heading is None or isinstance(vector, Permanent) or isinstance(heading, Permanent):
        return vector
    both: Vectors = vector + _HEADING * heading
    both /= float(both @ both) ** 0.5
    return both


def of_answers(quotes: Sequence[Quote], similarities: Sequence[float]) -> list[float]:
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


def select(
    question: str, passages: Sequence[Passage], shortlisted: Sequence[Candidate], nearness: Sequence[float]
) -> list[Quote]:
    """Return the quotes of an answer, the worthiest first.

    They are at most three, and none is worth much less than the first, or in another language than it and the question.

    Args:
        question: the question.
        passages: the passages of the quotes.
        shortlisted: quotes, at least one of them not a question.
        nearness: cosine of the question and each quote.
    """
    worth = [each.worth + near for each, near in zip(shortlisted, nearness, strict=True)]
    ranked = ranked_by([each.quote for each in shortlisted], worth)
    quotes = [shortlisted[index].quote for index in ranked if worth[index] >= worth[ranked[0]] - _MARGIN]
    language_of = {passage.number: passage.language for passage in passages}
    first = language_of[quotes[0].number]
    understood = {None, first, *_spoken(question, {language for language in language_of.values() if language})}
    return [quote for quote in quotes if first is None or language_of[quote.number] in understood][:MAX_QUOTES]


def ranked_by(quotes: Sequence[Quote], worth: Sequence[float]) -> list[int]:
    """Return the indexes of the quotes without questions, the worthiest first."""
    reduced = [each - (0 if quote.is_complete else _FRAGMENT) for quote, each in zip(quotes, worth, strict=True)]
    answering = (index for index, quote in enumerate(quotes) if not quote.is_question)
    return sorted(answering, key=lambda index: -reduced[index])


def _terms(quote: Quote, language: str | None) -> list[int]:
    return document_vector(f"{quote.heading} {quote.text}", language).indices


def _spoken(question: str, languages: Collection[str]) -> list[str]:
    """Return the languages with most of the question's words as stop words; none if it has no such word."""
    shares = {language: stop_word_share(question, language) for language in languages}
    most = max(shares.values(), default=0.0)
    return [language for language, share in shares.items() if share == most > 0]
