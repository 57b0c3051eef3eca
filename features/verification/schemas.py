"""Requests and replies of a collection's verification."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import Field

from shared.http.schemas.common import CHUNK_ID, DOCUMENT_ID, POINT_ID, BodyModel, ReplyModel, example
from shared.http.schemas.jobs import RunPhase


class VerifyBody(BodyModel):
    """How to compare a collection with Qdrant."""

    model_config = example(repair=True)

    repair: bool = Field(default=False, description="Repair the differences. By default nothing is changed")
    cursor: str | None = Field(
        None, max_length=3000, description="`cursor` of the last `progress` event; resumes a failed verification"
    )


class OperatorVerifyBody(BodyModel):
    """How to compare a tenant's collection with Qdrant."""

    model_config = example(repair=True)

    repair: bool = Field(default=False, description="Repair the differences. By default nothing is changed")


class FindingView(ReplyModel):
    """A point that differs."""

    model_config = example(
        kind="missing",
        reason="not stored",
        point_id=POINT_ID,
        document_id=DOCUMENT_ID,
        chunk_id=CHUNK_ID,
        repaired=True,
    )

    kind: Literal["missing", "stale", "orphaned"]
    reason: str
    point_id: str
    document_id: UUID | None
    chunk_id: UUID | None
    repaired: bool = Field(
        description="Whether the point was deleted or shown, or its chunk will be indexed again without a model call"
    )


class VerificationCountsView(ReplyModel):
    """Counts of a verification, intermediate or final."""

    model_config = example(documents=1250, points=31000, missing=6, stale=0, orphaned=2, repaired=8)

    documents: int = Field(description="Number of compared documents; documents being processed are skipped")
    points: int = Field(description="Number of stored points")
    missing: int = Field(description="Points that should be stored but are not")
    stale: int = Field(
        description="Points of an old version, title or metadata, or hidden points that queries should see"
    )
    orphaned: int = Field(description="Stored points whose document, chunk or question is not in the ledger")
    repaired: int


class VerificationProgress(VerificationCountsView):
    model_config = example(
        documents=1250,
        points=31000,
        missing=6,
        stale=0,
        orphaned=2,
        repaired=8,
        state="running",
        cursor="WyJwb2ludHMiXQ",
    )

    state: RunPhase = Field(description="`queued`: it waits for a free slot of an index worker")
    cursor: str | None = Field(
        description="Pass it to another request to resume from here if the verification fails; null for operators"
    )


class VerificationReply(VerificationCountsView):
    model_config = example(documents=1250, points=31000, missing=6, stale=0, orphaned=2, repaired=8, findings=[])

    findings: list[FindingView] = Field(description="The first 1,000 findings")


class VerificationRunView(VerificationReply):
    """The newest verification of a collection."""

    model_config = example(
        documents=1250,
        points=31000,
        missing=6,
        stale=0,
        orphaned=2,
        repaired=8,
        findings=[],
        repair=True,
        state="done",
        error=None,
        created_at="2026-10-01T09:30:00Z",
        ended_at="2026-10-01T09:41:00Z",
    )

    repair: bool
    state: RunPhase
    error: str | None
    created_at: datetime
    ended_at: datetime | None
