"""The sentences of the cited passages that support a generated answer, found by their words: no model is called.

The statement of a citation is the sentence before it, without earlier citations. Of the passage, the sentence that has
most of the statement's words supports it, and then any sentence that has further words of it. Words in few sentences,
such as names and numbers, count more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from math import log1p

from shared.domain.text.bm25 import document_vector
from shared.domain.text.sentences import Sentence, has_final_mark, sentences
from shared.query.answer.answer import Passage, Support

_CITATIONS = re.compile(r"(?<!\s)(?>(?:\s*+\[\d{1,3}\])+)")
_NUMBER = re.compile(r"\d+")
_LEAST_TERMS = 3  # of a statement; a shorter one, such as "According to [1]", continues after the citation
_LEAST_SHARE = 0.25  # of the weight of the statement's words, for the best sentence
_FURTHER_SHARE = 0.3  # of that weight, for another sentence, in words that better sentences do not have
_MOST_SENTENCES = 3  # per citation
_MOST_STATEMENTS = 200  # of an answer; a model that repeats itself writes thousands
_COMPARED = 1_000  # sentences of all cited passages together: a few milliseconds

_Terms = frozenset[int]


def supporting(text: str, passages: Sequence[Passage]) -> tuple[Support, ...]:
    """Return the sentences that support an answer, in order of their passages.

    A citation that shares no words with its passage has no supporting sentences: the answer may be in another language.

    Args:
        text: the answer, with citations of existing passages only.
        passages: passages in any order.
    """
    statements: dict[int, list[str]] = {}
    for number, statement in islice(dict.fromkeys(_statements(text)), _MOST_STATEMENTS):
        statements.setdefault(number, []).append(statement)
    cited = [passage for passage in passages if passage.number in statements]
    found: list[Support] = []
    for passage in cited:
        spans = list(islice(_spans(passage.text), _COMPARED // len(cited)))
        terms = [_terms(passage.text[span.start : span.end], passage.language) for span in spans]
        frequencies = Counter(term for of_sentence in terms for term in of_sentence)
        chosen = {
            index
            for statement in statements[passage.number]
            for index in _chosen(_terms(statement, passage.language), terms, frequencies)
        }
        found += (Support(passage.number, spans[index].start, spans[index].end) for index in sorted(chosen))
    return tuple(found)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each cited number with its statement."""
    groups = [*_CITATIONS.finditer(text)]
    start, statement = 0, ""
    for group, following in zip_longest(groups, groups[1:]):
        before = _last_sentence(text[start : group.start()])
        if not has_final_mark(before) and len(_terms(before, None)) < _LEAST_TERMS and (before or not statement):
            after = text[group.end() : following.start() if following else len(text)]
            before = f"{before} {_first_sentence(after)}"
        statement = before or statement
        for number in _NUMBER.findall(group[0]):
            yield int(number), statement
        start = group.end()


def _last_sentence(text: str) -> str:
    spans = [span for span in sentences(text) if re.search(r"\w", text[span.start : span.end])]
    return text[spans[-1].start : spans[-1].end] if spans else ""


def _first_sentence(text: str) -> str:
    span = next(sentences(text), None)
    return text[span.start : span.end] if span else ""


def _spans(text: str) -> Iterator[Sentence]:
    return (span for span in sentences(text) if span.kind != "heading")


def _terms(text: str, language: str | None) -> _Terms:
    return frozenset(document_vector(text, language).indices)


def _chosen(statement: _Terms, of_sentences: Sequence[_Terms], frequencies: Mapping[int, int]) -> list[int]:
    """Return the sentences that support a statement: the best one first, then those with more of its words."""
    weights = {term: log1p(len(of_sentences) / (frequencies.get(term) or 1)) for term in statement}
    total, uncovered, chosen = sum(weights.values()), set(statement), list[int]()
    while uncovered and of_sentences and len(chosen) < _MOST_SENTENCES:
        gains = [sum(weights[term] for term in uncovered & terms) for terms in of_sentences]
        best = max(range(len(gains)), key=gains.__getitem__)
        if gains[best] < (_FURTHER_SHARE if chosen else _LEAST_SHARE) * total:
            break
        chosen.append(best)
        uncovered -= of_sentences[best]
    return chosen
