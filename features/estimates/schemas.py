"""Requests and replies of estimates of a load or a rebuild."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from shared.http.schemas.collections import MigrationBody
from shared.http.schemas.common import BodyModel, CollectionName, ReplyModel, example
from shared.http.schemas.estimates import EstimateView

MOST_SAMPLES = 1_000


class SampleBody(BodyModel):
    """A planned document."""

    text: str
    title: str | None = None
    questions: int | None = Field(
        None, ge=0, description="Number of ready-made questions; null if the model generates them"
    )


class LoadBody(BodyModel):
    """Planned documents: their number, and their size or a sample."""

    count: int = Field(ge=1)
    bytes: int | None = Field(None, ge=0, description="Total size of the texts; null to extrapolate from the sample")
    sample: list[SampleBody] = Field([], max_length=MOST_SAMPLES)
    pages: int = Field(
        0,
        ge=0,
        le=10**9,
        description="Scanned pages of the documents, which are read by OCR. 2,000 characters are estimated for each, in"
        " addition to `bytes`",
    )

    @model_validator(mode="after")
    def _require_size(self) -> Self:
        if self.bytes is None and not self.sample:
            raise ValueError("Send `bytes`, or some of the documents as `sample`.")
        return self


class EstimateBody(BodyModel):
    model_config = example(collection="handbook", documents={"count": 12000, "bytes": 41000000})

    collection: CollectionName = "default"
    documents: LoadBody | None = Field(None, description="Documents to upload")
    migrate: MigrationBody | None = Field(None, description="Options of a rebuild of the collection")
    models: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        [], max_length=10, description="Further language models of the provider, to compare their list prices"
    )
    store: bool = Field(
        default=False,
        description="Store the estimate; GET /v1/status then compares it with the actual costs from now on",
    )

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        if (self.documents is None) == (self.migrate is None):
            raise ValueError("Send either `documents` or `migrate`.")
        return self


class FormEstimateFields(BaseModel):
    """The fields of a form of planned files."""

    model_config = ConfigDict(extra="forbid", frozen=True)  # the fields of a form are texts, including numbers

    collection: CollectionName = "default"
    count: int | None = Field(None, ge=1, le=10**9)


class FormEstimateView(ReplyModel):
    """The estimated cost of planned files whose text is known before parsing."""

    model_config = example(
        estimate={
            "documents": 2,
            "chunks": 9,
            "paid_chunks": 0,
            "calls": 9,
            "prompt_tokens": 6400,
            "completion_tokens": 1100,
            "embeddings": 63,
            "embedding_tokens": 4500,
            "points": 61,
            "exact": True,
            "llm_cost": 0.0043,
            "embedding_cost": None,
            "seconds": 2.4,
            "bottleneck": "llm tokens",
            "margin": None,
            "tiers": [],
        },
        left_out=["scan.pdf"],
    )

    estimate: EstimateView | None = Field(description="null if none of the files is plain text")
    left_out: list[str | None] = Field(description="Names of skipped files, whose text is known only after parsing")
