"""The request and the reply of comparing questions with texts and with stored chunks."""

from __future__ import annotations

from typing import Annotated, Self
from uuid import UUID

from pydantic import Field, model_validator

from shared.http.schemas.common import BodyModel, CollectionName, ReplyModel, example
from shared.query.retrieve import QuestionOrigin

_MOST_CHARS = 200_000
_MOST = 50
_Question = Annotated[str, Field(min_length=1, max_length=10_000, pattern=r"\S")]


class ComparedTextBody(BodyModel):
    text: str = Field(min_length=1, max_length=20_000, pattern=r"\S")
    questions: list[_Question] = Field(
        [], max_length=20, description="Questions of the text, like the questions of a chunk"
    )


class SimilarityBody(BodyModel):
    """Questions, and texts or stored chunks to compare them with."""

    model_config = example(
        questions=["How much leave do I get?"],
        texts=[{"text": "All staff get 30 days of leave a year.", "questions": ["How many days of leave do I get?"]}],
    )

    questions: list[_Question] = Field(min_length=1, max_length=12)
    texts: list[ComparedTextBody] = Field([], max_length=_MOST)
    chunk_ids: list[Annotated[UUID, Field(strict=False)]] = Field(
        [], max_length=_MOST, description="Chunks of the `collection`, which are compared by their stored vectors"
    )
    collection: CollectionName | None = Field(
        None, description="Collection with the embedding to use; null for the default embedding"
    )

    @model_validator(mode="after")
    def _require_bound(self) -> Self:
        chars = sum(len(text.text) + sum(map(len, text.questions)) for text in self.texts)
        if chars > _MOST_CHARS:
            raise ValueError(f"The texts and their questions may have at most {_MOST_CHARS:,} characters together.")
        if not 1 <= len(self.texts) + len(self.chunk_ids) <= _MOST:
            raise ValueError(f"Give 1 to {_MOST} `texts` and `chunk_ids` together.")
        if self.chunk_ids and self.collection is None:
            raise ValueError("`chunk_ids` need their collection: send its name as `collection`.")
        return self


class TextSimilarityView(ReplyModel):
    """The similarity of a text to the questions; item i of each list belongs to question i."""

    text: list[float] = Field(description="Cosines between questions and text")
    questions: list[list[float]] = Field(description="For each question, its cosines with the questions of the text")
    words: list[float] = Field(description="Share of the question's words that occur in the text")


class StoredQuestionView(ReplyModel):
    text: str | None = Field(description="null if it is a user's question, and the key lacks the scope `read`")
    source: QuestionOrigin
    cosines: list[float]


class ChunkSimilarityView(ReplyModel):
    """The similarity of a stored chunk to the questions; item i of each list belongs to question i."""

    chunk_id: UUID
    text: list[float] | None = Field(
        description="Cosines between questions and text; null if the chunk has no text vector"
    )
    questions: list[StoredQuestionView] = Field(
        description="Indexed questions of the chunk; users' questions come last"
    )
    words: list[float] = Field(description="Share of the question's words that occur in the passage")


class SimilarityReply(ReplyModel):
    model_config = example(
        embedding="default",
        items=[{"text": [0.71], "questions": [[0.93]], "words": [0.5]}],
        chunks=[],
        absent=[],
    )

    embedding: str
    items: list[TextSimilarityView] = Field(description="Item i belongs to text i")
    chunks: list[ChunkSimilarityView] = Field(description="Chunks that queries with this key can find, in order")
    absent: list[UUID] = Field(description="The other requested chunks")
