"""Requests and replies of estimates of a load or a rebuild."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from shared.domain.tiers import Tier
from shared.http.schemas.collections import MigrationBody
from shared.http.schemas.common import BodyModel, CollectionName, ReplyModel, example

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


class TierEstimateView(ReplyModel):
    """The calls with a model in a tier."""

    model: str
    tier: Tier
    llm_cost: float | None = Field(
        description="Cost of the calls; null if the price is unknown. Models other than the server's have their list"
        " price in dollars, for the same number of tokens"
    )
    seconds: float | None = Field(
        description="Duration at the limits; null if unknown. It is the shortest one for `flex`, which waits for free"
        " capacity, and the longest one for `batch`"
    )
    bottleneck: str | None = Field(description="The limit that determines the duration")
    fills: int | None = Field(
        description="How often the calls fill the provider's queue of batches (FOREASK_LLM_BATCH_QUEUE_TOKENS)"
    )


class EstimateView(ReplyModel):
    model_config = example(
        documents=12000,
        chunks=25100,
        paid_chunks=0,
        calls=25100,
        prompt_tokens=17900000,
        completion_tokens=3100000,
        embeddings=175000,
        embedding_tokens=12400000,
        points=168000,
        exact=False,
        llm_cost=10.68,
        embedding_cost=None,
        seconds=1990.0,
        bottleneck="llm tokens",
        margin=0.04,
        tiers=[
            {"model": "gpt-4.1-mini", "tier": "flex", "llm_cost": 5.34, "seconds": 1990.0, "bottleneck": "llm tokens"}
            | {"fills": None}
        ],
    )

    documents: int
    chunks: int
    paid_chunks: int = Field(0, description="Chunks whose questions are paid for already")
    calls: int = Field(description="Calls to the language model; paid questions are reused without a call")
    prompt_tokens: int
    completion_tokens: int
    embeddings: int = Field(description="Number of texts and questions to embed")
    embedding_tokens: int
    points: int
    exact: bool = Field(
        description="Whether the number of calls is exact, because every chunk was counted and looked up"
    )
    llm_cost: float | None = Field(
        description="Cost in the tier of the ingest (FOREASK_LLM_TIER) by the configured prices, or by the list price"
        " in dollars; null if the price is unknown"
    )
    embedding_cost: float | None = Field(
        description="Cost by FOREASK_EMBEDDING_PRICE, or by the list price in dollars; null if the price is unknown"
    )
    seconds: float | None = Field(
        description="Duration at the configured limits; null if neither a limit nor a rate is known"
    )
    bottleneck: str | None = Field(description="The limit that determines the duration")
    margin: float | None = Field(
        None,
        description="Half of the 90 % interval of calls, tokens and costs, relative to them: 0.1 means ±10 %. null if"
        " the estimate is exact, or without a sample of several documents",
    )
    tiers: list[TierEstimateView] = Field([], description="The server's model and each requested one in every tier")
    pages: int = Field(0, description="Scanned pages to read by OCR; each takes about a second of one core")


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


class SpentView(ReplyModel):
    """Billed costs."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    embedding_tokens: int


class StoredEstimateView(ReplyModel):
    """The estimate at the start of a collection's last load, and the costs billed since."""

    collection: Annotated[str, Field(description="Name of the collection")]
    at: datetime
    estimate: EstimateView
    since: SpentView
