"""Returned units: small chunks are found more precisely, but larger units are easier to read.

- `section`: the section that the chunk is a part of, if its collection is divided into sections (small-to-big).
- `sentences`: the chunk's sentence that is nearest to the question, and the adjacent sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.domain.corpus.index_location import IndexLocation
from shared.domain.text.headings import common_path
from shared.domain.text.sentences import Sentence, sentences
from shared.domain.vectors import Vectors
from shared.providers.embedding import Embedder, cosines_of, embed_each, pack
from shared.query.retrieve.chunks import RetrievedChunk
from shared.vectors.hits import SectionKey
from shared.vectors.index import Index

MOST_CHARS = 100_000  # of white space in a section: no section may be longer
CHILDREN = 4  # chunks that are read for each section to return
_MAX_INPUTS, _MAX_TOKENS = 256, 32_000  # sentences in one request for embeddings


async def sections_of(
    index: Index, location: IndexLocation, chunks: Sequence[RetrievedChunk], payloads: Mapping[str, Any]
) -> list[RetrievedChunk]:
    """Replace each chunk by its section, each section once, for its best chunk.

    A chunk without a section is kept, and so is one whose section is incomplete: during an update of the document a
    section is complete only when all its chunks are stored.
    """
    best: dict[SectionKey, RetrievedChunk] = {}
    units: list[RetrievedChunk | SectionKey] = []
    for chunk in chunks:
        section = _section_of(chunk, payloads[chunk.chunk_id])
        if section is None:
            units.append(chunk)
        elif section not in best:
            best[section] = chunk
            units.append(section)
    parts = await index.section_payloads(location, list(best)) if best else {}
    return [_whole(best[unit], unit, parts.get(unit, ())) if isinstance(unit, SectionKey) else unit for unit in units]


def _section_of(chunk: RetrievedChunk, payload: Mapping[str, Any]) -> SectionKey | None:
    span = payload.get("section")
    return span and SectionKey(chunk.row_id, chunk.version, span["start"], span["end"])


def _whole(chunk: RetrievedChunk, section: SectionKey, parts: Sequence[Mapping[str, Any]]) -> RetrievedChunk:
    """Return the section, joined from its chunks; the chunk itself if a chunk of the section is missing."""
    parts = sorted(parts, key=lambda part: part["ordinal"])
    ordinals = [part["ordinal"] for part in parts]
    complete = (
        bool(parts)
        and ordinals == list(range(ordinals[0], ordinals[0] + len(parts)))
        and (parts[0]["span"][0], parts[-1]["span"][1]) == (section.start, section.end)
    )
    if not complete:
        return chunk
    content = replace(
        chunk.content.with_text(joined(parts), (section.start, section.end)),
        heading_path=common_path(part["heading_path"] for part in parts),
        page=parts[0]["page"],
    )
    return replace(chunk, content=content)


def joined(parts: Sequence[Mapping[str, Any]]) -> str:
    """Join the parts of a span; parts may overlap, and the white space between them was not stored.

    The result has at most `MOST_CHARS` of white space between parts, even if their spans are wrong.
    """
    texts, end = [str(parts[0]["text"])], parts[0]["span"][1]
    left = MOST_CHARS
    for part in parts[1:]:
        start, stop = part["span"]
        body = part["text"][len(part["text"]) - (stop - start) :]
        space = _white_space(min(start - end, max(left, len("\n\n"))))
        left -= len(space)
        texts += (space, body[max(0, end - start) :])
        end = max(end, stop)
    return "".join(texts)


def _white_space(chars: int) -> str:
    """Return this many characters of Markdown white space; the original white space is not stored."""
    return "" if chars <= 0 else "\n" if chars == 1 else "\n\n".ljust(chars, "\n")


async def windows_of(
    embedder: Embedder, question: Vectors, chunks: Sequence[RetrievedChunk], around: int
) -> list[RetrievedChunk]:
    """Narrow each chunk to the sentence nearest to the question, with neighbouring sentences.

    Args:
        embedder: embeds the sentences.
        question: vector of the question, shape `(dimensions,)`, unit length.
        chunks: the chunks to narrow.
        around: number of sentences on each side.

    Raises:
        Transient: the embedding provider is unavailable.
    """
    spans = [list(sentences(chunk.body)) for chunk in chunks]
    bodies = [chunk.body[s.start : s.end] for chunk, of_chunk in zip(chunks, spans, strict=True) for s in of_chunk]
    texts = embedder.prefixes.passages(bodies)
    cosines: list[float] = []
    for part in pack(texts, max_inputs=_MAX_INPUTS, max_tokens=_MAX_TOKENS):
        cosines += cosines_of(question, await embed_each(embedder, texts[part.start : part.stop]))
    narrowed = []
    for chunk, of_chunk in zip(chunks, spans, strict=True):
        of_sentences, cosines = cosines[: len(of_chunk)], cosines[len(of_chunk) :]
        narrowed.append(_window(chunk, of_chunk, of_sentences, around))
    return narrowed


def _window(chunk: RetrievedChunk, spans: Sequence[Sentence], cosines: Sequence[float], around: int) -> RetrievedChunk:
    if not spans:
        return chunk
    best = max(range(len(spans)), key=cosines.__getitem__)
    start, end = spans[max(0, best - around)].start, spans[min(len(spans) - 1, best + around)].end
    offset = chunk.span[0]
    content = chunk.content.with_text(chunk.body[start:end], (offset + start, offset + end))
    return replace(chunk, content=content)
