"""The request and the events of a trial."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from shared.domain.corpus.document_fields import MOST_TITLE_CHARS
from shared.http.schemas.chunks import ChunkContextView
from shared.http.schemas.collections import QuestionCount, checked_template
from shared.http.schemas.common import BodyModel, CollectionName, ReplyModel, example
from shared.http.schemas.queries import QueryUsage


class TrialBody(BodyModel):
    """A text, and the options for its questions. By default, the options of the collection or the settings apply."""

    model_config = example(
        text="# Leave\n\nAll staff get thirty days of leave a year.", collection="handbook", questions_per_chunk=3
    )

    text: str = Field(
        min_length=1,
        pattern=r"\S",
        description="Plain text or Markdown; its first 20,000 characters and 20 chunks are used",
    )
    title: str | None = Field(None, max_length=MOST_TITLE_CHARS)
    collection: CollectionName | None = Field(
        None, description="Collection with the options and embedding to use; null for the settings"
    )
    prompt: Annotated[str, AfterValidator(checked_template)] | None = Field(
        None, description="Instructions for the model, as in the options of a collection"
    )
    questions_per_chunk: QuestionCount | None = None
    chunk_max_chars: int | None = Field(None, ge=200, le=100_000)
    chunk_overlap_chars: int | None = Field(None, ge=0, le=10_000)
    context: bool | None = Field(
        None, description="Whether the model also writes the context of each chunk, as in the options of a collection"
    )


class TrialChunkEvent(ReplyModel):
    """`chunk`: a chunk of the text."""

    chunk: int = Field(description="Position in the text, from 0")
    total: int = Field(description="Number of chunks, at most 20")
    text: str
    title: str | None
    heading_path: list[str]
    span: tuple[int, int] = Field(description="Start and end in the text, in characters")


class TrialQuestionEvent(ReplyModel):
    """`question`: a generated question, not yet filtered."""

    chunk: int
    text: str


class TrialQuestionResult(ReplyModel):
    """A question with the result of the filter."""

    text: str
    passed: bool
    reason: str | None = Field(description="Reason why the filter dropped the question")
    similarity: float | None = Field(description="Cosine similarity to the text of the chunk")


class TrialScreenedEvent(ReplyModel):
    """`screened`: the filtered questions of a chunk, once per chunk."""

    chunk: int
    questions: list[TrialQuestionResult]
    usage: QueryUsage
    calls: int
    context: ChunkContextView | None = Field(description="Context of the chunk; null if none was requested or written")
    error: str | None = Field(description="Reason why the chunk has no questions, or the questions have no similarity")


class TrialDoneEvent(ReplyModel):
    """`done`: the summary of the trial."""

    chunks: int
    questions: int
    passed: int
    truncated: bool = Field(description="Whether the text was cut off after `characters`")
    characters: int = Field(description="Number of processed characters")
    usage: QueryUsage
    calls: int
    cost: float | None = Field(description="Cost of the calls; null if the price is unknown")
    milliseconds: float
