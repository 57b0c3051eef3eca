"""Requests and replies of collections."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field

from shared.domain.corpus.filterable import MOST_FIELDS, FieldType
from shared.domain.corpus.metadata_fields import MOST_KNOWN_FIELDS
from shared.domain.errors import InvalidInput
from shared.domain.states import BuildState, DocumentState
from shared.http.schemas.calibration import CalibrationView
from shared.http.schemas.common import BodyModel, ReplyModel, example
from shared.ingest.generate.prompts import validate_template

_QUESTIONS_MAX = 20


def checked_template(value: str) -> str:
    """Check the placeholders of a prompt.

    Raises:
        ValueError: a placeholder is missing or unknown.
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
    raise ValueError(f"This must be an integer from 1 to {_QUESTIONS_MAX}, or auto.")


QuestionCount = Annotated[
    Annotated[int, Field(ge=1, le=_QUESTIONS_MAX)] | Literal["auto"], BeforeValidator(_question_count)
]


class OptionsBody(BodyModel):
    """Options and embedding of a collection or a build."""

    questions_per_chunk: QuestionCount | None = Field(
        None, description="Number of questions per chunk; `auto` selects 3 to 10 by the length of the chunk"
    )
    prompt: Annotated[str, AfterValidator(checked_template)] | None = Field(
        None, description="Instructions for the model; must contain {text}, may contain {title}, {headings} and {count}"
    )
    chunk_max_chars: int | None = Field(None, ge=200, le=100_000)
    chunk_overlap_chars: int | None = Field(None, ge=0, le=10_000)
    prepend_questions: bool | None = Field(
        None, description="Embed the text of a chunk with its questions in front; default false"
    )
    section_max_chars: int | None = Field(
        None,
        ge=200,
        le=100_000,
        description="Maximum length of a section: documents are divided into sections, and sections into chunks",
    )
    ocr_languages: str | None = Field(
        None,
        pattern=r"^[A-Za-z_]{3,20}(\+[A-Za-z_]{3,20}){0,9}$",
        description="Languages of scans, such as `eng+deu`: the names of Tesseract's data, which must be installed",
    )
    captions: bool | None = Field(
        None,
        description="Whether the model describes the pictures in PDF and Word files; it must be able to read pictures",
    )
    context: bool | None = Field(
        None,
        description="Whether the model also writes a line of context and search terms for each chunk, which are"
        " embedded and indexed with its text; default false",
    )
    embedding: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="Name of an embedding in the server's settings, used for texts and questions. It can be set only"
        " before the first document. If absent, the embedding is unchanged",
    )
    filterable: dict[str, FieldType] | None = Field(
        None,
        max_length=MOST_FIELDS,
        description="Metadata fields to index for filters. Fields can be added only before the first document; declared"
        " fields cannot be removed",
    )


class CollectionChange(OptionsBody):
    """Description, options and embedding of a collection. An absent or null option uses the server's setting."""

    model_config = example(
        description="Rules for staff, from the intranet",
        questions_per_chunk=5,
        chunk_max_chars=2000,
        chunk_overlap_chars=100,
        filterable={"department": "keyword"},
    )

    description: str | None = Field(
        None,
        max_length=500,
        description="Purpose of the collection, for people. If absent, it is unchanged; an empty text removes it",
    )


class MigrationBody(OptionsBody):
    """Options to change. Absent options are unchanged."""

    model_config = example(chunk_max_chars=1200, embedding="bge-m3")

    embedding: str | None = Field(
        None, description="Name of the new embedding; null to keep the collection's embedding"
    )


class CollectionOptionsView(ReplyModel):
    questions_per_chunk: int | Literal["auto"] | None
    prompt: str | None
    chunk_max_chars: int | None
    chunk_overlap_chars: int | None
    prepend_questions: bool | None
    section_max_chars: int | None
    ocr_languages: str | None
    captions: bool | None
    context: bool | None
    filterable: Annotated[dict[str, FieldType], BeforeValidator(dict)] = Field(
        description="Declared metadata fields and their types"
    )


