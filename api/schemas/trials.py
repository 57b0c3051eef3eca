"""The request and the events of a trial."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from api.schemas.collections import QuestionCount, checked_template
from api.schemas.common import BodyModel, CollectionName, ReplyModel, example
from api.schemas.queries import QueryUsage


class TrialBody(BodyModel):
    """A text, and how its questions are to be written; by default as in the collection, else as in the settings."""

    model_config = example(
        text="# Leave\n\nEverybody has thirty days of leave a year.", collection="handbook", questions_per_chunk=3
    )

    text: str = Field(min_length=1, pattern=r"\S", description="plain or Markdown; 20,000 characters of it are tried")
    title: str | None = Field(None, max_length=1000)
    collection: CollectionName | None = Field(None, description="whose options and embedding; null: the settings'")
    prompt: Annotated[str, AfterValidator(checked_template)] | None = Field(
        None, description="the model's instructions, as a collection's"
    )
    questions_per_chunk: QuestionCount | None = None
    chunk_max_chars: int | None = Field(None, ge=200, le=100_000)
    chunk_overlap_chars: int | None = Field(None, ge=0, le=10_000)


class TrialChunkEvent(ReplyModel):
    """`chunk`: a chunk of the text."""

    chunk: int = Field(description="its place in the text, from 0")
    of: int = Field(description="how many chunks the text has")
    text: str
    title: str | None
    heading_path: list[str]
    span: tuple[int, int] = Field(description="in characters of the text")


class TrialQuestionEvent(ReplyModel):
    """`question`: a generated question, not yet filtered."""

    chunk: int
    text: str


class TrialQuestionResult(ReplyModel):
    """A question with the result of the filter."""

    text: str
    passed: bool
    reason: str | None = Field(description="why it was dropped")
    similarity: float | None = Field(description="to the text of its chunk, a cosine")


class TrialScreenedEvent(ReplyModel):
    """`screened`: the filtered questions of a chunk, once per chunk."""

    chunk: int
    questions: list[TrialQuestionResult]
    usage: QueryUsage
    calls: int
    error: str | None = Field(description="why it has no questions, or these no similarities")


class TrialDoneEvent(ReplyModel):
    """`done`: the trial is over."""

    chunks: int
    questions: int
    passed: int
    cut: bool = Field(description="whether the text was too long: what is behind `characters` was left out")
    characters: int = Field(description="of the text that were tried")
    usage: QueryUsage
    calls: int
    cost: float | None = Field(description="of these calls; null: no price is known")
    milliseconds: float
