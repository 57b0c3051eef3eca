"""Requests and replies of collections."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from api.schemas.calibration import CalibrationView
from api.schemas.common import BodyModel, ReplyModel, example
from shared.domain.errors import InvalidInput
from shared.domain.filterable import MOST_FIELDS, FieldType
from shared.domain.states import DocumentState
from shared.ingest.generate import validate_template

_QUESTIONS_MAX = 20


def checked_template(value: str) -> str:
    """Check the placeholders of a prompt.

    Raises:
        ValueError: one is missing or unknown.
    """
    try:
        validate_template(value)
    except InvalidInput as error:
        raise ValueError(error.message) from None
    return value


def _question_count(value: object) -> object:
    # A validated union would report an error for each of its members; this reports one sentence.
    if value == "auto" or (type(value) is int and 1 <= value <= _QUESTIONS_MAX):
        return value
    raise ValueError(f"This is a whole number from 1 to {_QUESTIONS_MAX}, or auto.")


QuestionCount = Annotated[
    Annotated[int, Field(ge=1, le=_QUESTIONS_MAX)] | Literal["auto"], BeforeValidator(_question_count)
]


class CollectionChange(BodyModel):
    """A collection's options and embedding; an option that is absent or null uses the server's setting."""

    model_config = example(
        questions_per_chunk=5, chunk_max_chars=2000, chunk_overlap_chars=100, filterable={"department": "keyword"}
    )

    questions_per_chunk: QuestionCount | None = Field(None, description="auto: by the length of the chunk, 3 to 10")
    prompt: Annotated[str, AfterValidator(checked_template)] | None = Field(
        None, description="the model's instructions, with {text} and optionally {title}, {headings} and {count}"
    )
    chunk_max_chars: int | None = Field(None, ge=200, le=100_000)
    chunk_overlap_chars: int | None = Field(None, ge=0, le=10_000)
    prepend_questions: bool | None = Field(
        None, description="embed a chunk's text with its questions in front of it; default false"
    )
    section_max_chars: int | None = Field(
        None,
        ge=200,
        le=100_000,
        description="divide documents into sections of so many characters, and sections into chunks",
    )
    embedding: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="the name of the embedding for its texts and questions, of those that the server's settings"
        " describe; it is chosen before the first document, and where absent stays as it is",
    )
    filterable: dict[str, FieldType] | None = Field(
        None,
        max_length=MOST_FIELDS,
        description="fields of the metadata that filters find by an index; before the first document more can be added,"
        " and those that are declared stay",
    )


class CollectionOptionsView(ReplyModel):
    questions_per_chunk: int | Literal["auto"] | None
    prompt: str | None
    chunk_max_chars: int | None
    chunk_overlap_chars: int | None
    prepend_questions: bool | None
    section_max_chars: int | None
    filterable: dict[str, FieldType] = Field(description="the metadata fields that are declared, with their types")


class CollectionView(ReplyModel):
    model_config = example(
        name="handbook",
        embedding_model="text-embedding-3-small",
        options={
            "questions_per_chunk": 5,
            "prompt": None,
            "chunk_max_chars": 2000,
            "chunk_overlap_chars": 100,
            "prepend_questions": None,
            "section_max_chars": None,
            "filterable": {"department": "keyword", "year": "integer"},
        },
        created_at="2026-10-01T09:00:00Z",
        languages=["de", "en"],
        documents={"ready": 12, "searchable": 1},
        points=310,
        points_age_seconds=0.8,
    )

    name: str
    embedding_model: str = Field(description="the name of its embedding")
    options: CollectionOptionsView = Field(description="null: the server's setting applies")
    created_at: datetime
    languages: list[str] = Field(description="in which it has had texts, as ISO 639-1 names them")
    notice: str | None = Field(None, description="what its texts ask for that its embedding has not")
    documents: dict[DocumentState, int] = Field(
        description="how many are in each state; states without documents are absent"
    )
    points: int | None = Field(
        description="points in Qdrant, counted again when a document finishes; null while Qdrant is unavailable"
    )
    points_age_seconds: float | None = Field(
        None, description="time since the start of that count, some seconds at most if the collection is small"
    )
    calibration: CalibrationView | None = Field(None, description="null: the channels' weights are equal")


class ReindexReply(ReplyModel):
    model_config = example(documents=1250)

    documents: int = Field(description="how many documents begin their next version")


class CollectionPage(ReplyModel):
    items: list[CollectionView]
    next_cursor: str | None = Field(description="null on the last page")
