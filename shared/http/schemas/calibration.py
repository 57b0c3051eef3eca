"""Requests and replies of a collection's calibration."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from shared.domain.corpus.document_fields import MOST_ID_BYTES
from shared.domain.errors import InvalidInput
from shared.domain.stored import known_fields
from shared.http.schemas.common import BodyModel, ReplyModel, example


class LabelledQuestion(BodyModel):
    """A question with the chunks that answer it, or with documents, each chunk of which counts as an answer."""

    question: str = Field(min_length=1, max_length=10_000, pattern=r"\S")
    chunk_ids: list[Annotated[UUID, Field(strict=False)]] = Field([], max_length=100)
    external_ids: list[Annotated[str, Field(min_length=1, max_length=MOST_ID_BYTES)]] = Field([], max_length=100)

    @model_validator(mode="after")
    def _has_an_answer(self) -> Self:
        if not self.chunk_ids and not self.external_ids:
            raise InvalidInput("A labelled question needs chunk_ids or external_ids that answer it.", field="questions")
        return self


class CalibrateBody(BodyModel):
    """Labelled questions in users' words. Without them, the collection's own questions are used."""

    model_config = example(questions=[{"question": "How much leave do I get?", "external_ids": ["leave.md"]}] * 10)

    questions: list[LabelledQuestion] | None = Field(
        None, min_length=10, max_length=1_000, description="30 questions are enough for a useful result"
    )


class NDCG(ReplyModel):
    """nDCG@10 over the questions, with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


_INTERVAL = {"mean": 0.81, "low": 0.71, "high": 0.9}


class CalibrationView(ReplyModel):
    """The weights of a collection's channels, and the evidence for them."""

    model_config = example(
        weights={"questions": 2.0, "text": 1.0, "bm25": 0.5},
        questions=42,
        channels={"questions": _INTERVAL, "text": _INTERVAL, "bm25": _INTERVAL},
        equal=_INTERVAL,
        chosen=_INTERVAL,
        source="labelled",
        baseline_similarity=0.04,
        baseline_spread=0.09,
        chunks=310,
    )

    weights: dict[str, float] = Field(
        description="Weight of each channel; equal unless other weights were significantly better"
    )
    questions: int = 0
    channels: dict[str, NDCG] = Field({}, description="Quality of each channel on its own")
    equal: NDCG | None = Field(None, description="Quality with equal weights")
    chosen: NDCG | None = Field(
        None, description="Quality with these weights, measured on the questions that selected them"
    )
    source: Literal["labelled", "accepted", "generated", "texts"] = Field(
        "labelled",
        description="Origin of the questions. Generated questions do not change the weights. `texts`: the collection"
        " has too few questions, so only the baseline similarity is measured",
    )
    baseline_similarity: float = Field(
        0.0, description="Mean cosine between questions and unrelated texts, or between texts"
    )
    baseline_spread: float = Field(0.0, description="Standard deviation of these cosines")
    chunks: int = Field(0, description="Number of chunks in the collection at that time")

    @model_validator(mode="before")
    @classmethod
    def _without_fields_of_a_newer_release(cls, stored: object) -> object:
        return known_fields(stored, cls.model_fields) if isinstance(stored, dict) else stored
