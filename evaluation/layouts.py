"""What is embedded of a passage and its questions, and the points that are made of it.

- `chunks`: as the product does it: the text and each question by itself.
- `joined`: all questions of a passage as one text, in the place of a question.
- `prepended`: the questions and then the text as one text in the place of the text, and each question by itself; the
  collection option `prepend_questions`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid5

import orjson

from evaluation.labelled import LabelledPassage
from evaluation.strategies import Layout
from shared.domain.chunks import ChunkContent
from shared.domain.records import Collection, CollectionOptions, Weights
from shared.domain.vectors import Vectors
from shared.query.retrieve import Channel
from shared.vectors.points import Point, PointContext, chunk_id, points_of, with_questions

TENANT = "evaluation"
_NAMESPACE = UUID("0d8c7c1e-52a4-4a4e-9a43-5b1f7f0f6b7d")  # any fixed one
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_VECTOR_OF: Mapping[Channel, str] = {"questions": "question", "text": "text", "bm25": "bm25"}
_FLOAT_BYTES, _TERM_BYTES = 4, 8  # a term of a sparse vector is a number and a weight


@dataclass(frozen=True, slots=True)
class EmbeddedPassage:
    """What a layout embeds of a passage: a text, or none, and questions."""

    text: str | None
    questions: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*(() if self.text is None else (self.text,)), *self.questions)


def embedded(layout: Layout, passage: LabelledPassage, questions: Sequence[str]) -> EmbeddedPassage:
    if layout == "chunks":
        return EmbeddedPassage(passage.text, tuple(questions))
    if layout == "joined":
        return EmbeddedPassage(None, ("\n".join(questions),) if questions else ())
    return EmbeddedPassage(with_questions(passage.text, questions), tuple(questions))


def collection(index_name: str, model: str, baseline: float) -> Collection:
    """A collection that no ledger knows, calibrated without labels."""
    own_id = uuid5(_NAMESPACE, index_name)
    calibration = {"weights": dataclasses.asdict(Weights()), "baseline": baseline}
    return Collection(own_id, TENANT, index_name, CollectionOptions(), model, index_name, _EPOCH, calibration)


def points(
    collection: Collection,
    ordinal: int,
    passage: LabelledPassage,
    parts: EmbeddedPassage,
    vectors: Mapping[str, Vectors],
) -> list[Point]:
    """The points of a passage; what the provider would not embed has no vector."""
    document_id = uuid5(collection.id, passage.id)
    context = PointContext(
        tenant=collection.tenant,
        document_id=document_id,
        chunk_id=chunk_id(collection.id, document_id, passage.text, 0),
        version=1,
        ordinal=ordinal,
        external_id=passage.id,
        created_at=collection.created_at,
    )
    questions = [(question, vectors[question]) for question in parts.questions if question in vectors]
    text_vector = None if parts.text is None else vectors.get(parts.text)
    return points_of(ChunkContent.whole(passage.text, passage.title), context, text_vector, questions)


@dataclass(slots=True)
class Footprint:
    """What must be stored for some channels: points, and bytes of their vectors, payloads and ids, without indexes."""

    channels: tuple[Channel, ...]
    points: int = 0
    bytes: int = 0

    def add(self, points: Iterable[Point]) -> None:
        wanted = {_VECTOR_OF[channel] for channel in self.channels}
        for point in points:
            vectors = [vector for name, vector in point.vector.items() if name in wanted]
            if vectors or "text" in point.payload:  # any hit leads to the text
                self.points += 1
                self.bytes += len(orjson.dumps(point.payload)) + len(UUID(point.id).bytes)
                self.bytes += sum(map(_vector_bytes, vectors))


def _vector_bytes(vector: Vectors | Mapping[str, Sequence[float]]) -> int:
    return len(vector["indices"]) * _TERM_BYTES if isinstance(vector, Mapping) else len(vector) * _FLOAT_BYTES
