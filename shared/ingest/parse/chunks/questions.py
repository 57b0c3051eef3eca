"""Assignment of ready-made questions, which were submitted with a document, to the chunks that answer them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import log

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.documents import ReadyQuestion
from shared.domain.text.words import WORD, terms_of


def assign(questions: Sequence[ReadyQuestion], chunks: Sequence[ChunkContent]) -> list[int]:
    """Return the index in `chunks` of each question's chunk, in order; empty if there are no chunks.

    A question belongs to the chunk that contains its quote, ignoring white space and case. A question without a quote,
    or whose quote is in no chunk, belongs to the chunk that shares most of the rare words of question and quote: each
    word counts by its inverse document frequency over the chunks, including headings. The first chunk wins a tie.
    """
    if not chunks or not questions:
        return []
    texts = [_plain(chunk.text) for chunk in chunks]
    holders = _holders(chunks)
    indexes = []
    for question in questions:
        index = _containing(question.quote, texts, holders)
        if index is None:
            index = _nearest(f"{question.text} {question.quote or ''}", holders, len(chunks))
        indexes.append(index)
    return indexes


def _containing(quote: str | None, texts: Sequence[str], holders: Mapping[str, Sequence[int]]) -> int | None:
    """Return the first chunk that contains the quote, among those with its rarest complete word.

    The first and the last word of a quote may be parts of words.
    """
    text = _plain(quote or "")
    if not text:
        return None
    among: Sequence[int] = range(len(texts))
    for word in _words(text)[1:-1]:
        among = min(among, holders.get(word, ()), key=len)
    return next((index for index in among if text in texts[index]), None)


def _nearest(words: str, holders: Mapping[str, Sequence[int]], count: int) -> int:
    scores: dict[int, float] = defaultdict(float)
    for word in sorted(set(_words(words))):
        if found := holders.get(word):
            rarity = log(1 + count / len(found))
            for index in found:
                scores[index] += rarity
    return min(scores, key=lambda index: (-scores[index], index), default=0)


def _holders(chunks: Sequence[ChunkContent]) -> dict[str, list[int]]:
    """Return the chunks that contain each word."""
    holders: dict[str, list[int]] = defaultdict(list)
    for index, chunk in enumerate(chunks):
        for word in set(_words(" ".join((*chunk.heading_path, chunk.text)))):
            holders[word].append(index)
    return holders


def _words(text: str) -> list[str]:
    return [term for word in WORD.findall(text.casefold()) for term in terms_of(word, None)]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