_OPTIONS_IN_FORCE: dict[str, Any] = {
    "questions_per_chunk": 5,
    "prompt": "Write {count} questions that the chunk below answers.\n\n{text}",
    "instructions": "You write the questions that people will ask of a search engine.",
    "prompt_version": "2",
    "chunk_max_chars": 2000,
    "chunk_overlap_chars": 100,
    "prepend_questions": False,
    "section_max_chars": None,
    "ocr_languages": None,
    "captions": False,
    "context": False,
}


class OptionsInForceView(ReplyModel):
    """The value of each option, whether a collection or the server's settings have set it."""

    model_config = example(**_OPTIONS_IN_FORCE)

    questions_per_chunk: int | Literal["auto"]
    prompt: str = Field(description="Template of the prompt, with its placeholders")
    instructions: str = Field(description="Instructions that the model gets in front of every prompt")
    prompt_version: str = Field(
        description="Version of the instructions, with which all questions are generated again if it changes"
    )
    chunk_max_chars: int
    chunk_overlap_chars: int
    prepend_questions: bool
    section_max_chars: int | None = Field(description="null: documents are not divided into sections")
    ocr_languages: str | None = Field(description="null: the installed ones of English, German, French and Spanish")
    captions: bool
    context: bool


class NumberedStateView(ReplyModel):
    build: int
    state: BuildState


class CollectionView(ReplyModel):
    model_config = example(
        name="handbook",
        description="Rules for staff, from the intranet",
        embedding_model="text-embedding-3-small",
        options={
            "questions_per_chunk": 5,
            "prompt": None,
            "chunk_max_chars": 2000,
            "chunk_overlap_chars": 100,
            "prepend_questions": None,
            "section_max_chars": None,
            "ocr_languages": None,
            "captions": None,
            "context": None,
            "filterable": {"department": "keyword", "year": "integer"},
        },
        created_at="2026-10-01T09:00:00Z",
        languages=["de", "en"],
        metadata_fields=["department", "tags", "year"],
        documents={"ready": 12, "searchable": 1},
        points=310,
        points_age_seconds=0.8,
        chunks=48,
        builds=[{"build": 1, "state": "live"}],
        effective=_OPTIONS_IN_FORCE,
        defaults=_OPTIONS_IN_FORCE | {"questions_per_chunk": "auto"},
    )

    name: str
    description: str | None = Field(None, description="Purpose of the collection, for people")
    embedding_model: str = Field(description="Name of the embedding")
    options: CollectionOptionsView = Field(description="A null option uses the server's setting")
    created_at: datetime
    languages: list[str] = Field(description="Languages of the texts so far (ISO 639-1)")
    metadata_fields: list[str] = Field(
        description=f"Fields of the documents' metadata so far, with dots for nested ones; at most {MOST_KNOWN_FIELDS}"
    )
    notice: str | None = Field(
        None, description="Warning if the embedding does not suit the texts, or a cache of prompts the prompt"
    )
    documents: dict[DocumentState, int] = Field(
        description="Number of documents in each state; states without documents are absent"
    )
    points: int | None = Field(
        description="Number of points in Qdrant, counted again when a document finishes; null while Qdrant is"
        " unavailable"
    )
    points_age_seconds: float | None = Field(
        None, description="Time since the start of that count; a large collection is counted less often"
    )
    chunks: int | None = Field(
        None, description="Number of chunks among the points, counted in the same way; the others are questions"
    )
    calibration: CalibrationView | None = Field(
        None, description="Calibration of the channels; null if their weights are equal"
    )
    builds: list[NumberedStateView] = Field([], description="Builds of the collection, in order of number")
    effective: OptionsInForceView | None = Field(None, description="The options in force; null in lists")
    defaults: OptionsInForceView | None = Field(
        None, description="Values of options that a collection does not set, from the server's settings; null in lists"
    )


class ReindexReply(ReplyModel):
    model_config = example(documents=1250, job_id="0198f3a1-77aa-7c3a-9d70-3c1b5e8f2a51")

    documents: int = Field(description="Number of documents that start a new version")
    job_id: UUID = Field(description="Id of the job, for GET /v1/jobs/{id}")


class CollectionPage(ReplyModel):
    items: list[CollectionView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
