"""Replies to the operator: states and counts of tenants, without their contents."""

from __future__ import annotations

from pydantic import Field

from api.schemas.status import StageView
from shared.domain.queues import WorkQueue
from shared.http.schemas.common import ReplyModel, example

_STAGES = {
    "parse": {"due": 3, "in_flight": 2, "delayed": 0, "oldest_seconds": 1.2},
    "read": {"due": 0, "in_flight": 0, "delayed": 0, "oldest_seconds": None},
    "generate": {"due": 810, "in_flight": 64, "delayed": 4, "oldest_seconds": 31.5},
    "index": {"due": 0, "in_flight": 12, "delayed": 0, "oldest_seconds": None},
}


class TenantView(ReplyModel):
    """The state of a tenant."""

    model_config = example(
        tenant="acme", documents={"ready": 240}, chunks={"indexed": 3021, "dead": 1}, stages=_STAGES, dead=1
    )

    tenant: str
    documents: dict[str, int] = Field(description="Number of documents in each state")
    chunks: dict[str, int]
    stages: dict[WorkQueue, StageView]
    dead: int = Field(description="Number of failed documents, unread pages and dead chunks")


class TenantPage(ReplyModel):
    items: list[TenantView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")


class DeploymentView(ReplyModel):
    """The state of all tenants together."""

    model_config = example(
        tenants=12,
        documents={"ready": 24000, "failed": 3},
        chunks={"indexed": 310000, "generating": 878, "dead": 7},
        open={"parse": 5, "read": 0, "generate": 878, "index": 12},
        workers_wanted={"parse": 1, "read": 1, "generate": 4, "index": 1},
        dead=10,
    )

    tenants: int = Field(description="Number of tenants with a collection")
    documents: dict[str, int] = Field(description="Number of documents in each state")
    chunks: dict[str, int]
    open: dict[WorkQueue, int] = Field(
        description="Number of documents, pages and chunks that wait for a stage or are being processed by it"
    )
    workers_wanted: dict[WorkQueue, int] | None = Field(
        description="Number of workers that each stage can use; null until it is computed"
    )
    dead: int = Field(description="Number of failed documents, unread pages and dead chunks")


class TenantCollectionView(ReplyModel):
    """A collection of a tenant."""

    model_config = example(name="handbook", embedding_model="text-embedding-3-small", documents={"ready": 240})

    name: str
    embedding_model: str
    documents: dict[str, int] = Field(description="Number of documents in each state")


class TenantCollectionPage(ReplyModel):
    items: list[TenantCollectionView]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page")
