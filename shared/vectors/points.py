"""The points in Qdrant: one for each question and one for each chunk.

A point belongs to one version, which is a part of its id (`shared.domain.ids`). So an edit that shares a chunk with
what queries see writes other points for it.

Both kinds carry the vector `dense`, the points of texts `bm25` too. Collections of all tenants live in one collection
of Qdrant, in which `group` names the build of the collection and the kind of point: one upsert writes chunks of many
collections, one request searches every channel, and a channel searches the graph of one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.chunks import ChunkContent
from shared.domain.filterable import FilterableField
from shared.domain.ids import accepted_point_id, chunk_point_id, question_point_id
from shared.domain.index_location import IndexLocation
from shared.domain.questions import AcceptedQuestion
from shared.domain.vectors import Vectors
from shared.text.bm25 import document_vector
from shared.vectors.fields import indexed_values
from shared.vectors.groups import group

PREPENDED = "prepended"  # of a text's point, whose vector is then no use to who needs that of the text alone


def with_questions(text: str, questions: Iterable[str]) -> str:
    """The text to embed for a chunk whose questions are prepended."""
    return "\n".join((*questions, text))


@dataclass(frozen=True, slots=True)
class Point:
    """A point as Qdrant takes it; `vector` maps a vector's name to its values."""

    id: str
    vector: Mapping[str, Any]
    payload: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "vector": self.vector, "payload": self.payload}


@dataclass(frozen=True, slots=True)
class PointContext:
    """A chunk's place: the fields of its points beside its content.

    Args:
        document_id: the document's row in its build.
        public_id: the document's id for its owner; None: the same.
        token: the fencing token of the claim that writes the points.
        filterable: the fields of the metadata that its collection declares.
    """

    location: IndexLocation
    document_id: UUID
    chunk_id: UUID
    version: int
    token: int
    ordinal: int
    external_id: str
    created_at: datetime
    public_id: UUID | None = None
    filename: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    filterable: tuple[FilterableField, ...] = ()
    hidden: bool = False


def points_of(
    content: ChunkContent,
    context: PointContext,
    text_vector: Vectors | None,
    questions: Sequence[tuple[str, Vectors]],
    accepted: Sequence[tuple[AcceptedQuestion, Vectors]] = (),
    *,
    prepended: bool = False,
    given: bool = False,
) -> list[Point]:
    """The points of a chunk, of its questions and of the users' questions that it accepted.

    Args:
        content: the chunk; its fields are fields of the chunk's payload.
        context: the rest of the payload.
        text_vector: shape `(dimensions,)`, unit length; None where the text cannot be embedded: BM25 still finds it.
        questions: the questions that passed, each with its vector, in the order that their ids count.
        accepted: users' questions, each with its vector.
        prepended: whether the text's vector is that of the text with its questions in front.
        given: whether `questions` came with the document.
    """
    common: dict[str, Any] = {
        "tenant": context.location.tenant,
        "document_id": str(context.document_id),
        "chunk_id": str(context.chunk_id),
        "version": context.version,
        "token": context.token,
        "heading_path": content.heading_path,
        "metadata": context.metadata,
        **indexed_values(context.filterable, context.metadata),
    }
    if context.hidden:
        common["hidden"] = True
    chunk, version = context.chunk_id, context.version
    payload = common | {"group": group(context.location, "t")} | _payload(content, context)
    if prepended:
        payload[PREPENDED] = True
    of_questions = common | {"group": group(context.location, "q")}
    source = {"source": "given"} if given else {}
    points = [Point(chunk_point_id(chunk, version), _chunk_vectors(content, text_vector), payload)]
    for ordinal, (text, vector) in enumerate(questions):
        identity = question_point_id(chunk, version, ordinal)
        points.append(Point(identity, {"dense": vector}, of_questions | {"question": text} | source))
    for question, vector in accepted:
        payload = of_questions | {"question": question.question, "source": "user"}
        points.append(Point(accepted_point_id(question.id, version), {"dense": vector}, payload))
    return points


def _chunk_vectors(content: ChunkContent, text_vector: Vectors | None) -> dict[str, Any]:
    # Words of titles and headings are often those of a question.
    sparse = document_vector(content.passage, content.language)
    bm25 = {"bm25": {"indices": sparse.indices, "values": sparse.values}}
    return bm25 if text_vector is None else bm25 | {"dense": text_vector}


def _payload(content: ChunkContent, context: PointContext) -> dict[str, Any]:
    """The fields that the chunk's point has and the points of its questions lack."""
    payload = content.as_json() | {
        "filename": context.filename,
        "external_id": context.external_id,
        "ordinal": context.ordinal,
        "created_at": context.created_at.isoformat(),
    }
    if context.public_id not in {None, context.document_id}:
        payload["public_id"] = str(context.public_id)
    return payload
