"""The points in Qdrant: one per question and one per chunk.

A point belongs to one version, which is part of its id (`shared.domain.corpus.ids`). An edit that shares a chunk with
the visible version therefore writes other points for it.

Both kinds have the vector `dense`, the points of texts also `bm25`. Collections of all tenants share one Qdrant
collection, in which `group` names the build of the collection and the kind of point: one upsert writes chunks of many
collections, one request searches every channel, and a channel searches the graph of one group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.access.persons import NONE_NAMED
from shared.domain.corpus.chunks import ChunkContent, ChunkContext
from shared.domain.corpus.filterable import FilterableField
from shared.domain.corpus.ids import accepted_point_id, chunk_point_id, question_point_id
from shared.domain.corpus.index_location import IndexLocation
from shared.domain.corpus.questions import AcceptedQuestion, plain
from shared.domain.text.bm25 import document_vector
from shared.domain.vectors import Vectors
from shared.vectors.schema.fields import READERS, indexed_values, reader_numbers
from shared.vectors.schema.groups import group

EXTENDED = "extended"  # marks a text's point whose vector includes more than the text and cannot be reused for it


def with_questions(text: str, questions: Iterable[str]) -> str:
    """Return the text to embed for a chunk with prepended questions."""
    return "\n".join((*questions, text))


@dataclass(frozen=True, slots=True)
class Point:
    """A point in Qdrant's form; `vector` maps a vector's name to its values."""

    id: str
    vector: Mapping[str, Any]
    payload: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "vector": self.vector, "payload": self.payload}


@dataclass(frozen=True, slots=True)
class PointContext:
    """The payload fields of a chunk's points in addition to its content.

    Args:
        location: location of the collection's points.
        document_id: id of the document's row.
        public_id: the document's public id; None: the same.
        token: fencing token of the claim that writes the points.
        readable_by: stored readers of the document: see `shared.domain.access.persons`.
        filterable: metadata fields declared by its collection.
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
    readable_by: Sequence[str] = NONE_NAMED
    filterable: tuple[FilterableField, ...] = ()
    hidden: bool = False


def points_of(
    content: ChunkContent,
    context: PointContext,
    text_vector: Vectors | None,
    questions: Sequence[tuple[str, Vectors]],
    accepted: Sequence[tuple[AcceptedQuestion, Vectors]] = (),
    *,
    chunk_context: ChunkContext | None = None,
    extended: bool = False,
    given: bool = False,
    keeps_text: bool = False,
    disabled: Collection[str] = (),
) -> list[Point]:
    """Return the points of a chunk, of its questions and of its accepted questions.

    Args:
        content: the chunk; its fields are payload fields.
        context: the rest of the payload.
        text_vector: shape `(dimensions,)`, unit length; None if the text cannot be embedded: BM25 still finds it.
        questions: passed questions with their vectors, in the order of their ids.
        accepted: users' questions with their vectors.
        chunk_context: words that BM25 finds the text by, too.
        extended: whether the text's vector includes its questions or its context.
        given: whether `questions` were submitted with the document.
        keeps_text: whether Qdrant has the point of the text already: it is not among the returned points.
        disabled: questions in plain form whose points no search may find.
    """
    common: dict[str, Any] = {
        "tenant": context.location.tenant,
        "document_id": str(context.document_id),
        "chunk_id": str(context.chunk_id),
        "version": context.version,
        "token": context.token,
        "metadata": context.metadata,
        READERS: reader_numbers(context.readable_by),
        **indexed_values(context.filterable, context.metadata),
    }
    if context.hidden:
        common["hidden"] = True
    chunk, version = context.chunk_id, context.version
    points: list[Point] = []
    if not keeps_text:
        payload = common | {"group": group(context.location, "t")} | _payload(content, context)
        if extended:
            payload[EXTENDED] = True
        vectors = _chunk_vectors(content, chunk_context or ChunkContext(), text_vector)
        points.append(Point(chunk_point_id(chunk, version), vectors, payload))
    of_questions = common | {"group": group(context.location, "q")}
    source = {"source": "given"} if given else {}
    for ordinal, (text, vector) in enumerate(questions):
        identity = question_point_id(chunk, version, ordinal)
        payload = of_questions | {"question": text} | source
        if disabled and plain(text) in disabled:
            payload["group"] = group(context.location, "d")
        points.append(Point(identity, {"dense": vector}, payload))
    for question, vector in accepted:
        payload = of_questions | {"question": question.question, "source": "user"}
        points.append(Point(accepted_point_id(question.id, version), {"dense": vector}, payload))
    return points


def _chunk_vectors(content: ChunkContent, context: ChunkContext, text_vector: Vectors | None) -> dict[str, Any]:
    # Words of titles and headings often occur in questions.
    sparse = document_vector(context.around(content.passage), content.language)
    bm25 = {"bm25": {"indices": sparse.indices, "values": sparse.values}}
    return bm25 if text_vector is None else bm25 | {"dense": text_vector}


def _payload(content: ChunkContent, context: PointContext) -> dict[str, Any]:
    """Return the payload fields that only the chunk's own point has."""
    payload = content.as_json() | {
        "filename": context.filename,
        "external_id": context.external_id,
        "ordinal": context.ordinal,
        "created_at": context.created_at.isoformat(),
    }
    if context.public_id not in {None, context.document_id}:
        payload["public_id"] = str(context.public_id)
    return payload
