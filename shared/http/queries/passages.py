"""Retrieved chunks as passages for the model that answers, and as citations of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from shared.http.schemas.queries import Citation
from shared.query.answer import Passage
from shared.query.retrieve import RetrievedChunk


def passages_of(chunks: Sequence[RetrievedChunk]) -> list[Passage]:
    return [Passage.of(number, chunk) for number, chunk in enumerate(chunks, 1)]


def citation_of(number: int, chunk: RetrievedChunk, sentences: list[tuple[int, int]]) -> Citation:
    return Citation.of(chunk, number=number, sentences=sentences)


def address_of(chunk: RetrievedChunk, server: str) -> str:
    """Return the address of a source for readers.

    Each chunk has its own address, because clients distinguish sources by it.
    """
    given = chunk.metadata.get("url")
    if isinstance(given, str) and urlsplit(given).scheme in {"http", "https"}:
        return given if "#" in given else f"{given}#{chunk.chunk_id}"
    return f"{server}documents/{chunk.document_id}?chunk={chunk.chunk_id}"
