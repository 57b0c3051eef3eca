"""Collections: options, weights of the channels, baseline similarity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from shared.domain.corpus.filterable import FilterableField
from shared.domain.corpus.index_location import IndexLocation, index_location_of
from shared.domain.stored import known_fields


@dataclass(frozen=True, slots=True)
class CollectionOptions:
    """Options of chunking, OCR, pictures and question generation. None: use the setting."""

    questions_per_chunk: int | Literal["auto"] | None = None
    prompt: str | None = None
    chunk_max_chars: int | None = None
    chunk_overlap_chars: int | None = None
    prepend_questions: bool | None = None  # whether to embed the text with its questions; None: no
    section_max_chars: int | None = None
    ocr_languages: str | None = None  # languages of pages without texts, as `eng+deu`
    captions: bool | None = None  # whether pictures in documents are described
    context: bool | None = None  # whether the model also writes the context of a chunk; None: no
    filterable: tuple[FilterableField, ...] = ()  # in order of declaration


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the retrieval channels. Only their ratios matter; 0 excludes a channel."""

    questions: float = 1.0
    text: float = 1.0
    bm25: float = 1.0

    def weight(self, channel: Literal["questions", "text", "bm25"]) -> float:
        return {"questions": self.questions, "text": self.text, "bm25": self.bm25}[channel]


@dataclass(frozen=True, slots=True)
class Baseline:
    """Mean and standard deviation of the cosines of unrelated texts under an embedding model; 0 until measured."""

    similarity: float = 0.0
    spread: float = 0.0


class DamageCause(StrEnum):
    FAILOVER = "failover"  # PostgreSQL may have lost commits, whose points Qdrant still has
    LOST_POINTS = "lost_points"  # Qdrant lacks points of finished documents


@dataclass(frozen=True, slots=True)
class Damage:
    """A possible difference between a collection's points and the ledger, which the scheduler repairs by itself."""

    cause: DamageCause
    since: datetime

    @property
    def sentence(self) -> str:
        if self.cause is DamageCause.FAILOVER:
            return (
                "PostgreSQL failed over, or was restored, and may have lost changes: the index is compared with the"
                " ledger and repaired. Until then, results may contain deleted texts."
            )
        return "The index has lost points of finished documents: they are being written again. Results are incomplete."


@dataclass(frozen=True, slots=True)
class Collection:
    id: UUID
    tenant: str
    name: str
    options: CollectionOptions
    embedding_model: str
    index_name: str
    created_at: datetime
    calibration: Mapping[str, Any] | None = None  # channel weights and their measurements
    languages: tuple[str, ...] = ()  # languages detected in its texts so far
    metadata_fields: tuple[str, ...] = ()  # fields of its documents' metadata so far, undeclared ones too
    damage: Damage | None = None
    description: str | None = None  # its purpose, for people

    @property
    def location(self) -> IndexLocation:
        return index_location_of(self.index_name, self.tenant, self.id)

    @property
    def weights(self) -> Weights:
        weights = {} if self.calibration is None else self.calibration["weights"]
        return Weights(**known_fields(weights, Weights.__dataclass_fields__))

    @property
    def baseline(self) -> Baseline:
        """The cosines of questions with unrelated texts."""
        measured = self.calibration or {}
        return Baseline(measured.get("baseline_similarity", 0.0), measured.get("baseline_spread", 0.0))

    @property
    def is_labelled(self) -> bool:
        """Whether its calibration used labelled questions."""
        return self.calibration is not None and self.calibration.get("source", "labelled") == "labelled"
