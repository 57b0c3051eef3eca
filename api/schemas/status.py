"""Replies about open work, limits and costs."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal
from uuid import UUID

from pydantic import AliasPath, Field

from api.schemas.budgets import BudgetView
from shared.domain.queues import WorkQueue
from shared.http.schemas.common import ReplyModel, Seconds, example, example_of
from shared.http.schemas.estimates import StoredEstimateView

UsageKey = Literal["day", "collection", "model"]
UsageTier = Literal["standard", "flex", "batch"]

_TIER = "Service tier in which the provider served the calls"
_CACHED = "Part of the prompt tokens that was read from the provider's prompt cache"
_WITHHELD = "Syncs whose deletions need approval: see `POST /v1/sources/{name}/approve`"
_ESTIMATED = (
    "calls of attempts in which the provider reported no tokens: they are estimated by the texts, and with the highest"
    " possible number if a reply broke off or never arrived, because the provider may have charged for it"
)
_WRITTEN = "Part of the prompt tokens that was written to this cache"


class StageView(ReplyModel):
    """Documents that wait for `parse`, pages that wait for `read`, chunks that wait for `generate` and `index`."""

    due: int = Field(description="Ready to start, or waiting for a paused job")
    in_flight: int = Field(description="Being processed")
    delayed: int = Field(description="Waiting for a retry")
    oldest_seconds: Seconds | None = Field(validation_alias="oldest", description="Age of the oldest due item")


class UnservedView(ReplyModel):
    """Chunks waiting for an index worker with this embedding, which the API's settings do not contain."""

    embedding_model: str
    chunks: int


class LimitView(ReplyModel):
    name: str
    per_minute: int | None = Field(
        validation_alias="limit", description="Calls or tokens per minute; null if only calls in flight are limited"
    )
    used: int = Field(description="Use in the last minute")
    in_flight: int = Field(description="Running calls of all workers")
    in_flight_limit: int | None
    breaker: Literal["closed", "open", "half-open"]
    cooldown_seconds: Seconds = Field(
        validation_alias="cooldown",
        description="Remaining pause of all calls after a refusal: as long as the provider requested, or a default",
    )
    flex_pause_seconds: Seconds = Field(
        validation_alias="flex_pause",
        description="Remaining pause of calls in the service tier flex, because the provider has no capacity left in"
        " it",
    )
    reason: str | None = Field(
        description="Sentence of the last failure, with the provider's words; null after a call that succeeded"
    )
    failing_seconds: Seconds | None = Field(description="Time since the first of these failures; null without any")


class UsageView(ReplyModel):
    """Costs of all calls of a kind to a model in a tier, for a collection, independent of their results."""

    collection: str | None = Field(description="Name of the collection; null if it was deleted")
    kind: Literal["generate", "embed"]
    model: str
    tier: UsageTier = Field(description=_TIER)
    prompt_tokens: int = Field(validation_alias=AliasPath("usage", "prompt_tokens"))
    cached_tokens: int = Field(validation_alias=AliasPath("usage", "cached_tokens"), description=_CACHED)
    cache_write_tokens: int = Field(validation_alias=AliasPath("usage", "cache_write_tokens"), description=_WRITTEN)
    completion_tokens: int = Field(validation_alias=AliasPath("usage", "completion_tokens"))
    calls: int = Field(description="Number of calls; an embedding call for several collections counts for one of them")
    cost: float | None = Field(
        description="Cost in this tier by FOREASK_LLM_INPUT_PRICE, FOREASK_LLM_OUTPUT_PRICE and the price of the"
        " embedding, or by the list price in dollars; null if the price is unknown"
    )
    is_estimated: bool = Field(description=f"Whether these are {_ESTIMATED}")


