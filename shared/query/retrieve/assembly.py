"""Assembly of units to a context without duplicate sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from shared.providers.tokens import TokenCounter
from shared.query.retrieve.chunks import RetrievedChunk
from shared.query.retrieve.query import ReturnOrder


@dataclass(slots=True)
class DistinctChunks:
    """Chunks with distinct texts, best first; duplicates are recorded in the first chunk with their text."""

    limit: int
    duplicates: int = 0
    _chunks: list[RetrievedChunk] = field(default_factory=list)
    _positions: dict[str, int] = field(default_factory=dict)

    def add(self, chunks: Iterable[RetrievedChunk]) -> None:
        for chunk in chunks:
            text = " ".join(chunk.text.split())
            position = self._positions.get(text)
            if position is None:
                self._positions[text] = len(self._chunks)
                self._chunks.append(chunk)
            elif not _same_span(self._chunks[position], chunk):
                self.duplicates += 1
                first = self._chunks[position]
                if chunk.external_id not in {first.external_id, *first.also_in}:
                    self._chunks[position] = replace(first, also_in=(*first.also_in, chunk.external_id))

    @property
    def full(self) -> bool:
        return len(self._chunks) >= self.limit

    @property
    def chunks(self) -> list[RetrievedChunk]:
        return self._chunks[: self.limit]


def _same_span(one: RetrievedChunk, other: RetrievedChunk) -> bool:
    return (one.document_id, one.version, one.span) == (other.document_id, other.version, other.span)


def without_overlaps(chunks: Iterable[RetrievedChunk]) -> list[RetrievedChunk]:
    """Remove text at a chunk's ends that a better chunk of the same document contains; drop empty chunks."""
    taken: dict[tuple[str, int], list[tuple[int, int]]] = {}
    uncovered = []
    for chunk in chunks:
        spans = taken.setdefault((chunk.document_id, chunk.version), [])
        start, end = chunk.span
        for other_start, other_end in sorted(spans):
            if other_start <= start < other_end:
                start = other_end
        for other_start, other_end in sorted(spans, reverse=True):
            if other_start < end <= other_end:
                end = other_start
        if cut := _cut(chunk, start, end):
            spans.append(cut.span)
            uncovered.append(cut)
    return uncovered


def _cut(chunk: RetrievedChunk, start: int, end: int) -> RetrievedChunk | None:
    if (start, end) == chunk.span:
        return chunk
    body = chunk.body[max(0, start - chunk.span[0]) : max(0, end - chunk.span[0])]
    text = body.strip()
    if not text:
        return None
    start += len(body) - len(body.lstrip())
    return replace(chunk, content=chunk.content.with_text(text, (start, start + len(text))))


def within_budget(chunks: Sequence[RetrievedChunk], tokens: TokenCounter, max_tokens: int) -> list[RetrievedChunk]:
    """Take chunks in order while they fit; skip a chunk that is too large, because later chunks may fit."""
    counts = tokens.count([chunk.text for chunk in chunks])
    taken, left = [], max_tokens
    for chunk, count in zip(chunks, counts, strict=True):
        if count <= left:
            taken.append(replace(chunk, tokens=count))
            left -= count
    return taken


def ordered(chunks: Sequence[RetrievedChunk], order: ReturnOrder) -> list[RetrievedChunk]:
    """Order by score, or by section: chunks under the same headings together, as in their document.

    Sections have the order of their best chunks.
    """
    if order == "score":
        return list(chunks)
    groups: dict[tuple[str, tuple[str, ...]], list[RetrievedChunk]] = {}
    for chunk in chunks:
        groups.setdefault((chunk.document_id, chunk.content.heading_path), []).append(chunk)
    return [chunk for group in groups.values() for chunk in sorted(group, key=lambda chunk: chunk.span)]
