"""Replies with estimates, which are also part of the status."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from shared.domain.spending.tiers import Tier
from shared.http.schemas.common import ReplyModel, example


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