class UsageGroupView(ReplyModel):
    """Costs of calls of a kind in a tier, grouped by day, collection or model. The other two fields are null."""

    day: date | None = Field(description="Day in UTC")
    collection: str | None = Field(description="Name of the collection; with `by=collection`, null if it was deleted")
    model: str | None
    kind: Literal["generate", "embed"]
    tier: UsageTier = Field(description=_TIER)
    prompt_tokens: int
    cached_tokens: int = Field(description=_CACHED)
    cache_write_tokens: int = Field(description=_WRITTEN)
    completion_tokens: int
    calls: int
    cost: float | None = Field(description="Cost of the calls with a known price; null if there are none")
    unpriced_calls: int = Field(description="Number of calls with an unknown price")
    estimated_calls: int = Field(description=f"Number of {_ESTIMATED}")


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
                "tier": "standard",
                "prompt_tokens": 104200,
                "cached_tokens": 0,
                "cache_write_tokens": 0,
                "completion_tokens": 14350,
                "calls": 252,
                "cost": 0.0242,
                "unpriced_calls": 0,
                "estimated_calls": 0,
            }
        ],
    )

    by: UsageKey
    days: int
    items: list[UsageGroupView] = Field(description="Ordered by day, or by name")


class WaitingSyncView(ReplyModel):
    """A sync whose deletions need approval."""

    model_config = example(
        source="wiki", collection="handbook", job_id="0198f3a1-77aa-7c3a-9d70-3c1b5e8f2a51", deletions=120
    )

    source: str
    collection: str
    job_id: UUID = Field(description="Job that waits for the approval")
    deletions: int = Field(description="Number of withheld deletions")


class ResumedView(ReplyModel):
    model_config = example(resumed=True)

    resumed: bool = Field(description="Whether the load was paused")


class MinuteView(ReplyModel):
    """Work that finished within a minute."""

    minute: datetime = Field(description="Start of the minute")
    chunks: int = Field(description="Number of indexed chunks")
    dead_chunks: int = Field(description="Number of chunks that became dead letters")
    documents: int = Field(description="Number of documents that became ready, with or without dead chunks")
    failed_documents: int = Field(description="Number of documents that could not be parsed")


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

    items: list[MinuteView] = Field(description="All minutes, oldest first; the last minute is incomplete")


PaceCause = Literal[
    "component_down",
    "idle",
    "breaker",
    "cooldown",
    "limit",
    "budget",
    "paused",
    "no_worker",
    "batches",
    "stalled",
    "working",
]


class PaceValues(ReplyModel):
    """The values of the sentence, so that a client can write it in another language; null if it has no such value."""

    component: Literal["llm", "embedding"] | None = Field(
        default=None, description="Provider that fails, pauses, or has no capacity"
    )
    reason: str | None = Field(default=None, description="Words of a provider or a component")
    pause_seconds: int | None = Field(default=None, description="Time until the next call")
    is_flex: bool = Field(default=False, description="Whether the service tier flex has no capacity left")
    limit: str | None = Field(default=None, description="Name of a limit, as in `limits`")
    used: int | None = None
    most: int | None = None
    unit: Literal["per_minute", "in_flight"] | None = Field(default=None, description="Unit of `used` and `most`")
    stage: WorkQueue | None = Field(default=None, description="Stage without a worker")
    embedding: str | None = Field(default=None, description="Embedding that no worker serves")
    waiting: int | None = Field(default=None, description="Number of items that wait for a worker")
    budget_id: UUID | None = Field(default=None, description="Id of the exhausted budget")
    in_progress: int | None = Field(default=None, description="Open work of all stages that is being processed")
    due: int | None = Field(default=None, description="Open work of all stages that is ready to start")
    delayed: int | None = Field(default=None, description="Open work of all stages that waits for another attempt")


class PaceView(ReplyModel):
    """The bottleneck of the work."""

    cause: PaceCause = Field(
        description="The main bottleneck; `working` if there is none, `stalled` if nothing has finished in the last"
        " minute for no known reason, `batches` if all open work waits for batches of the provider"
    )
    message: str = Field(description="The bottleneck as an English sentence")
    values: PaceValues
    down: list[str] = Field(description="Unavailable components: `broker`, `qdrant`, `uploads`")
    workers: dict[str, int] = Field(description="Number of running processes of each stage, for all tenants")


class StatusEvent(ReplyModel):
    """`status`: the open work, about once a second while there is any."""

    stages: dict[WorkQueue, StageView]
    dead: int
    chunks_per_minute: float
    eta_seconds: int | None
    pace: PaceView
    withheld: list[WaitingSyncView] = Field(description=_WITHHELD)


