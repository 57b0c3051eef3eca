"""The choice of the quotes of an answer.

The worth of a quote is the sum of

- its nearness: the cosine of the question and the quote, whose vector is turned towards the vector of the heading above
  it, because a sentence rarely repeats its subject,
- its words: the share of the question's words that the quote or its heading has, by rarity, and
- the score of its passage, relative to the best passage.

Each of the three has a measurable effect, and small changes of their weights have none: `python -m bench quotes`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log1p

from shared.domain.errors import Permanent
from shared.domain.text.bm25 import document_vector, query_vector
from shared.domain.text.words import stop_word_share
from shared.domain.vectors import Vectors
from shared.query.answer.answer import Passage
from shared.query.answer.quotes import Quote, candidates

MAX_SENTENCES = 48  # that are embedded for an answer; with 96 the quotes are the same, for 0.12 s of CPU more
MAX_QUOTES = 3

_HEADING = (
    0.25  # length of the heading's vector that is added to the quote's; with 1, quotes of a section differ little
)
_WORDS = 0.3
_PASSAGE = 0.3
_MARGIN = 0.12  # maximum difference of another quote's worth from the best
_FRAGMENT = 0.05  # a complete sentence is preferred to a fragment that is worth more by less
_FOLLOWING = 0.05  # the sentence after a question is at most this much farther from the user's question


@dataclass(frozen=True, slots=True)
class Candidate:
    """A quote with its worth by words and passage, without its nearness."""

    quote: Quote
    worth: float


def shortlist(question: str, passages: Sequence[Passage]) -> list[Candidate]:
    """Return the quotes that are worth embedding, in order of their passages."""
    quotes = candidates(passages)
    best = max((passage.score for passage in passages), default=0.0) or 1.0
    of_passages = {passage.number: _PASSAGE * passage.score / best for passage in passages}
    shares = shares_of_words(question, quotes, {passage.number: passage.language for passage in passages})
    worth = [_WORDS * share + of_passages[quote.number] for quote, share in zip(quotes, shares, strict=True)]
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
    wanted = set(query_vector(question, sorted(filter(None, set(languages.values())))).indices)
    found = [wanted.intersection(_terms(quote, languages[quote.number])) for quote in quotes]
    counts = Counter(term for terms in found for term in terms)
    weights = {term: log1p((len(quotes) - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    total = sum(weights.values()) or 1.0
    return [sum(weights[term] for term in terms) / total for terms in found]


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
