"""Reuse of vectors in Qdrant: of the same text or question in this version, another version or another build.

A vector is reused only if exactly the same text was embedded by the same embedding. If the lookup fails, the text is
embedded again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence

import structlog

from shared.domain.corpus.ids import accepted_id, accepted_point_id, chunk_point_id, question_point_id
from shared.domain.errors import ForeaskError
from shared.domain.stages.indexing import ChunkToIndex, EmbeddedChunk
from shared.domain.stages.work import Lease
from shared.domain.vectors import Vectors
from shared.ledger.work.indexing import IndexWork
from shared.vectors.hits import StoredVector
from shared.vectors.index import Index

_READ_SECONDS = 5.0  # if Qdrant is slower, embedding again is cheaper

Key = tuple[Lease, str | None]
"""A chunk by its lease, and one of its questions; None: its text."""
_Points = dict[str, set[Key]]  # points that may have the required vectors

log = structlog.get_logger()


async def stored_vectors(
    work: IndexWork, index: Index, needed: Sequence[tuple[ChunkToIndex, Sequence[str]]]
) -> Mapping[Key, Vectors]:
    """Return existing vectors of the texts of chunks and of these questions, each of shape `(dimensions,)`.

    The ledger is read for chunks of collections with several builds and for edits; Qdrant once per Qdrant collection.
    """
    # Builds may have different descriptions of the same picture.
    texts = [(chunk, questions) for chunk, questions in needed if chunk.content.picture is None]
    embedded = await _embedded(work, [chunk for chunk, _ in texts if chunk.hidden or chunk.of_several_builds])
    points: dict[str, _Points] = defaultdict(lambda: defaultdict(set))
    for chunk, questions in texts:
        of_index = points[chunk.index_name]
        if chunk.has_text:
            of_index[chunk_point_id(chunk.lease.id, chunk.lease.version)].add((chunk.lease, None))
        _add_points(of_index, chunk, questions, embedded.get(chunk.lease, ()))
    names = [name for name, of_index in points.items() if of_index]
    found = await asyncio.gather(*(_read(index, name, list(points[name])) for name in names))
    return {
        key: stored.vector
        for name, vectors in zip(names, found, strict=True)
        for point, stored in vectors.items()
        for key in points[name][point]
        if key[1] == stored.question
    }


def _add_points(
    points: _Points, chunk: ChunkToIndex, questions: Sequence[str], embedded: Sequence[EmbeddedChunk]
) -> None:
    """Add the points of the first chunk for the text, and of the first that has it for each question."""
    missing = set(questions)
    for index, source in enumerate(embedded):
        if index == 0 and not chunk.has_text:
            points[chunk_point_id(source.id, source.version)].add((chunk.lease, None))
        for ordinal, question in enumerate(source.questions):
            if question in missing:
                missing.remove(question)
                points[question_point_id(source.id, source.version, ordinal)].add((chunk.lease, question))
        for accepted in chunk.accepted:
            point = accepted_point_id(accepted_id(source.id, accepted.question), source.version)
            points[point].add((chunk.lease, accepted.question))


async def _embedded(work: IndexWork, chunks: Sequence[ChunkToIndex]) -> Mapping[Lease, Sequence[EmbeddedChunk]]:
    if not chunks:
        return {}
    try:
        return await work.find_embedded(chunks)
    except ForeaskError as error:
        log.warning("vectors.unknown", chunks=len(chunks), reason=error.message)
        return {}


async def _read(index: Index, name: str, points: Sequence[str]) -> Mapping[str, StoredVector]:
    try:
        async with asyncio.timeout(_READ_SECONDS):
            return await index.stored_vectors(name, points)
    except ForeaskError as error:  # a collection that Qdrant rejects must not delay others
        reason = error.message
    except TimeoutError:
        reason = "Qdrant did not answer in time"
    log.warning("vectors.unread", index=name, points=len(points), reason=reason)
    return {}
