"""Replies of erasures."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from shared.http.schemas.common import ReplyModel, example


class ErasureView(ReplyModel):
    model_config = example(
        id="0192f0c1-7e3b-7cc0-8a55-3f2b8f1f4a10",
        collection="handbook",
        document_id=None,
        state="running",
        documents_left=640,
        deleted={"documents": 1250},
        started_at="2026-10-01T09:00:00Z",
        finished_at=None,
    )

    id: UUID
    collection: str | None = Field(description="Collection to erase; null for a document or a tenant")
    document_id: UUID | None
    state: str = Field(description="`running` or `finished`")
    documents_left: int = Field(description="Number of document rows left, in all builds")
    deleted: dict[str, int] = Field(description="Number of deleted rows, by kind")
    started_at: datetime
    finished_at: datetime | None


class RemainingPartView(ReplyModel):
    """Leftovers in one part of an engine."""

    model_config = example(engine="postgresql", location="completions", count=0, unchecked=None)

    engine: str = Field(description="`postgresql`, `qdrant`, `valkey`, `uploads` or `provider`")
    location: str = Field(validation_alias="part", description="Table, Qdrant collection, keys, objects or files")
    count: int = Field(description="Number of leftovers; uploads and files are counted for all tenants")
    unchecked: str | None = Field(description="Reason why it was not checked; null if it was")


class RemainingDataView(ReplyModel):
    """Leftovers of a tenant."""

    model_config = example(
        tenant="acme",
        found=0,
        locations=[{"engine": "postgresql", "location": "completions", "count": 0, "unchecked": None}],
    )

    tenant: str
    found: int = Field(description="Total number of leftovers")
    locations: list[RemainingPartView] = Field(description="All searched locations, including those without leftovers")
