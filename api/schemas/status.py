"""The reply about open work and limits."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from pydantic import Field

from api.schemas.common import ReplyModel, example
from api.schemas.estimates import KeptEstimateView

UsageKey = Literal["day", "collection", "model"]


class StageView(ReplyModel):
    """Documents that wait for `parse`, chunks that wait for `generate` and `index`."""

    due: int = Field(description="may begin now")
    in_flight: int = Field(description="in work")
    later: int = Field(description="tried before, and due again later")
    oldest_seconds: float | None = Field(description="for how long the oldest has been due")


class UnservedView(ReplyModel):
    """Chunks waiting for an index worker with this embedding, which the API's settings do not contain."""

    embedding_model: str
    chunks: int


class LimitView(ReplyModel):
    name: str
    per_minute: int | None = Field(description="null: no rate is declared, so calls in flight are limited instead")
    used: int = Field(description="in the last minute")
    in_flight: int = Field(description="calls under way, of all workers together")
    in_flight_limit: int | None
    breaker: Literal["closed", "open", "half-open"]
    cooldown_seconds: float = Field(description="for how long the provider asked everyone to wait")


class UsageView(ReplyModel):
    """Costs of all calls of a kind to a model for a collection, independent of their results."""

    collection: str | None = Field(description="null: the collection is gone")
    kind: Literal["generate", "embed"]
    model: str
    prompt_tokens: int
    completion_tokens: int
    calls: int = Field(description="an embedding request for several collections counts for one of them")
    cost: float | None = Field(
        description="by FOREASK_LLM_INPUT_PRICE, FOREASK_LLM_OUTPUT_PRICE and the embedding's price, else by the list"
        " price in dollars; null: no price is known"
    )


class UsageGroupView(ReplyModel):
    """Costs of calls of a kind, by day, collection or model; fields that are not grouped by are null."""

    day: date | None = Field(description="in UTC")
    collection: str | None = Field(description="null with `by=collection`: the collection is gone")
    model: str | None
    kind: Literal["generate", "embed"]
    prompt_tokens: int
    completion_tokens: int
    calls: int
    cost: float | None = Field(description="of the calls whose price is known; null: of none it is")
    unpriced_calls: int = Field(description="calls whose price is not known")


class UsageReply(ReplyModel):
    model_config = example(
        by="day",
        days=30,
        items=[
            {
                "day": "2026-10-01",
                "collection": None,
                "model": None,
                "kind": "generate",
                "prompt_tokens": 104200,
                "completion_tokens": 14350,
                "calls": 252,
                "cost": 0.0242,
                "unpriced_calls": 0,
            }
        ],
    )

    by: UsageKey
    days: int
    items: list[UsageGroupView] = Field(description="days in their order; collections and models by name")


class MinuteView(ReplyModel):
    """Work that finished within a minute."""

    minute: datetime = Field(description="when it began")
    chunks: int = Field(description="that were indexed")
    dead_chunks: int = Field(description="that were given up")
    documents: int = Field(description="that became ready, with or without dead chunks")
    failed_documents: int = Field(description="that could not be read")


class HistoryReply(ReplyModel):
    model_config = example(
        items=[
            {
                "minute": "2026-10-01T08:30:00Z",
                "chunks": 2310,
                "dead_chunks": 0,
                "documents": 164,
                "failed_documents": 1,
            }
        ]
    )

    items: list[MinuteView] = Field(description="each minute, the oldest first; the last one is not over yet")


class BudgetView(ReplyModel):
    """The tenant's budget and costs of the day in UTC; null is no limit."""

    tokens_per_day: int | None = Field(description="of the language model, for the ingest")
    cost_per_day: float | None = Field(description="of the ingest")
    tokens: int = Field(description="spent today")
    cost: float = Field(description="spent today, without calls whose price is unknown")
    notice: str | None = Field(description="what waits because the budget is used up; null while there is room")


PaceCause = Literal["part_down", "idle", "breaker", "cooldown", "limit", "budget", "no_worker", "working"]


class PaceView(ReplyModel):
    """Why the work is not faster."""

    cause: PaceCause = Field(description="what holds it back most; working: nothing does")
    sentence: str
    down: list[str] = Field(description="parts that do not answer: `broker`, `qdrant`, `uploads`")
    workers: dict[str, int] = Field(description="how many processes of each stage are alive, of all tenants")


class StatusEvent(ReplyModel):
    """`status`: the open work, about once a second while there is any."""

    stages: dict[Literal["parse", "generate", "index"], StageView]
    dead: int
    chunks_per_minute: float
    eta_seconds: int | None
    pace: PaceView


class ProgressEvent(ReplyModel):
    """`progress`: how many documents are in each state."""

    documents: dict[str, int]
    more: bool = Field(default=False, description="absent or false: each document that changed is told")


class StatusView(ReplyModel):
    model_config = example(
        documents={"searchable": 12, "ready": 240},
        stages={
            "parse": {"due": 3, "in_flight": 2, "later": 0, "oldest_seconds": 1.2},
            "generate": {"due": 810, "in_flight": 64, "later": 4, "oldest_seconds": 31.5},
            "index": {"due": 0, "in_flight": 12, "later": 0, "oldest_seconds": None},
        },
        unserved=[],
        dead=1,
        chunks_per_minute=2310.0,
        eta_seconds=23,
        pace={
            "cause": "limit",
            "sentence": "Llm requests: 2,310 of the 2,400 that a minute may hold are used.",
            "down": [],
            "workers": {"parse": 1, "generate": 2, "index": 1},
        },
        usage=[
            {
                "collection": "handbook",
                "kind": "generate",
                "model": "gpt-5-mini",
                "prompt_tokens": 104200,
                "completion_tokens": 14350,
                "calls": 252,
                "cost": 0.0242,
            }
        ],
        estimates=[],
        budget={"tokens_per_day": 1000000, "cost_per_day": None, "tokens": 118550, "cost": 0.0242, "notice": None},
        limits=[
            {
                "name": "llm requests",
                "per_minute": 2400,
                "used": 2310,
                "in_flight": 37,
                "in_flight_limit": None,
                "breaker": "closed",
                "cooldown_seconds": 0.0,
            }
        ],
    )

    documents: dict[str, int] = Field(description="how many are in each state")
    stages: dict[Literal["parse", "generate", "index"], StageView]
    unserved: list[UnservedView] = Field(description="what waits for a worker that serves its embedding")
    dead: int = Field(description="documents that failed and chunks that are dead: GET /v1/dead lists them")
    chunks_per_minute: float = Field(description="chunks that ended in the last minute")
    eta_seconds: int | None = Field(description="how long the open chunks take at that rate")
    pace: PaceView
    usage: list[UsageView] = Field(description="of the ingest, since the beginning")
    estimates: list[KeptEstimateView] = Field(
        description="of the last loads, at most a month old, and what was billed since each began"
    )
    budget: BudgetView | None = Field(description="null: the tenant has none")
    limits: list[LimitView] | None
