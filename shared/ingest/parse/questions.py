"""Ready-made questions, given with a document, to the chunks that they ask about."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import log

from shared.domain.chunks import ChunkContent
from shared.domain.records import ReadyQuestion

_WORD = re.compile(r"\w+")


def assign(questions: Iterable[ReadyQuestion], chunks: Sequence[ChunkContent]) -> list[list[ReadyQuestion]]:
    """The questions of each chunk; row i belongs to `chunks[i]`.

    A question goes to the chunk that contains its quote, white space and case aside. One without a quote, or whose
    quote stands in no chunk, goes to the chunk that shares the most of its rare words and of its quote's: each word
    counts by its inverse document frequency over the chunks, headings included. The first chunk wins a tie.
    """
    assigned: list[list[ReadyQuestion]] = [[] for _ in chunks]
    if not chunks:
        return assigned
    texts = [_plain(chunk.text) for chunk in chunks]
    holders = _holders(chunks)
    for question in questions:
        index = _containing(question.quote, texts)
        if index is None:
            index = _nearest(f"{question.text} {question.quote or ''}", holders, len(chunks))
        assigned[index].append(question)
    return assigned


def _containing(quote: str | None, texts: Sequence[str]) -> int | None:
    wanted = _plain(quote or "")
    return next((index for index, text in enumerate(texts) if wanted in text), None) if wanted else None


def _nearest(words: str, holders: dict[str, list[int]], count: int) -> int:
    scores: dict[int, float] = defaultdict(float)
    for word in sorted(set(_words(words))):
        if found := holders.get(word):
            rarity = log(1 + count / len(found))
            for index in found:
                scores[index] += rarity
    return min(scores, key=lambda index: (-scores[index], index), default=0)


def _holders(chunks: Sequence[ChunkContent]) -> dict[str, list[int]]:
    """For each word, the chunks that have it."""
    holders: dict[str, list[int]] = defaultdict(list)
    for index, chunk in enumerate(chunks):
        for word in set(_words(" ".join((*chunk.heading_path, chunk.text)))):
            holders[word].append(index)
    return holders


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
