"""Matching of chunks between builds: the chunk of another build that corresponds to a chunk.

It belongs to the same document. It is the chunk with the same text; or, if the other build divides the same content
differently, the chunk that contains most of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from shared.domain.corpus.chunks import ChunkContent
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection


@dataclass(frozen=True, slots=True)
class ChunkedVersion:
    """A version of a document that a build has divided.

    Args:
        upload: name of its bytes; the spans of two versions are comparable if their bytes are the same.
        chunks: their contents, by their ids.
    """

    upload: str
    chunks: dict[UUID, ChunkContent]


SQL = statements.load(__file__, states.FRAGMENTS)


async def chunked_versions(connection: Connection, versions: Iterable[tuple[UUID, int]]) -> dict[UUID, ChunkedVersion]:
    """Return the divisions of document versions by document; versions without chunks are missing."""
    pairs = list(versions)
    parameters = {"ids": [document for document, _ in pairs], "versions": [version for _, version in pairs]}
    found: dict[UUID, ChunkedVersion] = {}
    for row in await connection.execute(SQL.chunks, parameters):
        document = found.setdefault(row.document_id, ChunkedVersion(row.upload, {}))
        document.chunks[row.id] = ChunkContent.from_json(row.content)
    return found


def counterpart(chunk: UUID, origin: ChunkedVersion, among: ChunkedVersion) -> UUID | None:
    """Return the chunk of another division that corresponds to a chunk, or None."""
    content = origin.chunks.get(chunk)
    if content is None:
        return None
    same = [identity for identity, other in among.chunks.items() if other.text == content.text]
    if same:
        return min(same, key=lambda identity: abs(among.chunks[identity].span[0] - content.span[0]))
    if origin.upload != among.upload:
        return None
    common = {identity: _common(content.span, other.span) for identity, other in among.chunks.items()}
    best = max(common, key=common.__getitem__, default=None)
    return best if best is not None and common[best] else None


async def in_live_build(connection: Connection, collection: UUID, live: UUID, chunk: UUID) -> UUID | None:
    """Return the chunk of the live build that corresponds to a chunk of another build, or None."""
    parameters = {"collection": collection, "live": live, "chunk": chunk}
    found = (await connection.execute(SQL.live_document, parameters)).one_or_none()
    if found is None:
        return None
    both = await chunked_versions(connection, [(found.other, found.other_version), (found.live, found.live_version)])
    if found.other not in both or found.live not in both:
        return None
    return counterpart(chunk, both[found.other], both[found.live])


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of characters that two spans have in common."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))