class ProgressEvent(ReplyModel):
    """`progress`: the number of documents in each state."""

    documents: dict[str, int]
    more: bool = Field(default=False, description="`true` if more documents have changed than were sent")


class DamageView(ReplyModel):
    """A collection whose index may differ from the ledger, and that is being repaired without a call of the model."""

    collection: str
    cause: Literal["failover", "lost_points"] = Field(
        description="`failover`: PostgreSQL may have lost changes that the index has; `lost_points`: Qdrant lacks"
        " points of finished documents"
    )
    since: datetime
    message: str = Field(validation_alias="sentence")


class StatusView(ReplyModel):
    model_config = example(
        documents={"searchable": 12, "ready": 240},
        stages={
            "parse": {"due": 3, "in_flight": 2, "delayed": 0, "oldest_seconds": 1.2},
            "read": {"due": 0, "in_flight": 0, "delayed": 0, "oldest_seconds": None},
            "generate": {"due": 810, "in_flight": 64, "delayed": 4, "oldest_seconds": 31.5},
            "index": {"due": 0, "in_flight": 12, "delayed": 0, "oldest_seconds": None},
        },
        unserved=[],
        dead=1,
        chunks_per_minute=2310.0,
        eta_seconds=23,
        pace={
            "cause": "limit",
            "message": "Llm requests: 2,310 of 2,400 per minute are used.",
            "values": {"limit": "llm requests", "used": 2310, "most": 2400, "unit": "per_minute"},
            "down": [],
            "workers": {"parse": 1, "read": 1, "generate": 2, "index": 1},
        },
        usage=[
            {
                "collection": "handbook",
                "kind": "generate",
                "model": "gpt-5-mini",
                "tier": "standard",
                "prompt_tokens": 104200,
                "cached_tokens": 0,
                "cache_write_tokens": 0,
                "completion_tokens": 14350,
                "calls": 252,
                "cost": 0.0242,
                "is_estimated": False,
            }
        ],
        estimates=[],
        budgets=[example_of(BudgetView)],
        withheld=[],
        outdated={"handbook": 17},
        damaged=[
            {
                "collection": "handbook",
                "cause": "lost_points",
                "since": "2026-10-01T08:30:00Z",
                "message": "The index has lost points of finished documents: they are being written again. Results are"
                " incomplete.",
            }
        ],
        limits=[
            {
                "name": "llm requests",
                "per_minute": 2400,
                "used": 2310,
                "in_flight": 37,
                "in_flight_limit": None,
                "breaker": "closed",
                "cooldown_seconds": 0.0,
                "flex_pause_seconds": 0.0,
                "reason": None,
                "failing_seconds": None,
            }
        ],
    )

    documents: dict[str, int] = Field(description="Number of documents in each state")
    stages: dict[WorkQueue, StageView]
    unserved: list[UnservedView] = Field(description="Chunks that wait for a worker with their embedding")
    dead: int = Field(
        description="Number of failed documents, unread pages and dead chunks, which GET /v1/dead-letters lists"
    )
    chunks_per_minute: float = Field(description="Pace of the last minutes")
    eta_seconds: int | None = Field(
        description="Time for the open chunks and the expected chunks of documents that are not parsed, at this pace;"
        " null without evidence, or while something stops the work"
    )
    pace: PaceView
    usage: list[UsageView] = Field(description="Costs of ingestion since the first upload")
    estimates: list[StoredEstimateView] = Field(
        description="Estimates of the last loads, at most a month old, with the costs billed since their start"
    )
    budgets: list[BudgetView] = Field(description="The tenant's budgets, as `GET /v1/budgets` lists them")
    withheld: list[WaitingSyncView] = Field(description=_WITHHELD)
    outdated: dict[str, int] = Field(
        description="Number of documents that an older reader has read, by collection: `POST"
        " /v1/collections/{name}/reindex?outdated=true` reads them again"
    )
    damaged: list[DamageView] = Field(
        description="Collections whose index is being compared with the ledger and repaired, because it lost points, or"
        " because PostgreSQL failed over: `GET /v1/collections/{name}/verify` has the progress"
    )
    limits: list[LimitView] | None
