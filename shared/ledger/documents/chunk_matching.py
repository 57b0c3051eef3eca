"""Matching of chunks between builds: the chunk of another build that corresponds to a chunk.

It belongs to the same document. It is the chunk with the same text; or, if the other build divides the same content
differently, the chunk that contains most of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.chunks import ChunkContent
from shared.ledger.model import states


@dataclass(frozen=True, slots=True)
class Divided:
    """A version of a document that a build has divided.

    Args:
        upload: names its bytes: the spans of two versions with the same bytes can be compared.
        chunks: their contents, by their ids.
    """

    upload: str
    chunks: dict[UUID, ChunkContent]


# Read the chunks of versions of documents, in order.
_CHUNKS = text("""
    SELECT c.document_id, v.upload, c.id, t.content
    FROM unnest(CAST(:ids AS uuid[]), CAST(:versions AS int[])) AS o(document_id, version)
    JOIN document_versions v ON v.document_id = o.document_id AND v.version = o.version
    JOIN chunks c ON c.document_id = o.document_id AND c.version = o.version
    JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
    ORDER BY c.document_id, c.ordinal
""")

# Find the live document of a chunk of another build, and the version in which that build contains the chunk.
_DOCUMENTS = text(f"""
    SELECT o.id AS other, c.version AS other_version, d.id AS live, d.live_version
    FROM chunks c JOIN documents o ON o.id = c.document_id
    JOIN documents d ON d.public_id = o.public_id AND d.collection_id = :live AND {states.exists("d")}
    WHERE c.id = :chunk AND o.collection_id = :collection AND d.live_version IS NOT NULL
    ORDER BY c.version DESC LIMIT 1
""")


async def divided(connection: AsyncConnection, versions: Iterable[tuple[UUID, int]]) -> dict[UUID, Divided]:
    """Return the divisions of document versions by document; those without chunks are missing."""
    pairs = list(versions)
    parameters = {"ids": [document for document, _ in pairs], "versions": [version for _, version in pairs]}
    found: dict[UUID, Divided] = {}
    for row in await connection.execute(_CHUNKS, parameters):
        document = found.setdefault(row.document_id, Divided(row.upload, {}))
        document.chunks[row.id] = ChunkContent.from_json(row.content)
    return found


def counterpart(chunk: UUID, of: Divided, among: Divided) -> UUID | None:
    """Return the chunk of another division that stands for a chunk of one; None: there is none."""
    content = of.chunks.get(chunk)
    if content is None:
        return None
    same = [identity for identity, other in among.chunks.items() if other.text == content.text]
    if same:
        return min(same, key=lambda identity: abs(among.chunks[identity].span[0] - content.span[0]))
    if of.upload != among.upload:
        return None
    common = {identity: _common(content.span, other.span) for identity, other in among.chunks.items()}
    best = max(common, key=common.__getitem__, default=None)
    return best if best is not None and common[best] else None


async def in_live_build(connection: AsyncConnection, collection: UUID, live: UUID, chunk: UUID) -> UUID | None:
    """Return the chunk of the live build that stands for a chunk of another one; None: there is none."""
    parameters = {"collection": collection, "live": live, "chunk": chunk}
    found = (await connection.execute(_DOCUMENTS, parameters)).one_or_none()
    if found is None:
        return None
    both = await divided(connection, [(found.other, found.other_version), (found.live, found.live_version)])
    if found.other not in both or found.live not in both:
        return None
    return counterpart(chunk, both[found.other], both[found.live])


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many characters two spans have in common."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))
