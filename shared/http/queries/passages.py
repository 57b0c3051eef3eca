"""Retrieved chunks as passages for the model that answers, and as citations of its answer."""

from __future__ import annotations

from collections.abc import Sequence

from shared.http.schemas.queries import Citation
from shared.query.answer import Passage
from shared.query.retrieve import RetrievedChunk


def passages_of(chunks: Sequence[RetrievedChunk]) -> list[Passage]:
    return [Passage.of(number, chunk) for number, chunk in enumerate(chunks, 1)]


def citation_of(number: int, chunk: RetrievedChunk, sentences: list[tuple[int, int]]) -> Citation:
    return Citation.of(chunk, number=number, sentences=sentences)
