"""Tuning parameters, whose defaults suit all measured installations."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.settings.values import Duration, PositiveInt


class Tuning(BaseModel):
    """Parameters whose defaults suit all measured installations; tests and experiments set them, users rarely.

    Each field is the environment variable `FOREASK_TUNING__` + its name in capitals.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Work
    lease: Duration = Field(timedelta(seconds=30), description="duration of a claim unless its worker extends it")
    drain: Duration = Field(timedelta(seconds=20), description="time for which one task claims work before it yields")
    hang_timeout: Duration = Field(
        timedelta(seconds=60), description="a worker exits if its event loop is blocked for this time"
    )
    max_attempts: PositiveInt = Field(8, description="attempts before a chunk or document is a dead letter")
    retry_base: Duration = Field(
        timedelta(seconds=1), description="maximum of the first random pause; it doubles with each attempt"
    )
    retry_ceiling: Duration = Field(timedelta(minutes=5), description="maximum pause between attempts")
    reconcile_interval: Duration = Field(
        timedelta(seconds=2), description="pause of a step of the scheduler that found no more work"
    )
    broker_timeout: Duration = Field(
        timedelta(seconds=5), description="silence after which a connection to the broker counts as dead"
    )
    broker_pause: Duration = Field(timedelta(seconds=2), description="pause between a failed wake-up and the next one")
    transaction_timeout: Duration = Field(
        timedelta(seconds=20), description="time after which PostgreSQL cancels a transaction of the ledger"
    )

    # The API
    top_k_max: PositiveInt = Field(200, description="maximum chunks that a query may request")
    max_tokens_max: PositiveInt = Field(100_000, description="maximum tokens of texts that a query may request")
    accepted_per_chunk: PositiveInt = Field(
        10, description="maximum users' questions of a chunk; a new one replaces the oldest"
    )
    given_per_chunk: PositiveInt = Field(20, description="maximum ready-made questions of a chunk")

    # Models
    question_strategy: Literal["list", "per-question"] | None = Field(
        None, description="one call per chunk, or one call per question; default: by model"
    )
    embedding_batch_size: int = Field(256, gt=0, le=2048, description="inputs in one embedding request")
    embedding_batch_tokens: PositiveInt = Field(100_000, description="estimated tokens in one embedding request")
    embedding_max_in_flight: PositiveInt = Field(
        4, description="concurrent batches of 32 chunks per index worker and embedding"
    )
    similarity_floor: float | None = Field(
        None, ge=-1, le=1, description="a question that is less similar to its own chunk is dropped; default: by model"
    )
    limit_window: Duration = Field(
        timedelta(minutes=1), description="length of the window for declared limits per minute"
    )
    limit_burst: Duration = Field(
        timedelta(seconds=1), description="part of the window whose calls may be sent at once after a pause"
    )
    limit_jitter: Duration = Field(
        timedelta(seconds=2), description="maximum delay of a call to the provider relative to adjacent calls"
    )
    batch_min_chunks: PositiveInt = Field(500, description="fewer chunks in the batch lane are generated live")
    batch_max_chunks: int = Field(50_000, gt=0, le=50_000, description="chunks in one batch")
    batch_max_bytes: int = Field(
        64 * 1024 * 1024, gt=0, le=190_000_000, description="size of a batch's file, which is built in memory"
    )
    batch_wait: Duration = Field(
        timedelta(minutes=1), description="time without another chunk after which a batch is submitted"
    )
    batch_poll: Duration = Field(
        timedelta(minutes=1), description="shortest pause between two polls of a batch; it grows tenfold"
    )
    batch_list_lag: Duration = Field(
        timedelta(minutes=3), description="time after which the provider's list certainly contains a batch"
    )
    batch_stalled: Duration = Field(
        timedelta(hours=24), description="a batch without progress for this time is cancelled"
    )
    rewrite_budget: Duration = Field(timedelta(seconds=3), description="maximum time that a query waits for rewriting")
    rerank_budget: Duration = Field(timedelta(seconds=1), description="maximum time that a query waits for reranking")
    query_log_budget: Duration = Field(
        timedelta(milliseconds=500), description="maximum time that a query waits for its row in the query log"
    )
    rerank_candidates: int = Field(50, gt=0, le=1000, description="chunks of a query that are reranked")

    # Sources
    sync_deletion_after: Duration = Field(
        timedelta(hours=1), description="time between two listings that must lack an entry before it is deleted"
    )
    crawl_pause: Duration = Field(
        timedelta(seconds=1), description="pause between two requests to a host whose robots.txt has no Crawl-delay"
    )
    sync_timeout: Duration = Field(
        timedelta(minutes=2), description="time for which a sync retries while its source is unavailable"
    )
    sync_stalled: Duration = Field(
        timedelta(hours=1), description="a sync that lists, reads and saves nothing for this time fails"
    )
    sync_time_slice: Duration = Field(
        timedelta(minutes=2), description="time after which a sync gives way to another sync that waits"
    )
    sync_pause: Duration = Field(
        timedelta(seconds=10),
        description="pause of a sync while its tenant has too many open chunks, or the disk is full",
    )
    push_expires: Duration = Field(
        timedelta(hours=24), description="time without a page after which the open listing of a program fails"
    )
    sync_open_chunks: PositiveInt = Field(200_000, description="a tenant's open chunks above which its syncs pause")
    sync_free_disk: float = Field(
        0.1, ge=0, lt=1, description="free part of the disk of the uploads below which syncs pause"
    )

    # The sandbox of one parsed file
    parse_memory_bytes: PositiveInt = Field(1024 * 1024 * 1024, description="maximum memory for one file")
    parse_max_text_chars: PositiveInt = Field(20_000_000, description="a document with more text is rejected")
    parse_max_chunks: PositiveInt = Field(
        50_000, description="a document with more chunks is rejected, because each costs a call"
    )
