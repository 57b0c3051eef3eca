"""Layouts: the texts to embed of a passage and its questions, and the points that they become.

- `chunks`: the text and each question separately, as in the product.
- `joined`: all questions of a passage as one text, as if they were one question.
- `prepended`: the questions in front of the text as one text, and each question separately; the collection option
  `prepend_questions`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from uuid import UUID, uuid5

import orjson

from features.evaluation.strategies import Layout
from foreask_evaluation.labelled import LabelledPassage
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import Baseline, Collection, CollectionOptions, Weights
from shared.domain.corpus.ids import chunk_id
from shared.domain.vectors import Vectors
from shared.ingest.parse.chunks.languages import with_languages
from shared.providers.embedding import NO_PREFIXES, Input, Prefixes
from shared.query.retrieve import Channel
from shared.vectors.schema.points import Point, PointContext, points_of, with_questions

TENANT = "evaluation"
_NAMESPACE = UUID("0d8c7c1e-52a4-4a4e-9a43-5b1f7f0f6b7d")  # any fixed one
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_VECTOR_OF: Mapping[Channel, tuple[str, bool]] = {
    "questions": ("dense", False),
    "text": ("dense", True),
    "bm25": ("bm25", True),
}
"""The vector that a channel searches, and whether it is of a text."""
_FLOAT_BYTES, _TERM_BYTES = 4, 8  # a term of a sparse vector is a number and a weight


@dataclass(frozen=True, slots=True)
class EmbeddedPassage:
    """The texts to embed of a passage: a text, or none, and questions."""

    text: str | None
    questions: tuple[str, ...] = ()
    prefixes: Prefixes = NO_PREFIXES

    @property
    def text_input(self) -> Input | None:
        return None if self.text is None else self.prefixes.passage(self.text)

    @property
    def question_inputs(self) -> list[Input]:
        return self.prefixes.queries(self.questions)

    @property
    def inputs(self) -> list[Input]:
        """All texts with the prefixes of the model."""
        return [*([] if self.text_input is None else [self.text_input]), *self.question_inputs]


def layout_parts(layout: Layout, passage: LabelledPassage, questions: Sequence[str]) -> EmbeddedPassage:
    if layout == "chunks":
        return EmbeddedPassage(passage.text, tuple(questions))
    if layout == "joined":
        return EmbeddedPassage(None, ("\n".join(questions),) if questions else ())
    return EmbeddedPassage(with_questions(passage.text, questions), tuple(questions))


@cache
def content_of(passage: LabelledPassage) -> ChunkContent:
    """Return a passage as a chunk, in the language that the parser finds."""
    (content,) = with_languages([ChunkContent.whole(passage.text, passage.title)])
    return content


def layout_collection(
    index_name: str, model: str, baseline: Baseline, languages: Iterable[str | None] = ()
) -> Collection:
    """Return a collection without a ledger, calibrated without labels, of texts in these languages."""
    collection_id = uuid5(_NAMESPACE, index_name)
    calibration = {"weights": dataclasses.asdict(Weights()), "baseline_similarity": baseline.similarity}
    calibration["baseline_spread"] = baseline.spread
    known = tuple(sorted({language for language in languages if language}))
    return Collection(
        collection_id, TENANT, index_name, CollectionOptions(), model, index_name, _EPOCH, calibration, known
    )


def layout_points(
    collection: Collection,
    ordinal: int,
    passage: LabelledPassage,
    parts: EmbeddedPassage,
    vectors: Mapping[Input, Vectors],
) -> list[Point]:
    """Return the points of a passage; a text that the provider refused has no vector."""
    document_id = uuid5(collection.id, passage.id)
    context = PointContext(
        location=collection.location,
        document_id=document_id,
        chunk_id=chunk_id(collection.id, document_id, passage.text, 0),
        version=1,
        token=0,
        ordinal=ordinal,
        external_id=passage.id,
        created_at=collection.created_at,
    )
    asked = zip(parts.questions, parts.question_inputs, strict=True)
    questions = [(question, vectors[key]) for question, key in asked if key in vectors]
    text_vector = None if parts.text_input is None else vectors.get(parts.text_input)
    return points_of(content_of(passage), context, text_vector, questions)


@dataclass(slots=True)
class Footprint:
    """The storage that some channels need: points, and bytes of their vectors, payloads and ids, without indexes."""

    channels: tuple[Channel, ...]
    points: int = 0
    bytes: int = 0

    def add(self, points: Iterable[Point]) -> None:
        names = {_VECTOR_OF[channel] for channel in self.channels}
        for point in points:
            is_text = "text" in point.payload
            vectors = [vector for name, vector in point.vector.items() if (name, is_text) in names]
            if vectors or is_text:  # any hit leads to the text
                self.points += 1
                self.bytes += len(orjson.dumps(point.payload)) + len(UUID(point.id).bytes)
                self.bytes += sum(map(_vector_bytes, vectors))


def _vector_bytes(vector: Vectors | Mapping[str, Sequence[float]]) -> int:
    return len(vector["indices"]) * _TERM_BYTES if isinstance(vector, Mapping) else len(vector) * _FLOAT_BYTES
