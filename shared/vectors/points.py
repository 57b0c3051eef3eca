"""What stands in Qdrant: a point for each question and one for each chunk, and how their ids are made.

Question points carry the vector `question`, chunk points the vectors `text` and `bm25`; both kinds live in one
collection, so that one upsert writes a chunk whole, one filter deletes it, and one request searches every channel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from shared.domain.records import AcceptedQuestion, ChunkToIndex
from shared.domain.vectors import Vectors
from shared.text.bm25 import document_vector

_NAMESPACE = UUID("6ba1f1d2-3c0e-4f0e-9d53-0f8a3f6e7a11")  # any fixed one: ids must not change between releases


def chunk_id(collection_id: UUID, document_id: UUID, text: str, occurrence: int) -> UUID:
    """The id of the n-th chunk of a document with this text: the same in every version that has it."""
    return _uuid5(_NAMESPACE.bytes, f"{collection_id}/{document_id}/{occurrence}/{text}".encode())


def question_id(chunk: UUID, ordinal: int) -> str:
    return str(_uuid5(chunk.bytes, str(ordinal).encode()))


def _uuid5(namespace: bytes, name: bytes) -> UUID:
    """`uuid.uuid5`, which imports hashlib again for each of the millions of ids."""
    return UUID(bytes=hashlib.sha1(namespace + name, usedforsecurity=False).digest()[:16], version=5)


def with_questions(text: str, questions: Iterable[str]) -> str:
    """What is embedded of a chunk whose questions are prepended to its text."""
    return "\n".join((*questions, text))


@dataclass(frozen=True, slots=True)
class Point:
    """A point as Qdrant takes it; `vector` maps a vector's name to its values."""

    id: str
    vector: Mapping[str, Any]
    payload: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "vector": self.vector, "payload": self.payload}


def points_of(
    chunk: ChunkToIndex,
    text_vector: Vectors | None,
    questions: Sequence[str],
    question_vectors: Sequence[Vectors],
    accepted: Sequence[tuple[AcceptedQuestion, Vectors]] = (),
) -> list[Point]:
    """The points of a chunk, its kept questions and those of users.

    A chunk whose text cannot be embedded keeps its BM25 vector.
    """
    common: dict[str, Any] = {
        "tenant": chunk.tenant,
        "document_id": str(chunk.document_id),
        "chunk_id": str(chunk.lease.id),
        "version": chunk.lease.version,
        "heading_path": chunk.heading_path,
        "metadata": chunk.metadata,
    }
    if chunk.hidden:
        common["hidden"] = True
    sparse = document_vector(chunk.text)
    vector: dict[str, Any] = {"bm25": {"indices": sparse.indices, "values": sparse.values}}
    if text_vector is not None:
        vector["text"] = text_vector
    points = [Point(str(chunk.lease.id), vector, common | _chunk_payload(chunk))]
    for ordinal, (question, question_vector) in enumerate(zip(questions, question_vectors, strict=True)):
        payload = common | {"question": question}
        points.append(Point(question_id(chunk.lease.id, ordinal), {"question": question_vector}, payload))
    for own, question_vector in accepted:
        payload = common | {"question": own.question, "source": "user"}
        points.append(Point(str(own.id), {"question": question_vector}, payload))
    return points


def _chunk_payload(chunk: ChunkToIndex) -> dict[str, Any]:
    return {
        "text": chunk.text,
        "title": chunk.title,
        "filename": chunk.filename,
        "external_id": chunk.external_id,
        "ordinal": chunk.ordinal,
        "span": chunk.span,
        "page": chunk.page,
        "section": chunk.section and {"start": chunk.section[0], "end": chunk.section[1]},
        "created_at": chunk.created_at.isoformat(),
    }
